// SPDX-License-Identifier: Apache-2.0
// Questions to ZooKeeper and its answers. The client's callbacks only note events; deliver() reports them.
#include <algorithm>
#include <new>
#include <utility>

#include "base/event_signal.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"

namespace ripc::internal::resolver {
namespace {

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Directory::Node node_of(const zk::Stat& stat) {
  Directory::Node node;
  node.created = static_cast<std::uint64_t>(stat.czxid);
  node.owner = static_cast<std::uint64_t>(stat.ephemeral_owner);
  node.born = stat.ctime;
  node.version = stat.version;
  return node;
}

template <typename RequestType>
RequestType& request_of(const void* data) noexcept {
  return *static_cast<RequestType*>(const_cast<void*>(data));  // NOLINT(cppcoreguidelines-pro-type-const-cast): ours
}

}  // namespace

void ZooKeeperDirectory::ask(Request request) {
  auto owned = std::make_unique<Request>(std::move(request));
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = asked_.empty();
    asked_.push_back(std::move(owned));
  }
  if (is_first) signal_event(wake_.get());
}

void ZooKeeperDirectory::get(std::string path, Read how, Done done) {
  ask({.path = options_.chroot + path, .how = how, .done = std::move(done)});
}

void ZooKeeperDirectory::children(std::string path, bool is_watched, Done done) {
  ask({.kind = Request::Kind::children,
       .path = options_.chroot + path,
       .how = is_watched ? Read::watched : Read::plain,
       .done = std::move(done)});
}

void ZooKeeperDirectory::commit(std::uint64_t session, std::vector<Write> writes, Done done) {
  for (Write& write : writes) write.path = options_.chroot + write.path;
  ask({.kind = Request::Kind::commit, .session = session, .writes = std::move(writes), .done = std::move(done)});
}

void ZooKeeperDirectory::sync(Done done) {
  ask({.kind = Request::Kind::sync, .path = options_.chroot.empty() ? "/" : options_.chroot, .done = std::move(done)});
}

void ZooKeeperDirectory::forget(std::string path) {
  ask({.kind = Request::Kind::forget, .path = options_.chroot + path});
}

// ---- To the client -------------------------------------------------------------------------------------------

void ZooKeeperDirectory::submit_all() {
  if (to_submit_.empty()) {
    const std::lock_guard lock(mutex_);
    to_submit_.swap(asked_);
  }
  if (to_submit_.empty()) return;
  // Not for the descriptor's sake: this keeps the other contexts of the process out of the library.
  fork_guard_.follow([&] {
    for (; !to_submit_.empty(); to_submit_.pop_front()) submit(to_submit_.front());
    return fd_;
  });
}

// If there is no memory for the request, it stays where it is, and so do those behind it.
void ZooKeeperDirectory::submit(std::unique_ptr<Request>& owned) {
  Request& request = *owned;
  request.directory = this;
  prepare(request);
  reserve_arrival();
  // Before the client has the request, because it may answer at any time.
  pending_.try_emplace(&request).first->second = std::move(owned);
  send(request);
}

// Takes all the memory that send() needs.
void ZooKeeperDirectory::prepare(Request& request) {
  if (request.kind == Request::Kind::commit) return prepare_commit(request);
  if (request.how == Read::exact) request.folders.assign(1, folder_of(request.path));
}

// An answer or an event that finds no memory could not be reported: reserves room for one more, and for the answers
// that are still to come.
void ZooKeeperDirectory::reserve_arrival() {
  const std::size_t needed = arrived_.size() + pending_.size() + 1;
  if (arrived_.capacity() < needed) arrived_.reserve(2 * needed);
}

void ZooKeeperDirectory::send(Request& request) {
  ++request.attempts;
  int code = zk::kOk;
  switch (request.kind) {
    case Request::Kind::get:
    case Request::Kind::children:
      code = submit_read(request);
      break;
    case Request::Kind::commit:
      // A handle has one session.
      if (request.session != session_) return finish(request, zk::kSessionMoved);
      code = library_->multi(handle_, static_cast<int>(request.operations.size()), request.operations.data(),
                             request.results.data(), &void_done, &request);
      break;
    case Request::Kind::sync:
      code = library_->sync(handle_, request.path.c_str(), &string_done, &request);
      break;
    case Request::Kind::forget:
      // It is no error if the watch has fired meanwhile.
      (void)library_->remove_watches(handle_, request.path.c_str(), zk::kAnyWatch, &watched, this, 0, &ignore_void,
                                     nullptr);
      pending_.erase(&request);
      return;
  }
  if (code != zk::kOk) finish(request, code);
}

