// SPDX-License-Identifier: Apache-2.0
// How long a wait polls before it sleeps. Where others want the processor, polling takes the time of the thread that is
// waited for, and one's own: who has just used more than its share is not woken at once.
#pragma once

#include <algorithm>

#include "base/clock.hpp"
#include "base/spin.hpp"

namespace ripc::internal::core {

// How long the calling thread waited on average for a processor that it could have used, each time since it asked last.
// 0 if the system does not say. Some system calls.
Nanoseconds mean_processor_wait() noexcept;

// The receiving thread's. Now and then it asks whether the thread gets a processor at once. If not, it spins no longer
// than a sleep would cost.
class AdaptiveSpin {
 public:
  static constexpr Nanoseconds kBusyTime = 10'000;      // about the processor time of a sleep and what wakes from it
  static constexpr Nanoseconds kLongWait = 20'000;      // below it: interrupts, and what the system does for itself
  static constexpr Nanoseconds kInterval = 20'000'000;  // between two questions, at least

  explicit AdaptiveSpin(Spin spin, Nanoseconds (*mean_wait)() noexcept = mean_processor_wait) noexcept
      : spin_(spin), mean_wait_(mean_wait) {}

  bool is_off() const noexcept { return spin_.time == 0; }
  // Until it asks again.
  bool is_short() const noexcept { return is_busy_; }
  // A wait begins to spin: until when it may.
  Nanoseconds begin(Nanoseconds now) noexcept {
    if (now >= ask_at_ && spin_.adapts) [[unlikely]]
      ask(now);
    return now + (is_busy_ ? std::min(spin_.time, kBusyTime) : spin_.time);
  }

 private:
  [[gnu::cold]] void ask(Nanoseconds now) noexcept {
    is_busy_ = mean_wait_() > kLongWait;
    ask_at_ = now + kInterval;
  }

  const Spin spin_;
  Nanoseconds (*const mean_wait_)() noexcept;
  Nanoseconds ask_at_ = 0;
  bool is_busy_ = false;
};

}  // namespace ripc::internal::core
