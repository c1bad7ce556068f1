// SPDX-License-Identifier: Apache-2.0
// A timer of the event loop that is made in advance, and set without memory: for what must not fail.
#pragma once

#include <atomic>
#include <utility>

#include "base/event_loop.hpp"

namespace ripc::internal {

class StandingTimer {
 public:
  static constexpr Nanoseconds kNow = 0;
  static constexpr Nanoseconds kNever = UINT64_MAX;

  // The loop is there, or the timer was cancelled.
  ~StandingTimer() { cancel(); }

  // Before any other call; once. Throws std::bad_alloc. The task runs in the loop's thread, perhaps a last time while
  // another thread cancels or destroys the timer.
  void make(EventLoop& loop, EventLoop::Task task) {
    id_ = loop.make_timer(std::move(task));
    loop_.store(&loop, std::memory_order_release);
  }
  // Any thread. The task runs once at this time (monotonic), whatever was set before. Nothing happens if it was
  // cancelled or not made.
  void set(Nanoseconds at) noexcept {
    if (EventLoop* const loop = loop_.load(std::memory_order_acquire)) loop->set_timer(id_, at);
  }
  // Any thread. It will not be set any more, and needs the loop no longer.
  void cancel() noexcept {
    if (EventLoop* const loop = loop_.exchange(nullptr, std::memory_order_acq_rel)) loop->cancel_timer(id_);
  }

 private:
  std::atomic<EventLoop*> loop_{nullptr};
  EventLoop::TimerId id_ = 0;
};

}  // namespace ripc::internal