int ZooKeeperDirectory::submit_read(Request& request) {
  const auto watch = request.how == Read::watched ? &watched : nullptr;
  if (request.kind == Request::Kind::children)
    return library_->children(handle_, request.path.c_str(), watch, this, &children_done, &request);
  if (request.how == Read::exact) {
    // First the folder: a change between the two reads changes its version.
    const int code =
        library_->exists(handle_, request.folders.front().c_str(), nullptr, nullptr, &folder_looked_at, &request);
    if (code != zk::kOk) return code;
  }
  const int code = library_->get(handle_, request.path.c_str(), watch, this, &get_done, &request);
  if (request.how != Read::exact) return code;
  // The answer to the first half still comes, and ends the request.
  request.failure = code;
  return zk::kOk;
}

void ZooKeeperDirectory::prepare_commit(Request& request) {
  using Kind = Write::Kind;
  const std::size_t most = 2 * request.writes.size();
  request.folders.clear();
  request.folders.reserve(most);
  request.operations.clear();
  request.operations.reserve(most);
  request.is_folder.clear();
  const auto next = [&](bool is_folder) {
    request.is_folder.push_back(is_folder);
    return &request.operations.emplace_back();
  };
  const Write* removed = nullptr;
  for (const Write& write : request.writes) {
    const char* const path = write.path.c_str();
    const auto size = static_cast<int>(write.data.size());
    if (write.kind == Kind::create || write.kind == Kind::replace || write.kind == Kind::remove) {
      const bool is_checked = removed != nullptr && removed->path == write.path;
      const char* const folder = request.folders.emplace_back(folder_of(write.path)).c_str();
      const auto is_next = [&](const Write& other) { return other.kind == Kind::create && other.path == write.path; };
      const bool is_takeover = write.kind == Kind::remove && std::ranges::any_of(request.writes, is_next);
      if (is_takeover || (write.kind == Kind::create && !is_checked)) {
        library_->set_op(next(true), folder, "", 0, is_takeover ? write.seen.guard : -1, nullptr);
      } else if (!is_checked) {
        library_->check_op(next(true), folder, write.seen.guard);
      }
    }
    switch (write.kind) {
      case Kind::create:
      case Kind::add:
        library_->create_op(next(false), path, write.data.data(), size, library_->open_access, zk::kEphemeral, nullptr,
                            0);
        break;
      case Kind::replace:
        library_->set_op(next(false), path, write.data.data(), size, write.seen.version, nullptr);
        break;
      case Kind::remove:
        library_->delete_op(next(false), path, write.seen.version);
        removed = &write;
        break;
      case Kind::drop:
        library_->delete_op(next(false), path, -1);
        break;
    }
  }
  request.results.assign(request.operations.size(), zk::OperationResult{});
}

// Makes the folders of new nodes, from the top down. It is no error if they exist; any other error counts only if the
// next attempt lacks a folder. A folder of nodes that come and go with their makers is removed with the last of them.
void ZooKeeperDirectory::make_folders(const Request& request) {
  for (const Write& write : request.writes) {
    if (write.kind != Write::Kind::create && write.kind != Write::Kind::add) continue;
    const std::string folder = folder_of(write.path);
    for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
      const bool is_last = end == std::string::npos;
      const int flags = is_last && write.kind == Write::Kind::add ? zk::kContainer : zk::kPersistent;
      (void)library_->create(handle_, folder.substr(0, end).c_str(), "", 0, library_->open_access, flags, &folder_made,
                             this);
      if (is_last) break;
    }
  }
}

// ---- From the client -----------------------------------------------------------------------------------------

bool ZooKeeperDirectory::has_missing_folder(const Request& request, int code) const {
  if (request.kind != Request::Kind::commit || code != zk::kNoNode) return false;
  for (std::size_t i = 0; i < request.results.size(); ++i) {
    if (request.results[i].error != zk::kNoNode) continue;
    if (request.is_folder[i]) return true;
    // A create_op fails with this code only for lack of its folder.
    return request.operations[i].type == zk::kCreateOperation;
  }
  return false;
}

// Someone else has removed a node that was to be dropped. True: the rest of the commit is to be made without it.
bool ZooKeeperDirectory::leaves_out(Request& request, int code) {
  if (request.kind != Request::Kind::commit || code != zk::kNoNode || request.writes.size() == 1) return false;
  const auto failed = std::ranges::find(request.results, zk::kNoNode, &zk::OperationResult::error);
  if (failed == request.results.end()) return false;
  // All operations begin with their path.
  const char* const path = request.operations[static_cast<std::size_t>(failed - request.results.begin())].create.path;
  const auto is_it = [&](const Write& write) { return write.kind == Write::Kind::drop && write.path == path; };
  return std::erase_if(request.writes, is_it) != 0;
}

// Answers come in the order of the questions, so this one comes before the commit's. A client that may not make an
// existing folder may still make the folders below it.
void ZooKeeperDirectory::folder_made(int code, const char*, const void* data) noexcept {
  auto& directory = *static_cast<ZooKeeperDirectory*>(const_cast<void*>(data));
  if (code == zk::kOk || code == zk::kNodeExists) {
    directory.folder_failure_ = zk::kOk;
  } else if (directory.folder_failure_ == zk::kOk) {
    directory.folder_failure_ = code;
  }
}

