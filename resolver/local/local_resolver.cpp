// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/local_resolver.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/directory_reader.hpp"
#include "base/event_loop.hpp"
#include "base/file_time.hpp"
#include "base/peer_policy.hpp"
#include "base/plain_text.hpp"
#include "resolver/local/record_file.hpp"
#include "resolver/local/service_record.hpp"
#include "spi/holder_rules.hpp"

namespace ripc::internal::resolver {
namespace {

// An attempt may fail for lack of memory.
constexpr int kWithdrawAttempts = 3;
constexpr Nanoseconds kWithdrawPause = 1'000'000;

// A lock is held for some microseconds; a process that holds it for this long is stopped.
constexpr Nanoseconds kLockTimeout = 1'000'000'000;
// A record that is overwritten in place is whole again after some microseconds.
constexpr int kTornReads = 5;

Deadline lock_deadline() noexcept { return Deadline::after(kLockTimeout); }

Deadline earlier(Deadline one, Deadline other) noexcept { return one.at() < other.at() ? one : other; }

// The text that is left if a file may be overwritten but not removed.
std::string vacant_text(const spi::ServiceRecord& record) {
  spi::ServiceRecord vacant;
  vacant.id = record.id;
  vacant.name = record.name;
  vacant.incarnation = record.incarnation;
  Result<std::string> text = encode_service_record(vacant);
  return text.ok() ? std::move(*text) : std::string();
}

Status no_service(ripc_service_id id, const std::string& why) {
  return Status(RIPC_NO_SERVICE, "No living service on this host has the ID " + id_text(id) + ": " + why +
                                     ". Start the service, or check the ID and the runtime directory.");
}

}  // namespace

LocalResolver::LocalResolver(std::shared_ptr<RuntimeDirectory> directory, std::uint64_t own_context)
    : directory_(std::move(directory)), own_context_(own_context) {
  sweep();
}

LocalResolver::~LocalResolver() {
  if (observed_by_ != nullptr) observed_by_->remove(changes_.get());
  if (!life_) return;
  directory_->remove_context(own_context_);
  life_guard_.close(life_);
}

Status LocalResolver::show_life() { return directory_->listen(own_context_, &life_guard_).move_to(life_); }

// A vacant record has the context 0. A context that cannot be probed keeps its record.
bool LocalResolver::is_alive(const spi::ServiceRecord& record) const noexcept {
  if (record.context == 0) return false;
  return record.context == own_context_ || directory_->probe(record.context) != Liveness::dead;
}

// ---- Resolve -------------------------------------------------------------------------------------------------

Result<spi::ServiceRecord> LocalResolver::resolve(ripc_service_id id, Deadline deadline) {
  withdraw_pending();
  Result<spi::ServiceRecord> record = read_whole(id);
  if (record.ok() && is_alive(*record)) return record;
  if (record.ok() || record.status() == RIPC_CORRUPT) return remove_stale(id, earlier(deadline, lock_deadline()));
  return record;
}

// Reads the record without a lock. RIPC_CORRUPT: the text is not a record. RIPC_NO_SERVICE: there is no file, or
// something that is not even a file.
Result<spi::ServiceRecord> LocalResolver::read_whole(ripc_service_id id) const {
  for (int attempt = 1;; ++attempt) {
    const Result<std::string> text = read_record(*directory_, id);
    if (text.status() == RIPC_NO_SERVICE)
      return no_service(id, "nothing is registered under it in " + directory_->path());
    if (text.status() == RIPC_CORRUPT) return Status(RIPC_NO_SERVICE, std::string(text.status().text()));
    if (!text.ok()) return text.status();
    Result<spi::ServiceRecord> record = decode_service_record(*text, id);
    if (!(record.status() == RIPC_CORRUPT) || attempt == kTornReads) return record;
    // Another process may be overwriting it in place, which takes some microseconds.
    pause_for(20'000u * static_cast<Nanoseconds>(attempt));
  }
}

// Looks again with the lock: the text read without it may have been half-written, or may have been replaced since.
// Returns the living holder, or RIPC_NO_SERVICE, whether the file could be removed or not.
Result<spi::ServiceRecord> LocalResolver::remove_stale(ripc_service_id id, Deadline deadline) {
  Result<LockedRecord> locked = LockedRecord::lock(*directory_, id, deadline);
  if (!locked.ok()) {
    // The process with the lock may be making a new record.
    Result<spi::ServiceRecord> record = read_whole(id);
    if (record.ok() && is_alive(*record)) return record;
    return no_service(id, "the process that registered it has ended");
  }
  Result<spi::ServiceRecord> record = decode_service_record(locked->text(), id);
  if (record.status() == RIPC_VERSION_MISMATCH) return record;
  if (!record.ok()) {
    static_cast<void>(locked->remove({}, false));
    return no_service(id, "what was in its place was not a service record");
  }
  if (is_alive(*record)) return record;
  // A vacant record is as good as none, so it may stay if it cannot be removed.
  static_cast<void>(locked->remove(vacant_text(*record), record->context != 0));
  return no_service(id, "the process that registered it has ended");
}

// ---- Publish -------------------------------------------------------------------------------------------------

Status LocalResolver::publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) {
  std::list<Registration> registration{{record.id, record.context, 0}};
  try {
    return publish_as(registration, record, takeover, displaced);
  } catch (const std::bad_alloc&) {
    // The file may have been written already.
    const std::lock_guard lock(mutex_);
    pending_.splice(pending_.end(), registration);
    return RIPC_NO_MEMORY;
  }
}

Status LocalResolver::publish_as(std::list<Registration>& registration, spi::ServiceRecord& record, bool takeover,
                                 std::vector<spi::ServiceRecord>* displaced) {
  if (record.context == 0)
    return Status(RIPC_INVALID_ARGUMENT, "The service cannot be published: its record names no context.");
  withdraw_pending();
  const Deadline deadline = lock_deadline();
  for (;;) {
    if (displaced != nullptr) displaced->reserve(displaced->size() + 1);
    spi::ServiceRecord holder;  // alive or not; if there is none, its incarnation is 0
    bool was_record = false;
    bool is_held = false;
    Result<LockedRecord> locked = LockedRecord::lock(*directory_, record.id, deadline);
    if (locked.ok()) {
      Result<spi::ServiceRecord> old = decode_service_record(locked->text(), record.id);
      if (old.status() == RIPC_VERSION_MISMATCH) return old.status();
      was_record = old.ok();
      if (was_record) holder = std::move(*old);
      is_held = was_record && is_alive(holder);
      if (is_held) {
        if (Status status = spi::check_holder(record, holder, takeover); !status.ok()) return status;
        if (Status status = check_fence(record, holder); !status.ok()) return status;
      }
    } else if (!(locked.status() == RIPC_NO_SERVICE)) {
      return refuse_locked_out(record, takeover, locked.status());
    }
    spi::ServiceRecord candidate = record;
    candidate.incarnation = spi::next_incarnation(record.incarnation, holder.incarnation);
    const Result<std::string> text = encode_service_record(candidate);
    if (!text.ok()) return text.status();
    registration.front().incarnation = candidate.incarnation;
    Status status = locked.ok() ? locked->replace(*text, was_record) : create_record(*directory_, record.id, *text);
    if (!locked.ok() && status == RIPC_AGAIN) {
      // Another process was faster: look which one.
      if (!deadline.expired()) continue;
      return Status(RIPC_TIMEOUT, "Other processes keep registering and withdrawing " +
                                      record_path(*directory_, record.id) + ": find out which, and try again.");
    }
    if (!status.ok()) return status;
    record.incarnation = candidate.incarnation;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(published_, [&](const Registration& former) { return former.id == record.id; });
      published_.splice(published_.end(), registration);
    }
    if (is_held && displaced != nullptr) displaced->push_back(std::move(holder));
    return {};
  }
}

