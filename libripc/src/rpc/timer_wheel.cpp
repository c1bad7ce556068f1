// SPDX-License-Identifier: Apache-2.0
#include "rpc/timer_wheel.hpp"

#include <algorithm>

namespace ripc::internal::rpc {

TimerWheel::TimerWheel() noexcept {
  for (Slot& slot : slots_) slot.head.next_ = slot.head.previous_ = &slot.head;
}

void TimerWheel::set(Timer& timer, Nanoseconds due) noexcept {
  remove(timer);
  if (due == UINT64_MAX) return;
  // Rounds up to the end of a tick, so that timers due together come together.
  due = due > UINT64_MAX - kTick ? UINT64_MAX - 1 : (due + kTick - 1) / kTick * kTick;
  Slot& slot = slots_[slot_of(due)];
  timer.due_ = due;
  timer.next_ = &slot.head;
  timer.previous_ = slot.head.previous_;
  timer.previous_->next_ = &timer;
  slot.head.previous_ = &timer;
  slot.earliest = std::min(slot.earliest, due);
  earliest_ = std::min(earliest_, due);
}

void TimerWheel::remove(Timer& timer) noexcept {
  if (!timer.is_set()) return;
  timer.previous_->next_ = timer.next_;
  timer.next_->previous_ = timer.previous_;
  timer.next_ = timer.previous_ = nullptr;
}

TimerWheel::Timer* TimerWheel::take_due(Nanoseconds now) noexcept {
  while (earliest_ <= now) {
    Slot& slot = slots_[slot_of(earliest_)];
    Nanoseconds left = UINT64_MAX;
    for (Timer* timer = slot.head.next_; timer != &slot.head; timer = timer->next_) {
      if (timer->due_ <= now) {
        remove(*timer);
        return timer;
      }
      left = std::min(left, timer->due_);
    }
    slot.earliest = left;
    find_earliest();
  }
  return nullptr;
}

void TimerWheel::find_earliest() noexcept {
  earliest_ = UINT64_MAX;
  for (const Slot& slot : slots_) {
    // A removed timer may have left its time behind, which costs one extra look.
    earliest_ = std::min(earliest_, slot.earliest);
  }
}

}  // namespace ripc::internal::rpc
