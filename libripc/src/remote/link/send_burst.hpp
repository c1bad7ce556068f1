// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace ripc::internal::remote {

// Tells which sends may wait for the next ones, to share a system call with them.
//
// A thread that waits in the library lets go what was held for it, so it loses no time: what it sends at once after a
// send may be held. Other threads rely on a timer. After a flush by the timer, a burst must first be long.
class SendBurst {
 public:
  // The next send of a burst begins less than kGap after the end of the last one.
  static constexpr Nanoseconds kGap = 2'000;
  // A thread that was preempted, as by its responder, goes on with its burst after such a gap, but not after many.
  static constexpr Nanoseconds kPreempted = 50'000;
  // After so many sends, the sender must be faster than its path.
  static constexpr unsigned kLong = 32;
  // The sends after a flush by the timer of which only those of long bursts may be held. Each further flush by the
  // timer doubles them.
  static constexpr unsigned kStrict = 64;
  static constexpr unsigned kMostStrict = 65'536;

  // A send begins. True: it may be held.
  bool begins(Nanoseconds now) noexcept {
    const Nanoseconds gap = now - last_;
    last_ = now;
    if (strict_ != 0) --strict_;
    if (gap < kGap) {
      sends_ = std::min(sends_ + 1, 2 * kLong);
      return strict_ == 0 || is_long();
    }
    sends_ = gap < kPreempted ? sends_ / 2 : 0;
    return false;
  }
  // It has ended; not called where that took no time.
  void ended(Nanoseconds now) noexcept { last_ = now; }
  // What was held had to wait for the timer.
  void was_late() noexcept {
    strict_ = next_strict_;
    next_strict_ = std::min(2 * next_strict_, kMostStrict);
  }
  // The thread has let it go, or has sent more.
  void was_prompt() noexcept { next_strict_ = kStrict; }

  bool is_long() const noexcept { return sends_ >= kLong; }
  // When the last send began, or ended.
  Nanoseconds last() const noexcept { return last_; }

 private:
  Nanoseconds last_ = 0;
  unsigned sends_ = 0;  // that followed each other
  unsigned strict_ = 0;
  unsigned next_strict_ = kStrict;
};

}  // namespace ripc::internal::remote
