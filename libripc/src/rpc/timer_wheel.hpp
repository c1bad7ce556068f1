// SPDX-License-Identifier: Apache-2.0
// One timer for all waiting objects: adding and removing take constant time and no memory.
//
// A hashed timing wheel (Varghese, Lauck: Hashed and Hierarchical Timing Wheels, SOSP 1987, scheme 6). Calls nearly
// always end long before their time is over, so what counts is the cost of adding and removing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace ripc::internal::rpc {

// One thread at a time.
class TimerWheel {
 public:
  static constexpr Nanoseconds kTick = 1'000'000;

  // The base class of waiting objects. Remove it before it is destroyed.
  class Timer {
   public:
    enum class Of : std::uint8_t { call, session };
    explicit Timer(Of what) noexcept : of_(what) {}
    Of of() const noexcept { return of_; }
    bool is_set() const noexcept { return next_ != nullptr; }

   private:
    friend class TimerWheel;
    const Of of_;
    Timer* next_ = nullptr;
    Timer* previous_ = nullptr;
    Nanoseconds due_ = UINT64_MAX;
  };

  TimerWheel() noexcept;
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // Sets or resets the timer. UINT64_MAX: never, which is the same as remove().
  void set(Timer& timer, Nanoseconds due) noexcept;
  void remove(Timer& timer) noexcept;

  // Takes one timer that is due; nullptr: no more are due. It may come up to a tick late, and never early.
  Timer* take_due(Nanoseconds now) noexcept;
  // When to call take_due() again. Nothing is due earlier, but perhaps nothing is due then either.
  Nanoseconds next_due() const noexcept { return earliest_; }

 private:
  static constexpr std::size_t kSlots = 512;  // one turn is half a second; timers due later are skipped
  struct Slot {
    Timer head{Timer::Of::call};  // of a ring
    Nanoseconds earliest = UINT64_MAX;
  };
  static std::size_t slot_of(Nanoseconds due) noexcept { return static_cast<std::size_t>(due / kTick) % kSlots; }
  void find_earliest() noexcept;

  std::array<Slot, kSlots> slots_;
  Nanoseconds earliest_ = UINT64_MAX;  // not later than the first due time
};

}  // namespace ripc::internal::rpc
