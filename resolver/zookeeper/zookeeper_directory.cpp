// SPDX-License-Identifier: Apache-2.0
// The thread, and how it handles the connection.
#include "resolver/zookeeper/zookeeper_directory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/event_signal.hpp"
#include "base/handler_set.hpp"
#include "base/thread.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr Nanoseconds kFirstOpenPause = 100'000'000;
constexpr Nanoseconds kLongestOpenPause = 5'000'000'000;
// If no server accepts a connection, the client does not say how long to wait.
constexpr Nanoseconds kConnectPause = 100'000'000;
constexpr Nanoseconds kLookUpPause = 1'000'000'000;
// The client sends all watches in one request after a reconnect, and the servers end a connection whose request exceeds
// 1,048,575 bytes (jute.maxbuffer). The rest is for watches that are being set and removed.
constexpr std::size_t kWatchesSize = 900'000;

}  // namespace

ZooKeeperDirectory::ZooKeeperDirectory(ZooKeeperOptions options, std::shared_ptr<const zk::Library> library)
    : options_(std::move(options)), library_(std::move(library)), open_pause_(kFirstOpenPause, kLongestOpenPause) {}

Result<std::unique_ptr<ZooKeeperDirectory>> ZooKeeperDirectory::create(const ZooKeeperOptions& options,
                                                                       std::shared_ptr<const zk::Library> library) {
  if (library == nullptr) {
    Result<std::shared_ptr<const zk::Library>> installed = zk::Library::load();
    if (!installed.ok()) return installed.status();
    library = std::move(*installed);
  }
  std::unique_ptr<ZooKeeperDirectory> directory(new ZooKeeperDirectory(options, std::move(library)));
  directory->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!directory->wake_) return system_error(errno, "Making an event descriptor for the ZooKeeper resolver");
  return directory;
}

ZooKeeperDirectory::~ZooKeeperDirectory() { stop(); }

Status ZooKeeperDirectory::start(Listener& listener) {
  listener_ = &listener;
  return start_thread(thread_, "ripc-zookeeper", "Starting the thread of the ZooKeeper resolver", [this] { run(); });
}

void ZooKeeperDirectory::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  signal_event(wake_.get());
  thread_.join();
}

std::size_t ZooKeeperDirectory::most_watches(std::size_t path_size) const noexcept {
  return kWatchesSize / (sizeof(std::int32_t) + options_.chroot.size() + path_size);
}

std::string ZooKeeperDirectory::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void ZooKeeperDirectory::note_trouble(std::string text) {
  const std::lock_guard lock(mutex_);
  trouble_ = std::move(text);
}

void ZooKeeperDirectory::run() noexcept {
  // The client writes to connections that the servers may have closed.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  for (bool is_running = true; is_running;) {
    try {
      is_running = turn();
    } catch (const std::bad_alloc&) {
      wait_for_memory();
    }
  }
  close_handle();
}