// The holder must learn that it has lost its ID; otherwise it goes on, and its clients stay with it.
Status LocalResolver::check_fence(const spi::ServiceRecord& record, const spi::ServiceRecord& holder) const {
  if (holder.context == own_context_) return {};
  const std::string held = "The service ID " + id_text(holder.id) + " is held by process " + std::to_string(holder.pid);
  if (const std::optional<uid_t> stranger = directory_->stranger_at(holder.context))
    return Status(RIPC_PERMISSION,
                  held + " of user " + std::to_string(*stranger) +
                      ", which would not learn of a takeover: one of the two processes does not admit the other's "
                      "user. End that process, take another ID, or start both with RIPC_PEERS=group or RIPC_PEERS=any "
                      "if the users trust each other.");
  const bool is_reached = std::ranges::any_of(holder.addresses, [&](const spi::Address& theirs) {
    return std::ranges::find(record.addresses, theirs.transport, &spi::Address::transport) != record.addresses.end();
  });
  if (is_reached) return {};
  return Status(RIPC_PERMISSION,
                held +
                    ", which would not learn of a takeover: the two processes have no transport in "
                    "common. End that process, take another ID, or give both the same RIPC_TRANSPORTS.");
}

// A record that may be read but not changed still says whether its holder is alive.
Status LocalResolver::refuse_locked_out(const spi::ServiceRecord& record, bool takeover, Status status) const {
  if (!(status == RIPC_PERMISSION)) return status;
  const Result<std::string> text = read_record(*directory_, record.id);
  if (!text.ok()) return status;
  const Result<spi::ServiceRecord> holder = decode_service_record(*text, record.id);
  if (!holder.ok() || !is_alive(*holder)) return status;
  Status refused = spi::check_holder(record, *holder, takeover);
  return refused.ok() ? status : refused;
}

