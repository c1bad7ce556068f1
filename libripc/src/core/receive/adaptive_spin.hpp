// SPDX-License-Identifier: Apache-2.0
// How long a wait polls before it sleeps. Where other threads want the processor, polling takes time from the very
// thread that it waits for. It also delays the next wake: the kernel does not immediately wake a thread that has just
// used its share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/spin.hpp"
#include "core/receive/wait_forecast.hpp"

namespace ripc::internal::core {

// The share of its time, in percent, for which the calling thread has waited for a processor since its last call; 0 if
// the system does not say. Makes a few system calls.
unsigned percent_waited(Nanoseconds now) noexcept;

// Used by the receiving thread. On a free processor, a wait spins a little longer if messages have come within that
// time. It is awake again when a message, or the end of the wait, is expected: Linux polls block devices in this way
// (hybrid polling). Now and then it checks whether the thread gets a processor when it wants one. If not, a wait spins
// no longer than a sleep would cost, and only while that helps.
class AdaptiveSpin {
 public:
  static constexpr Nanoseconds kBusyTime = 10'000;  // about the processor time of a sleep and a wake
  static constexpr unsigned kBusyPercent = 10;      // percent
  // After kTries waits in a row that outlast kBusyTime, waits sleep at once: a spin uses up the thread's share. One
  // wait may outlast it by accident, when another thread has its turn. Of every kMany waits, kTries spin again.
  static constexpr unsigned kTries = 4;
  static constexpr unsigned kMany = 64;
  // The least time between two checks. Turns of other threads are rare and long, so a short interval would miss them.
  static constexpr Nanoseconds kInterval = 20'000'000;
  static constexpr Nanoseconds kBusyInterval = 200'000'000;
  // A wait spins for an expected event no longer than this, and no more than a share of its time.
  static constexpr Nanoseconds kMostExpecting = 250'000;
  static constexpr Nanoseconds kShareExpecting = 4;
  // A sleep may end this late: the kernel's slack of 50 us, plus a wake.
  static constexpr Nanoseconds kEarly = 100'000;

  explicit AdaptiveSpin(Spin spin, unsigned (*percent)(Nanoseconds) noexcept = percent_waited) noexcept
      : spin_(spin), percent_(percent), time_(spin.any_peer()) {}

  bool is_off() const noexcept { return time_ == 0; }
  // Valid until the next check.
  bool is_short() const noexcept { return is_busy_; }
  // A peer has sent its first message. With one processor, waits spin while all such peers are on other hosts.
  void met(bool is_on_this_host) noexcept {
    has_local_peer_ = has_local_peer_ || is_on_this_host;
    time_ = has_local_peer_ ? spin_.any_peer() : spin_.time;
  }
  // Called when a wait until `end` begins to spin. Returns until when it may spin. A wait no longer than a spin ends
  // without a sleep. `messages`: how many have come so far. `uses_fd`: another thread waits for the descriptor. A
  // message would wake both, so a wait shorter than a full spin does not sleep, even on a busy processor.
  Nanoseconds begin(Nanoseconds now, Nanoseconds end, std::uint64_t messages, bool uses_fd = false) noexcept {
    begin_ = now;
    end_ = end;
    if (now >= ask_at_ && adapts()) [[unlikely]]
      ask(now);
    const Nanoseconds most = is_busy_ ? std::min(time_, kBusyTime) : time_;
    if (end - now <= (uses_fd ? time_ : most)) return end;
    // A thread whose waits bring no message expects none. A single such wait is tolerated: it may be for an answer, or
    // for the time of the next request.
    vain_waits_ = messages != messages_ ? 0 : std::min(vain_waits_ + 1, 2);
    messages_ = messages;
    expects_ = adapts() && !is_busy_ && vain_waits_ < 2;
    if (is_busy_) return outlasting_ % kMany < kTries ? now + most : now;
    if (!expects_) return now + time_;
    if (end - now <= kMostExpecting) return end;
    return now + (forecast_.to() <= kMostExpecting ? std::max(time_, forecast_.to()) : time_);
  }
  // Part of what the wait is for has come, and more is to come. Returns until when the wait goes on spinning.
  Nanoseconds go_on(Nanoseconds now) const noexcept { return is_busy_ ? now : std::min(now + time_, end_); }
  // The spin is over. Returns until when the wait sleeps, which may be its end.
  Nanoseconds wake_at(Nanoseconds now) noexcept {
    ++outlasting_;
    if (!expects_) return end_;
    const Nanoseconds to = forecast_.to();
    if (to < end_ - begin_ && can_watch(now, begin_ + forecast_.from(), begin_ + to))
      return begin_ + forecast_.from() - kEarly;
    return end_ != UINT64_MAX && can_watch(now, end_, end_) ? end_ - kEarly : end_;
  }
  // The wait has slept, and spins again. Returns until when.
  Nanoseconds watch_until() const noexcept { return watch_until_; }
  // The wait ends with a message.
  void came(Nanoseconds now) noexcept {
    if (now <= begin_ + kBusyTime) outlasting_ = 0;
    if (now > begin_ + time_) forecast_.add(now - begin_);
  }

 private:
  bool adapts() const noexcept { return spin_.adapts && !is_off(); }
  // Whether the wait can be awake at that time.
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
  Nanoseconds time_;  // how long a plain spin lasts
  bool has_local_peer_ = false;
  Nanoseconds ask_at_ = 0;
  bool is_busy_ = false;
  unsigned outlasting_ = 0;  // waits since one ended within kBusyTime
  WaitForecast forecast_;    // of the waits for messages that outlast a plain spin
  // The present wait.
  Nanoseconds begin_ = 0, end_ = 0, watch_until_ = 0;
  std::uint64_t messages_ = 0;
  int vain_waits_ = 0;
  bool expects_ = false;
};

}  // namespace ripc::internal::core