// Returns false when the thread has to end.
bool ZooKeeperDirectory::turn() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  if (handle_ == nullptr && monotonic_now() >= open_at_) open_handle();
  if (handle_ != nullptr) {
    if (is_up_) {
      submit_all();
    } else if (fd_ < 0) {
      look_up_again();
    }
  }
  const Nanoseconds now = monotonic_now();
  if (handle_ != nullptr) {
    timeval timeout{};
    int code = 0;
    fork_guard_.follow([&] {
      fd_ = -1;
      interest_ = 0;
      code = library_->interest(handle_, &fd_, &interest_, &timeout);
      // The client may have closed that descriptor.
      if (code != zk::kOk) fd_ = -1;
      if (fd_ >= 0) ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
      return fd_;
    });
    client_due_ = now + static_cast<Nanoseconds>(std::max<long>(timeout.tv_sec, 0)) * 1'000'000'000 +
                  static_cast<Nanoseconds>(std::max<long>(timeout.tv_usec, 0)) * 1'000;
    if (fd_ < 0) client_due_ = now + kConnectPause;
    deliver();
    look_at_state();
    if (handle_ == nullptr) return true;
    // Answers may have led to new questions.
    if (is_up_) {
      const std::lock_guard lock(mutex_);
      if (!asked_.empty()) client_due_ = 0;
    }
  } else {
    client_due_ = open_at_;
  }
  pollfd descriptors[2] = {{wake_.get(), POLLIN, 0}, {fd_, 0, 0}};
  if ((interest_ & zk::kRead) != 0) descriptors[1].events |= POLLIN;
  if ((interest_ & zk::kWrite) != 0) descriptors[1].events |= POLLOUT;
  const Nanoseconds pause = client_due_ > now ? client_due_ - now : 0;
  const timespec wait = to_timespec(pause);
  ::ppoll(descriptors, handle_ != nullptr && fd_ >= 0 ? 2 : 1, &wait, nullptr);
  if (descriptors[0].revents != 0) clear_event(wake_.get());
  if (handle_ == nullptr || fd_ < 0) return true;
  int events = 0;
  if ((descriptors[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) events |= zk::kRead;
  if ((descriptors[1].revents & POLLOUT) != 0) events |= zk::kWrite;
  // The client may close its connection, and another thread could get that descriptor's number.
  fork_guard_.follow([&] {
    const int code = library_->process(handle_, events);
    if (code != zk::kOk && code != zk::kNothing) fd_ = -1;
    return fd_;
  });
  deliver();
  look_at_state();
  return true;
}

void ZooKeeperDirectory::open_handle() {
  Result<std::string> found = options_.connect_text();
  if (found.ok()) {
    connect_text_ = std::move(*found);
    const int timeout = static_cast<int>(options_.session_timeout / 1'000'000);
    handle_ = library_->init(connect_text_.c_str(), &watched, timeout, nullptr, this, 0, &log);
  }
  const Nanoseconds now = monotonic_now();
  if (handle_ == nullptr) {
    note_trouble(found.ok() ? "its client cannot be set up (" + std::string(std::strerror(errno)) + ")"
                            : std::string(found.status().text()));
    open_at_ = now + open_pause_.next();
    return;
  }
  (void)library_->set_resolution_delay(handle_, -1);
  open_pause_.reset();
  session_timeout_ = options_.session_timeout;
  served_at_ = now;
  look_up_at_ = now + kLookUpPause;
}

// A server that does not answer may have another address by now.
void ZooKeeperDirectory::look_up_again() {
  if (monotonic_now() < look_up_at_) return;
  Result<std::string> found = options_.connect_text();
  look_up_at_ = monotonic_now() + kLookUpPause;
  if (!found.ok() || *found == connect_text_) return;
  connect_text_ = std::move(*found);
  (void)library_->set_servers(handle_, connect_text_.c_str());
}

void ZooKeeperDirectory::close_handle() noexcept {
  if (handle_ == nullptr) return;
  // A fork must not wait for the servers. The socket of a child that comes meanwhile does no harm, because the servers
  // end the connection when they have the request.
  fork_guard_.reset();
  library_->close(std::exchange(handle_, nullptr));
  fd_ = -1;
  interest_ = 0;
}

void ZooKeeperDirectory::look_at_state() {
  const int state = library_->state(handle_);
  const Nanoseconds now = monotonic_now();
  if (state == zk::kConnectedState && !is_up_) {
    const auto session = static_cast<std::uint64_t>(library_->client_id(handle_)->id);
    const bool is_new = session != session_;
    session_ = session;
    is_up_ = true;
    up_since_ = now;
    if (is_new) served_at_ = now;
    session_timeout_ = static_cast<Nanoseconds>(std::max(library_->session_timeout(handle_), 0)) * 1'000'000;
    const bool had_lost = std::exchange(has_lost_, true);
    // The answer shows that the servers serve the session, also if nobody asks anything before the link is lost again.
    if (!is_new) sync({});
    note_trouble({});
    listener_->link_up(session, is_new);
    has_lost_ = had_lost;
  } else if (state != zk::kConnectedState && is_up_) {
    is_up_ = false;
    // A link without answers does not last that long.
    if (now - up_since_ >= session_timeout_) served_at_ = now;
    listener_->link_down();
    note_trouble("the connection to its servers is lost");
  } else if (!is_up_) {
    const std::lock_guard lock(mutex_);
    if (trouble_.empty()) trouble_ = "no server has answered yet";
  }
  // An ensemble that has forgotten what this handle has seen, such as one with new disks, ends each of its connections
  // and never calls the session expired.
  const bool is_forgotten = !is_up_ && elapsed(served_at_, now) >= 2 * session_timeout_;
  if (state >= 0 && !is_forgotten) return;
  close_handle();
  open_at_ = 0;
  // There is room for them, reserved by reserve_arrival().
  for (auto& [raw, request] : pending_) {
    request->answer = {};
    arrived_.push_back({.request = std::move(request), .path = {}});
  }
  pending_.clear();
  deliver();
}

// Callbacks may lead to questions, which are asked in the next turn. An event that is lost for lack of memory does not
// affect the others.
void ZooKeeperDirectory::deliver() {
  std::vector<Arrival> arrived;
  arrived.reserve(pending_.size());
  arrived.swap(arrived_);
  for (Arrival& arrival : arrived) {
    try {
      if (arrival.request == nullptr) {
        listener_->changed(without_chroot(arrival.path));
      } else if (arrival.request->done) {
        arrival.request->done(arrival.request->answer);
      }
    } catch (const std::bad_alloc&) {
      has_lost_ = true;
    }
  }
  if (!has_lost_ || !is_up_) return;
  listener_->link_up(session_, true);
  has_lost_ = false;
}

std::string_view ZooKeeperDirectory::without_chroot(std::string_view path) const noexcept {
  if (path.size() >= options_.chroot.size()) path.remove_prefix(options_.chroot.size());
  return path;
}

}  // namespace ripc::internal::resolver
