// SPDX-License-Identifier: Apache-2.0
// A timer of the event loop that is made in advance, so that setting it takes no memory: for what must not fail.
#pragma once

#include <atomic>
#include <utility>

#include "base/event_loop.hpp"

namespace ripc::internal {

class StandingTimer {
 public:
  static constexpr Nanoseconds kNow = 0;
  static constexpr Nanoseconds kNever = UINT64_MAX;

  // The loop must still exist, unless the timer was cancelled.
  ~StandingTimer() { cancel(); }

  // Call it once, before any other call. Throws std::bad_alloc. The task runs in the loop's thread, perhaps one last
  // time while another thread cancels or destroys the timer.
  void make(EventLoop& loop, EventLoop::Task task) {
    id_ = loop.make_timer(std::move(task));
    loop_.store(&loop, std::memory_order_release);
  }
  // Any thread. The task runs once at this time (monotonic), which replaces any earlier setting. Does nothing if the
  // timer was cancelled or not made.
  void set(Nanoseconds at) noexcept {
    if (EventLoop* const loop = loop_.load(std::memory_order_acquire)) loop->set_timer(id_, at);
  }
  // Any thread. The timer can no longer be set, and no longer needs the loop.
  void cancel() noexcept {
    if (EventLoop* const loop = loop_.exchange(nullptr, std::memory_order_acq_rel)) loop->cancel_timer(id_);
  }

 private:
  std::atomic<EventLoop*> loop_{nullptr};
  EventLoop::TimerId id_ = 0;
};

}  // namespace ripc::internal
