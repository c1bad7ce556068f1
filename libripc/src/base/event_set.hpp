// SPDX-License-Identifier: Apache-2.0
// The set of descriptors that one service waits on.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/event_signal.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// Descriptors that wake the receiver of one service. Edge-triggered. Any thread; wait() and drain() by one at a time.
class EventSet {
  // An eventfd, and whether it was made readable since someone has looked.
  struct Wake {
    UniqueFd fd;
    std::atomic<bool> is_rung{false};
    std::atomic<bool> has_doorbells{false};

    std::atomic<std::thread::id> looker{};

    void ring() noexcept {
      if (looker.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
      if (!is_rung.exchange(true, std::memory_order_acq_rel)) signal_event(fd.get());
    }
  };

 public:
  enum class Kind {
    doorbell,  // a datagram socket that only wakes: emptied when it was reported
    packets,   // a datagram socket that someone else reads
  };

  static Result<EventSet> create();
  EventSet(EventSet&&) noexcept = default;
  EventSet& operator=(EventSet&&) noexcept = default;

  // From now on this thread, or none, brings about what it waits for: its own wake() does nothing, as it looks anyway.
  void set_looker(std::thread::id thread) const noexcept { wake_->looker.store(thread, std::memory_order_relaxed); }

  Status add(int fd, Kind kind = Kind::doorbell) noexcept;
  // Closing a descriptor removes it only when no duplicate is open elsewhere; so remove it first.
  void remove(int fd) noexcept;
  int fd() const noexcept { return epoll_.get(); }
  // Makes it readable. No system call if it was woken already and has not looked since. Async-signal-safe.
  void wake() const noexcept { wake_->ring(); }
  // Makes it readable when it goes, if the set is still there.
  class Waker {
   public:
    Waker() = default;
    Waker(Waker&&) noexcept = default;
    Waker& operator=(Waker&&) noexcept = default;
    explicit operator bool() const noexcept { return wake_ != nullptr; }
    ~Waker() {
      if (wake_) wake_->ring();
    }

   private:
    friend class EventSet;
    explicit Waker(std::shared_ptr<Wake> wake) noexcept : wake_(std::move(wake)) {}
    std::shared_ptr<Wake> wake_;
  };
  Waker waker() const noexcept { return Waker(wake_); }
  // Forgets the events so far.
  void drain() const noexcept;
  // Sleeps until an event, from `now` at most until the deadline, and forgets the events. RIPC_OK, RIPC_TIMEOUT,
  // RIPC_INTERRUPTED (a signal handler ran in this thread).
  ripc_status wait(Deadline deadline, Nanoseconds now) const noexcept;
  // The same, but keeps the events where there are no doorbells. Those of a descriptor end when it has been read empty,
  // so a receiver that finds something saves a system call. One that finds nothing calls forget_kept(). It ends too
  // when the other descriptor is readable; -1: there is none.
  ripc_status sleep(Deadline deadline, Nanoseconds now, int other = -1) const noexcept;
  // False: sleep() has kept none. Otherwise the caller looks around once more: what came before has no event now.
  bool forget_kept() const noexcept;

 private:
  EventSet() = default;
  int take_events() const noexcept;

  UniqueFd epoll_;
  std::shared_ptr<Wake> wake_;
};

}  // namespace ripc::internal
