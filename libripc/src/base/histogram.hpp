// SPDX-License-Identifier: Apache-2.0
// Counts how often each time was seen, in memory of fixed size.
//
// Each power of two is divided into 64 ranges of the same width. So times of any length are accurate to 1.6 %. This is
// the scheme of HdrHistogram, whose C library is not in Debian 12.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/clock.hpp"

namespace ripc::internal {

// One thread at a time.
class Histogram {
 public:
  static constexpr unsigned kBitsOfLargest = 40;
  static constexpr Nanoseconds kLargest =
      (Nanoseconds{1} << kBitsOfLargest) - 1;  // 18 minutes; longer ones count as this

  void add(Nanoseconds time) noexcept {
    time = std::min(time, kLargest);
    ++counts_[range_of(time)];
    ++count_;
    sum_ += time;
    smallest_ = std::min(smallest_, time);
    largest_ = std::max(largest_, time);
  }
  std::uint64_t count() const noexcept { return count_; }
  // This and the following are 0 if nothing was added.
  Nanoseconds minimum() const noexcept { return count_ == 0 ? 0 : smallest_; }
  Nanoseconds maximum() const noexcept { return largest_; }
  Nanoseconds mean() const noexcept { return count_ == 0 ? 0 : sum_ / count_; }
  // The time that `share` (0 to 1) of all times do not exceed.
  Nanoseconds at(double share) const noexcept {
    if (count_ == 0) return 0;
    const double exact = share * static_cast<double>(count_);
    auto rank = static_cast<std::uint64_t>(exact);
    if (static_cast<double>(rank) < exact) ++rank;
    std::size_t range = 0;
    for (std::uint64_t seen = counts_[0]; seen < rank && range + 1 < counts_.size(); seen += counts_[++range]) {
    }
    return std::clamp(end_of(range), smallest_, largest_);
  }

  // How many times have their highest bit at this place; 0 counts as 1. `bit`: below kBitsOfLargest.
  std::uint64_t count_of_power(unsigned bit) const noexcept {
    const auto* const counts = counts_.data();
    return std::accumulate(counts + (bit == 0 ? 0 : range_of(Nanoseconds{1} << bit)),
                           counts + range_of(Nanoseconds{2} << bit), std::uint64_t{0});
  }

 private:
  static constexpr unsigned kBits = 6;  // of the ranges of one power of two
  static constexpr std::size_t kRanges = std::size_t{1} << kBits;

  static constexpr std::size_t range_of(Nanoseconds time) noexcept {
    if (time < 2 * kRanges) return static_cast<std::size_t>(time);
    const unsigned shift = static_cast<unsigned>(std::bit_width(time)) - kBits - 1;
    return shift * kRanges + static_cast<std::size_t>(time >> shift);
  }
  // The largest time in the range.
  static constexpr Nanoseconds end_of(std::size_t range) noexcept {
    if (range < 2 * kRanges) return range;
    const std::size_t shift = range / kRanges - 1;
    return ((Nanoseconds{range} - shift * kRanges + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (kBitsOfLargest - kBits + 1) * kRanges> counts_{};
  std::uint64_t count_ = 0;
  Nanoseconds sum_ = 0;
  Nanoseconds smallest_ = UINT64_MAX;
  Nanoseconds largest_ = 0;
};

}  // namespace ripc::internal
