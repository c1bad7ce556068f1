// SPDX-License-Identifier: Apache-2.0
// Descriptors and the handlers of their events: an epoll set with handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "base/epoll.hpp"
#include "base/event_signal.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// How long to wait, when there is no memory, before trying again.
inline constexpr Nanoseconds kMemoryPause = 1'000'000;
void wait_for_memory() noexcept;

// A handler that fails with std::bad_alloc for lack of memory is called again the next time its descriptor is looked
// at. So it must be able to start over.
class HandlerSet {
 public:
  using Handler = std::function<void(std::uint32_t events)>;  // EPOLLIN ...
  static constexpr int kMostAtOnce = 64;

  // Before any other call. RIPC_NO_DESCRIPTORS, RIPC_SYSTEM.
  Status open() noexcept;
  int fd() const noexcept { return epoll_.get(); }

  // Any thread. The handler stays until remove(); it may remove itself. RIPC_INVALID_ARGUMENT: this descriptor already
  // has a handler, which stays as it is. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  Status add(int fd, std::uint32_t events, Handler handler);
  Status modify(int fd, std::uint32_t events) const noexcept;
  void remove(int fd) noexcept;
  std::size_t size() const noexcept;
  // Destroys the handlers in the calling thread. No other thread may call anything meanwhile.
  void clear() noexcept;

  // One thread at a time. Waits at most `timeout` milliseconds (-1: for ever) for events, and calls the handlers of at
  // most `most` events. False: there were none.
  bool handle(int timeout, int most = kMostAtOnce);
  // The thread that called handle() has acted upon what the handlers have brought.
  void settled() noexcept { handling_.store(false, std::memory_order_release); }
  // Any thread. True while a descriptor has brought something that was not yet looked at or acted upon.
  bool is_behind() const noexcept;

 private:
  UniqueFd epoll_;
  std::atomic<bool> handling_{false};  // events that were taken
  mutable std::mutex mutex_;           // for the following
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
};

// Descriptors of a loop whose handlers can also run in a thread that waits for what they bring, so that it needs no
// other thread. One thread at a time has them; the loop has them when no one else does.
class SharedSet {
 public:
  // Before any other call. The loop's set outlives this one. Returns the statuses of HandlerSet::open() and add().
  Status open(HandlerSet& loop);
  HandlerSet& descriptors() noexcept { return own_; }
  // Any thread. Makes another thread look, if it has borrowed the descriptors and sleeps until they are readable.
  void wake() noexcept;
  const HandlerSet& descriptors() const noexcept { return own_; }

  // A thread's right to use the descriptors. It holds no lock that a handler takes.
  class Borrowed {
   public:
    Borrowed() = default;
    explicit Borrowed(SharedSet& set) noexcept : set_(set.borrow() ? &set : nullptr) {}
    ~Borrowed() { give_back(); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    // Whether the thread has the descriptors.
    explicit operator bool() const noexcept { return set_ != nullptr; }
    // Tries to borrow the descriptors, unless it has them already. Fails while there are none, another thread has them,
    // or the loop is handling them. Costs two system calls, together with give_back().
    void borrow_from(SharedSet& set) noexcept {
      if (set_ == nullptr && set.borrow()) set_ = &set;
    }
    // From then on the loop handles what has come.
    void give_back() noexcept {
      if (set_ != nullptr) std::exchange(set_, nullptr)->give_back();
    }
    // Handles what one descriptor has brought. False: there was nothing.
    bool look() const { return set_->handle(1); }
    // The same until `done()`, or the deadline. Sleeps when nothing has come for the time `spin`. A thread that makes
    // `done()` true calls wake().
    template <typename Done>
    void look_until(Done&& done, Deadline deadline, Nanoseconds spin) const {
      Nanoseconds spin_until = 0;
      while (!done()) {
        const Nanoseconds now = monotonic_now();
        if (now >= deadline.at()) return;
        if (look()) {
          spin_until = now + spin;
        } else if (now >= spin_until) {
          (void)sleep_on(fd(), deadline, now);
        }
      }
    }
    // Readable when there is something to handle; -1 without descriptors.
    int fd() const noexcept { return set_ == nullptr ? -1 : set_->own_.fd(); }

   private:
    SharedSet* set_ = nullptr;
  };

 private:
  bool borrow() noexcept;
  void give_back() noexcept;
  bool handle(int most);
  void handle_in_loop();

  HandlerSet own_;
  UniqueFd wake_;
  HandlerSet* loop_ = nullptr;
  std::mutex mutex_;      // for the following, and the loop's interest, which is off while a thread has borrowed them
  std::thread::id user_;  // the thread that borrowed them, or the loop's if it is handling them
};

}  // namespace ripc::internal
