// SPDX-License-Identifier: Apache-2.0
// Descriptors, and what is done with their events: an epoll set with handlers.
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

// Where there is no memory now, there may be some so much later.
inline constexpr Nanoseconds kMemoryPause = 1'000'000;
void wait_for_memory() noexcept;

// A handler that fails for want of memory, by std::bad_alloc, is called again when its descriptor is looked at the next
// time: it must be able to begin anew.
class HandlerSet {
 public:
  using Handler = std::function<void(std::uint32_t events)>;  // EPOLLIN ...
  static constexpr int kMostAtOnce = 64;

  // Before any other call. RIPC_NO_DESCRIPTORS, RIPC_SYSTEM.
  Status open() noexcept;
  int fd() const noexcept { return epoll_.get(); }

  // Any thread. The handler stays until remove(); it may remove itself. RIPC_INVALID_ARGUMENT: there is one for this
  // descriptor already, which stays as it is. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  Status add(int fd, std::uint32_t events, Handler handler);
  Status modify(int fd, std::uint32_t events) const noexcept;
  void remove(int fd) noexcept;
  std::size_t size() const noexcept;
  // Destroys the handlers, in the calling thread, when no other one calls anything.
  void clear() noexcept;

  // One thread at a time. Waits until there are events, or so many milliseconds (-1: for ever), and calls the handlers
  // of `most` at most. False: there were none.
  bool handle(int timeout, int most = kMostAtOnce);
  // By the same thread: it has acted upon what the handlers have brought.
  void settled() noexcept { handling_.store(false, std::memory_order_release); }
  // Any thread. True while something that a descriptor brings was not looked at, or not acted on, yet.
  bool is_behind() const noexcept;

 private:
  UniqueFd epoll_;
  std::atomic<bool> handling_{false};  // events that were taken
  mutable std::mutex mutex_;           // for the following
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
};

// Descriptors of a loop whose handlers also run in a thread that waits for what they bring: it then needs no other
// thread. One at a time has them; the loop has them when no one else does.
class SharedSet {
 public:
  // Before any other call. The loop's set outlives this one. What HandlerSet::open() and add() say.
  Status open(HandlerSet& loop);
  HandlerSet& descriptors() noexcept { return own_; }
  // Any thread. Another one that has borrowed them, and sleeps until they are readable, looks around.
  void wake() noexcept;
  const HandlerSet& descriptors() const noexcept { return own_; }

  // The right of a thread to the descriptors. It holds no lock that a handler takes.
  class Borrowed {
   public:
    Borrowed() = default;
    explicit Borrowed(SharedSet& set) noexcept : set_(set.borrow() ? &set : nullptr) {}
    ~Borrowed() { give_back(); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    // Whether it has them.
    explicit operator bool() const noexcept { return set_ != nullptr; }
    // Tries, unless it has them: not while there are none, another thread has them, or the loop is at work on them. Two
    // system calls, with give_back().
    void borrow_from(SharedSet& set) noexcept {
      if (set_ == nullptr && set.borrow()) set_ = &set;
    }
    // What has come goes to the loop.
    void give_back() noexcept {
      if (set_ != nullptr) std::exchange(set_, nullptr)->give_back();
    }
    // Handles what is there, of one descriptor. False: there was nothing.
    bool look() const { return set_->handle(1); }
    // The same until `done()`, or the deadline. Sleeps when there has been nothing for so long. A thread that makes
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
  std::mutex mutex_;      // for the following, and the loop's interest, which rests while a thread has borrowed them
  std::thread::id user_;  // a thread that borrowed them, or the loop's at work on them
};

}  // namespace ripc::internal
