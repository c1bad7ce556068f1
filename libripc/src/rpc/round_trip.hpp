// SPDX-License-Identifier: Apache-2.0
// Estimates after which time an answer is overdue.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace ripc::internal::rpc {

// A moving mean; 0: nothing was measured.
constexpr Nanoseconds smoothed(Nanoseconds mean, Nanoseconds sample) noexcept {
  return mean == 0 ? sample : mean - mean / 8 + sample / 8;
}

// The estimator of TCP (RFC 6298). The measured times include those of the handlers, so slow servers are not asked
// again and again.
class RoundTrip {
 public:
  static constexpr Nanoseconds kFirst = 5'000'000;
  static constexpr Nanoseconds kShortest = 2'000'000;
  static constexpr Nanoseconds kLongest = 200'000'000;  // also the limit of the doubling pauses

  // Adds the time of a call that was sent only once: for a repeated one, nobody knows which message was answered
  // (Karn's rule).
  void add(Nanoseconds sample) noexcept {
    backed_off_ = 0;
    sample = std::min(sample, kLongest);
    if (mean_ == 0) {
      mean_ = sample;
      deviation_ = sample / 2;
      return;
    }
    const Nanoseconds difference = sample > mean_ ? sample - mean_ : mean_ - sample;
    deviation_ += difference / 4;
    deviation_ -= deviation_ / 4;
    mean_ = smoothed(mean_, sample);
  }
  // Called when a call was overdue. If the path has become slower, all calls will be overdue, and none can be measured.
  // So the next ones get more time, until one is measured.
  void back_off() noexcept { backed_off_ = std::min(2 * overdue(), kLongest); }
  Nanoseconds overdue() const noexcept {
    return std::max(backed_off_, mean_ == 0 ? kFirst : std::clamp(mean_ + 4 * deviation_, kShortest, kLongest));
  }

 private:
  Nanoseconds backed_off_ = 0;
  Nanoseconds mean_ = 0;  // 0: nothing was measured
  Nanoseconds deviation_ = 0;
};

}  // namespace ripc::internal::rpc
