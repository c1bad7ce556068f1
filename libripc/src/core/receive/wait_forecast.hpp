// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace ripc::internal::core {

// Forecasts when a wait will end, if the previous waits took about equally long, apart from one outlier at either end.
class WaitForecast {
 public:
  static constexpr std::size_t kWaits = 8;

  void add(Nanoseconds wait) noexcept {
    waits_[count_++ % kWaits] = wait;
    if (count_ < kWaits) return;
    auto sorted = waits_;
    std::sort(sorted.begin(), sorted.end());
    const Nanoseconds shortest = sorted[1], longest = sorted[kWaits - 2];
    // The next wait may differ more than any of these few.
    const Nanoseconds margin = longest - shortest;
    from_ = shortest - std::min(shortest, margin);
    to_ = longest + margin;
  }
  // Counted from the begin of the wait; UINT64_MAX: unknown.
  Nanoseconds from() const noexcept { return from_; }
  Nanoseconds to() const noexcept { return to_; }

 private:
  std::array<Nanoseconds, kWaits> waits_{};
  std::size_t count_ = 0;
  Nanoseconds from_ = UINT64_MAX, to_ = UINT64_MAX;
};

}  // namespace ripc::internal::core
