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

// Descriptors that wake the receiver of one service. Edge-triggered. Any thread; only one at a time may call sleep()
// and drain().
class EventSet {
  // An eventfd, and whether it was made readable since someone last looked.
  struct Wake {
    UniqueFd fd;
    std::atomic<bool> is_rung{false};
    std::atomic<bool> has_doorbells{false};

    std::atomic<std::thread::id> looker{};

    void ring() noexcept {
      if (looker.load(std::memory_order_relaxed) != std::this_thread::get_id()) ring_anyone();
    }
    void ring_anyone() noexcept {
      if (!is_rung.exchange(true, std::memory_order_acq_rel)) signal_event(fd.get());
    }
  };

 public:
  enum class Kind {
    doorbell,  // a datagram socket that only wakes: it is emptied when reported
    packets,   // a datagram socket that someone else reads
  };

  static Result<EventSet> create();
  EventSet(EventSet&&) noexcept = default;
  EventSet& operator=(EventSet&&) noexcept = default;

  // From now on the given thread (or none) itself brings about what it waits for. A wake() in that thread does nothing,
  // because the thread looks anyway.
  void set_looker(std::thread::id thread) const noexcept { wake_->looker.store(thread, std::memory_order_relaxed); }

  Status add(int fd, Kind kind = Kind::doorbell) noexcept;
  // Closing a descriptor removes it only when no duplicate is open elsewhere; so remove it first.
  void remove(int fd) noexcept;
  int fd() const noexcept { return epoll_.get(); }
  // Makes the set readable. Needs no system call if the set was already woken and nobody has looked since.
  // Async-signal-safe.
  void wake() const noexcept { wake_->ring(); }
  // The same, also in the looker: a signal handler may run there after the thread's last look.
  void wake_anyone() const noexcept { wake_->ring_anyone(); }
  // Makes the set readable when the Waker is destroyed, if the set still exists.
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
  // Sleeps until there is an event or the deadline passes; `now` is the current time. Keeps the events unless the set
  // has doorbells. The events of a descriptor end when it has been read empty, so a receiver that finds something saves
  // a system call. A receiver that finds nothing calls forget_kept(). RIPC_OK, RIPC_TIMEOUT, RIPC_INTERRUPTED (a signal
  // handler ran in this thread), RIPC_EMPTY: only the descriptor `other` is readable; -1: there is none.
  ripc_status sleep(Deadline deadline, Nanoseconds now, int other = -1) const noexcept;
  // False: sleep() kept no events. Otherwise the caller must look once more, because what came before this call has no
  // event any more.
  bool forget_kept() const noexcept;

 private:
  EventSet() = default;
  int take_events() const noexcept;

  UniqueFd epoll_;
  std::shared_ptr<Wake> wake_;
};

}  // namespace ripc::internal
