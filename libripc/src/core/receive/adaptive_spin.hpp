// SPDX-License-Identifier: Apache-2.0
// How long a wait polls before it sleeps. Where others want the processor, polling takes the time of the thread that is
// waited for. It also delays the next wake: the kernel does not wake a thread at once that has just used its share.
#pragma once

#include <algorithm>

#include "base/clock.hpp"
#include "base/spin.hpp"

namespace ripc::internal::core {

// How much of its time, in percent, the calling thread waited for a processor that it could have used, since it asked
// last; 0 if the system does not say. Some system calls.
unsigned percent_waited(Nanoseconds now) noexcept;

// The receiving thread's. Now and then it asks whether the thread gets a processor when it wants one. If not, it spins
// no longer than a sleep would cost.
class AdaptiveSpin {
 public:
  static constexpr Nanoseconds kBusyTime = 10'000;  // about the processor time of a sleep and what wakes from it
  static constexpr unsigned kBusyPercent = 10;      // percent
  // Between two questions, at least. Turns of others are rare and long, so they are missed in a short time.
  static constexpr Nanoseconds kInterval = 20'000'000;
  static constexpr Nanoseconds kBusyInterval = 200'000'000;

  explicit AdaptiveSpin(Spin spin, unsigned (*percent)(Nanoseconds) noexcept = percent_waited) noexcept
      : spin_(spin), percent_(percent) {}

  bool is_off() const noexcept { return spin_.time == 0; }
  // Until it asks again.
  bool is_short() const noexcept { return is_busy_; }
  // A wait until `end` begins to spin: until when it may. One that is no longer than a spin ends without a sleep. Its
  // caller has another thread that waits for the descriptor, or something else to do.
  Nanoseconds begin(Nanoseconds now, Nanoseconds end) noexcept {
    if (end - now <= spin_.time) return end;
    if (now >= ask_at_ && spin_.adapts) [[unlikely]]
      ask(now);
    return now + (is_busy_ ? std::min(spin_.time, kBusyTime) : spin_.time);
  }

 private:
  [[gnu::cold]] void ask(Nanoseconds now) noexcept {
    is_busy_ = percent_(now) > kBusyPercent;
    ask_at_ = now + (is_busy_ ? kBusyInterval : kInterval);
  }

  const Spin spin_;
  unsigned (*const percent_)(Nanoseconds) noexcept;
  Nanoseconds ask_at_ = 0;
  bool is_busy_ = false;
};

}  // namespace ripc::internal::core
