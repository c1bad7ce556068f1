// SPDX-License-Identifier: Apache-2.0
// How long a wait polls before it sleeps. Where others want the processor, polling takes the time of the thread that is
// waited for. It also delays the next wake: the kernel does not wake a thread at once that has just used its share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/spin.hpp"
#include "core/receive/wait_forecast.hpp"

namespace ripc::internal::core {

// How much of its time, in percent, the calling thread waited for a processor that it could have used, since it asked
// last; 0 if the system does not say. Some system calls.
unsigned percent_waited(Nanoseconds now) noexcept;

// The receiving thread's. On a free processor a wait spins through a little longer time if messages have come then, and
// is awake again when a message is expected, or its own end: Linux polls block devices in this way (hybrid polling).
// Now and then it asks whether the thread gets a processor when it wants one. If not, a wait spins no longer than a
// sleep would cost, and only while that helps.
class AdaptiveSpin {
 public:
  static constexpr Nanoseconds kBusyTime = 10'000;  // about the processor time of a sleep and what wakes from it
  static constexpr unsigned kBusyPercent = 10;      // percent
  // After so many waits in a row that outlast it, they sleep at once: a spin takes the thread's share. One may outlast
  // it by accident, when another thread has its turn. Of many, so many try again.
  static constexpr unsigned kTries = 4;
  static constexpr unsigned kMany = 64;
  // Between two questions, at least. Turns of others are rare and long, so they are missed in a short time.
  static constexpr Nanoseconds kInterval = 20'000'000;
  static constexpr Nanoseconds kBusyInterval = 200'000'000;
  // For what is expected, a wait spins no longer than that, and no more than a share of its time.
  static constexpr Nanoseconds kMostExpecting = 250'000;
  static constexpr Nanoseconds kShareExpecting = 4;
  // A sleep may end so late: the kernel's slack of 50 us, and a wake.
  static constexpr Nanoseconds kEarly = 100'000;

  explicit AdaptiveSpin(Spin spin, unsigned (*percent)(Nanoseconds) noexcept = percent_waited) noexcept
      : spin_(spin), percent_(percent) {}

  bool is_off() const noexcept { return spin_.time == 0; }
  // Until it asks again.
  bool is_short() const noexcept { return is_busy_; }
  // A wait until `end` begins to spin: until when it may. One that is no longer than a spin ends without a sleep.
  // `messages`: that have come so far. `uses_fd`: another thread waits for the descriptor. A message would wake both,
  // so a wait that is shorter than a full spin does not sleep on a busy processor either.
  Nanoseconds begin(Nanoseconds now, Nanoseconds end, std::uint64_t messages, bool uses_fd = false) noexcept {
    begin_ = now;
    end_ = end;
    if (now >= ask_at_ && spin_.adapts) [[unlikely]]
      ask(now);
    const Nanoseconds most = is_busy_ ? std::min(spin_.time, kBusyTime) : spin_.time;
    if (end - now <= (uses_fd ? spin_.time : most)) return end;
    // One that waits in vain expects nothing; once may be for an answer, and then for the time of the next request.
    vain_waits_ = messages != messages_ ? 0 : std::min(vain_waits_ + 1, 2);
    messages_ = messages;
    expects_ = spin_.adapts && !is_busy_ && vain_waits_ < 2;
    if (is_busy_) return outlasting_ % kMany < kTries ? now + most : now;
    if (!expects_) return now + spin_.time;
    if (end - now <= kMostExpecting) return end;
    return now + (forecast_.to() <= kMostExpecting ? std::max(spin_.time, forecast_.to()) : spin_.time);
  }
  // Something came that it waits for, and more is to come: until when it goes on.
  Nanoseconds go_on(Nanoseconds now) const noexcept { return is_busy_ ? now : std::min(now + spin_.time, end_); }
  // Its spin is over: until when it sleeps, which may be its end.
  Nanoseconds wake_at(Nanoseconds now) noexcept {
    ++outlasting_;
    if (!expects_) return end_;
    const Nanoseconds to = forecast_.to();
    if (to < end_ - begin_ && can_watch(now, begin_ + forecast_.from(), begin_ + to))
      return begin_ + forecast_.from() - kEarly;
    return end_ != UINT64_MAX && can_watch(now, end_, end_) ? end_ - kEarly : end_;
  }
  // It has slept so long, and spins again.
  Nanoseconds watch_until() const noexcept { return watch_until_; }
  // It ends with a message.
  void came(Nanoseconds now) noexcept {
    if (now <= begin_ + kBusyTime) outlasting_ = 0;
    if (now > begin_ + spin_.time) forecast_.add(now - begin_);
  }

 private:
  // Whether it can be awake then.
  bool can_watch(Nanoseconds now, Nanoseconds from, Nanoseconds to) noexcept {
    watch_until_ = to;
    return from > now + kEarly && to - from + kEarly <= std::min(kMostExpecting, (from - begin_) / kShareExpecting);
  }
  [[gnu::cold]] void ask(Nanoseconds now) noexcept {
    is_busy_ = percent_(now) > kBusyPercent;
    ask_at_ = now + (is_busy_ ? kBusyInterval : kInterval);
  }

  const Spin spin_;
  unsigned (*const percent_)(Nanoseconds) noexcept;
  Nanoseconds ask_at_ = 0;
  bool is_busy_ = false;
  unsigned outlasting_ = 0;  // waits since one ended within kBusyTime
  WaitForecast forecast_;    // of waits for messages that outlast a plain spin
  // The present wait.
  Nanoseconds begin_ = 0, end_ = 0, watch_until_ = 0;
  std::uint64_t messages_ = 0;
  int vain_waits_ = 0;
  bool expects_ = false;
};

}  // namespace ripc::internal::core