// ---- Withdraw ------------------------------------------------------------------------------------------------

void LocalResolver::withdraw(const spi::ServiceRecord& record) noexcept {
  std::list<Registration> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(published_.begin(), published_.end(), [&](const Registration& own) {
      return own.id == record.id && own.incarnation == record.incarnation;
    });
    if (found != published_.end()) ended.splice(ended.end(), published_, found);
  }
  withdraw_pending();
  const Deadline deadline = lock_deadline();
  for (int attempt = 0; attempt < kWithdrawAttempts && !deadline.expired(); ++attempt) {
    if (try_withdraw({record.id, record.context, record.incarnation}, deadline)) return;
    pause_for(kWithdrawPause);
  }
  const std::lock_guard lock(mutex_);
  pending_.splice(pending_.end(), ended);
}

// False if it should be tried again later.
bool LocalResolver::try_withdraw(const Registration& registration, Deadline deadline) noexcept try {
  Result<LockedRecord> locked = LockedRecord::lock(*directory_, registration.id, deadline);
  if (!locked.ok()) return locked.status() == RIPC_NO_SERVICE || locked.status() == RIPC_CORRUPT;
  const Result<spi::ServiceRecord> holder = decode_service_record(locked->text(), registration.id);
  if (!holder.ok() || holder->context != registration.context || holder->incarnation != registration.incarnation)
    return true;
  return locked->remove(vacant_text(*holder), true).ok();
} catch (const std::bad_alloc&) {
  return false;
}

void LocalResolver::withdraw_pending() noexcept {
  std::list<Registration> pending;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return;
    pending.swap(pending_);
  }
  std::erase_if(pending, [this](const Registration& ended) { return try_withdraw(ended, Deadline::after(0)); });
  const std::lock_guard lock(mutex_);
  pending_.splice(pending_.end(), pending);
}

void LocalResolver::invalidate(const spi::ServiceRecord&) noexcept {}

// ---- Groups --------------------------------------------------------------------------------------------------

Status LocalResolver::update(const spi::ServiceRecord& record) {
  withdraw_pending();
  const Status fenced(RIPC_FENCED, "The service ID " + id_text(record.id) +
                                       " has another holder by now: unregister the service, and register it again.");
  Result<LockedRecord> locked = LockedRecord::lock(*directory_, record.id, lock_deadline());
  if (locked.status() == RIPC_NO_SERVICE) return fenced;
  if (!locked.ok()) return locked.status();
  const Result<spi::ServiceRecord> holder = decode_service_record(locked->text(), record.id);
  if (!holder.ok() || holder->context != record.context || holder->incarnation != record.incarnation) return fenced;
  const Result<std::string> text = encode_service_record(record);
  if (!text.ok()) return text.status();
  return locked->replace(*text, true);
}

Result<std::shared_ptr<const LocalResolver::Grouped>> LocalResolver::grouped() {
  auto fresh = std::make_shared<Grouped>();
  fresh->read_at = realtime_now();
  if (::fstat(directory_->services_fd(), &fresh->directory) != 0)
    return system_error(errno, "Looking at " + directory_->path() + "/services");
  {
    const std::lock_guard lock(mutex_);
    if (grouped_ && same_time(grouped_->directory.st_mtim, fresh->directory.st_mtim) &&
        is_settled(grouped_->directory.st_mtim, grouped_->read_at))
      return grouped_;
  }
  Status status = list([&](const spi::ServiceRecord& record) {
    if (!record.groups.empty()) fresh->records.push_back(record);
  });
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  grouped_ = std::move(fresh);
  return grouped_;
}

Status LocalResolver::members(ripc_service_id group, Deadline, const spi::Visit& visit) {
  const Result<std::shared_ptr<const Grouped>> known = grouped();
  if (!known.ok()) return known.status();
  std::unordered_map<std::uint64_t, bool> alive;
  for (const spi::ServiceRecord& record : (*known)->records) {
    if (!record.is_in(group)) continue;
    const auto [context, is_new] = alive.try_emplace(record.context, false);
    if (is_new) context->second = is_alive(record);
    if (context->second) {
      visit(record);
    } else if (const Result<spi::ServiceRecord> successor = remove_stale(record.id, Deadline::after(0));
               successor.ok() && successor->is_in(group)) {
      visit(*successor);
    }
  }
  return {};
}