void ZooKeeperDirectory::finish(Request& request, int code) {
  constexpr unsigned kMostAttempts = 3;
  const bool lacks_folder = has_missing_folder(request, code);
  const int failure = request.kind == Request::Kind::commit ? std::exchange(folder_failure_, zk::kOk) : zk::kOk;
  if (lacks_folder && failure != zk::kOk) {
    code = failure;
  } else if (handle_ != nullptr && (lacks_folder ? request.attempts < kMostAttempts : leaves_out(request, code))) {
    try {
      lacks_folder ? make_folders(request) : prepare(request);
      return send(request);
    } catch (const std::bad_alloc&) {
      code = zk::kOperationTimeout;
    }
  }
  Answer& answer = request.answer;
  switch (code) {
    case zk::kOk:
      answer.outcome = Outcome::done;
      break;
    case zk::kNoNode:
      answer.outcome = request.kind == Request::Kind::commit ? Outcome::changed : Outcome::absent;
      break;
    case zk::kNodeExists:
      answer.outcome = Outcome::exists;
      break;
    case zk::kBadVersion:
      answer.outcome = Outcome::changed;
      break;
    case zk::kConnectionLoss:
    case zk::kOperationTimeout:
    case zk::kInvalidState:
    case zk::kSessionExpired:
    case zk::kClosing:
    case zk::kSessionMoved:
    case zk::kThrottled:
      answer.outcome = Outcome::unknown;
      break;
    default:
      try {
        answer.reason = library_->error_text(code);
        answer.outcome = Outcome::refused;
      } catch (const std::bad_alloc&) {
        answer.outcome = Outcome::unknown;
      }
      break;
  }
  if (answer.outcome != Outcome::unknown) served_at_ = monotonic_now();
  arrived_.push_back({.request = std::move(pending_.extract(&request).mapped()), .path = {}});
}

void ZooKeeperDirectory::watched(zk::Handle*, int type, int, const char* path, void* context) noexcept {
  // Every watch also gets the session's state, which look_at_state() reads by itself.
  if (type != zk::kCreated && type != zk::kDeleted && type != zk::kChanged && type != zk::kChildren) return;
  auto& directory = *static_cast<ZooKeeperDirectory*>(context);
  try {
    directory.reserve_arrival();
    directory.arrived_.push_back({.request = nullptr, .path = path});
  } catch (const std::bad_alloc&) {
    directory.has_lost_ = true;
  }
}

void ZooKeeperDirectory::folder_looked_at(int code, const zk::Stat* stat, const void* data) noexcept {
  auto& request = request_of<Request>(data);
  if (code == zk::kOk) request.answer.node.guard = stat->version;
  if (request.failure != zk::kOk) request.directory->finish(request, request.failure);
}

// An absent node is watched until it appears. It may have appeared just now: then there is more to read.
void ZooKeeperDirectory::read_done(Request& request, int code) {
  if (code == zk::kNoNode && request.how == Read::watched && handle_ != nullptr) {
    code = library_->exists(handle_, request.path.c_str(), &watched, this, &exists_done, &request);
    if (code == zk::kOk) return;
  }
  finish(request, code);
}

void ZooKeeperDirectory::get_done(int code, const char* value, int size, const zk::Stat* stat,
                                  const void* data) noexcept {
  auto& request = request_of<Request>(data);
  if (code == zk::kOk) {
    const std::int32_t guard = request.answer.node.guard;
    request.answer.node = node_of(*stat);
    request.answer.node.guard = guard;
    try {
      if (size > 0) request.answer.node.data.assign(value, static_cast<std::size_t>(size));
    } catch (const std::bad_alloc&) {
      code = zk::kOperationTimeout;
    }
  }
  request.directory->read_done(request, code);
}

void ZooKeeperDirectory::exists_done(int code, const zk::Stat*, const void* data) noexcept {
  auto& request = request_of<Request>(data);
  ZooKeeperDirectory& directory = *request.directory;
  if (code == zk::kOk && directory.handle_ != nullptr) {
    code = directory.submit_read(request);
    if (code == zk::kOk) return;
  }
  directory.finish(request, code);
}

void ZooKeeperDirectory::children_done(int code, const zk::Strings* names, const void* data) noexcept {
  auto& request = request_of<Request>(data);
  try {
    for (std::int32_t i = 0; code == zk::kOk && i < names->count; ++i)
      request.answer.children.emplace_back(names->data[i]);
  } catch (const std::bad_alloc&) {
    code = zk::kOperationTimeout;
  }
  request.directory->read_done(request, code);
}

void ZooKeeperDirectory::void_done(int code, const void* data) noexcept {
  auto& request = request_of<Request>(data);
  request.directory->finish(request, code);
}

void ZooKeeperDirectory::string_done(int code, const char*, const void* data) noexcept {
  auto& request = request_of<Request>(data);
  request.directory->finish(request, code);
}

}  // namespace ripc::internal::resolver
