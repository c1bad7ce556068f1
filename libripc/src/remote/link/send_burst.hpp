// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace ripc::internal::remote {

// Tells whether a sender has come back at once so often that it must be faster than its path.
class SendBurst {
 public:
  // A burst is this many sends, with less than kGap between the end of one and the beginning of the next.
  static constexpr unsigned kSends = 32;
  static constexpr Nanoseconds kGap = 2'000;
  // A thread that was preempted, as by its responder, goes on with its burst after such a gap, but not after many.
  static constexpr Nanoseconds kPreempted = 50'000;

  // A send begins. True: it is part of a burst.
  bool begins(Nanoseconds now) noexcept {
    const Nanoseconds gap = now - last_;
    last_ = now;
    if (gap < kGap) return (sends_ = std::min(sends_ + 1, 2 * kSends)) >= kSends;
    sends_ = gap < kPreempted ? sends_ / 2 : 0;
    return false;
  }
  // It has ended; not called where that took no time.
  void ended(Nanoseconds now) noexcept { last_ = now; }
  // When the last send began, or ended.
  Nanoseconds last() const noexcept { return last_; }

 private:
  Nanoseconds last_ = 0;
  unsigned sends_ = 0;  // that followed each other
};

}  // namespace ripc::internal::remote