// ---- Changes -------------------------------------------------------------------------------------------------

Status LocalResolver::observe(EventLoop& loop, spi::Observer observer, spi::Observe what) {
  if (what != spi::Observe::everything) return {};
  UniqueFd changes(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!changes) return system_error(errno, "inotify_init1", "raise fs.inotify.max_user_instances");
  // A record appears whole (IN_MOVED_TO, or IN_CREATE if it was linked there), is overwritten, or is removed. Not
  // IN_CLOSE_WRITE, because looking at a record that cannot be removed causes one.
  constexpr std::uint32_t kChanges = IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE;
  if (::inotify_add_watch(changes.get(), (directory_->path() + "/services").c_str(), kChanges | IN_ONLYDIR) < 0)
    return system_error(errno, "Watching " + directory_->path() + "/services", "raise fs.inotify.max_user_watches");
  Status status = loop.add(changes.get(), EPOLLIN, [fd = changes.get(), observer = std::move(observer)](std::uint32_t) {
    alignas(inotify_event) std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t count = ::read(fd, buffer.data(), buffer.size());
      if (count <= 0) return;
      for (ssize_t at = 0; at < count;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        at += static_cast<ssize_t>(sizeof *event + event->len);
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
          observer({});
        } else if (const std::optional<std::uint64_t> id =
                       event->len == 0 ? std::nullopt : RuntimeDirectory::number_of(event->name)) {
          observer({.id = *id});
        }
      }
    }
  });
  if (!status.ok()) return status;
  changes_ = std::move(changes);
  observed_by_ = &loop;
  return {};
}

// ---- List and sweep ------------------------------------------------------------------------------------------

Status LocalResolver::list(const spi::Visit& visit) {
  withdraw_pending();
  std::size_t removed = 0;
  return visit_all(removed, kLockTimeout, visit);
}

std::size_t LocalResolver::sweep() {
  std::size_t removed = 0;
  static_cast<void>(visit_all(removed, 0, [](const spi::ServiceRecord&) {}));
  return removed;
}

template <typename Visit>
Status LocalResolver::visit_all(std::size_t& removed, Nanoseconds lock_timeout, Visit&& visit) {
  // Many records belong to few contexts. A dead context stays dead; one that dies meanwhile is noticed next time.
  std::unordered_map<std::uint64_t, bool> alive;
  const PeerPolicy policy(directory_->peer_policy());
  DirectoryReader reader(directory_->services_fd());
  while (const char* name = reader.next()) {
    if (std::string_view(name).starts_with(RuntimeDirectory::kTemporaryPrefix)) {
      if (remove_abandoned(*directory_, name)) ++removed;
      continue;
    }
    const std::optional<std::uint64_t> id = RuntimeDirectory::number_of(name);
    if (!id) continue;
    // In a directory that everybody may use, services of users who are not admitted cannot be reached.
    struct stat info {};
    if (!policy.admits_all() && ::fstatat(directory_->services_fd(), name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        !policy.admits(info.st_uid, info.st_gid))
      continue;
    const Result<std::string> text = read_record(*directory_, *id);
    if (!text.ok()) {
      // For lack of descriptors or memory the list would be incomplete without any notice.
      if (text.status() == RIPC_NO_DESCRIPTORS || text.status() == RIPC_NO_MEMORY) return text.status();
      continue;
    }
    Result<spi::ServiceRecord> record = decode_service_record(*text, *id);
    if (record.status() == RIPC_NO_MEMORY) return record.status();
    if (record.status() == RIPC_VERSION_MISMATCH) continue;
    if (record.ok()) {
      const auto [known, is_new] = alive.try_emplace(record->context, false);
      if (is_new) known->second = is_alive(*record);
      if (known->second) {
        visit(*record);
        continue;
      }
    }
    record = remove_stale(*id, Deadline::after(lock_timeout));
    if (record.ok()) {
      visit(*record);
    } else if (record.status() == RIPC_NO_SERVICE && read_record(*directory_, *id).status() == RIPC_NO_SERVICE) {
      ++removed;
    }
  }
  if (reader.error() != 0) return system_error(reader.error(), "Listing " + directory_->path() + "/services");
  return {};
}

}  // namespace ripc::internal::resolver
