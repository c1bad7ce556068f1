// SPDX-License-Identifier: Apache-2.0
// How long the reads over one connection take, by their size, as far as was seen; and so whether the end of one is
// worth polling for. Whoever polls holds a processor, and sleeping costs a wake-up: so what is expected within the time
// that a wait polls at all is polled for, and for what takes longer the receiver sleeps at once.
//
// An estimate that is wrong costs no more than that time. Too short: the receiver sleeps when it is over. Too long: one
// in kTryAfter is polled for all the same, and what it took is learned. Of what nobody has seen yet, the first is, too.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace ripc::verbs {

class ReadPace {
 public:
  static constexpr Nanoseconds kUnknown = 0;
  static constexpr unsigned kTryAfter = 32;

  // So many bytes, with nothing else under way, took so long.
  void saw(std::uint64_t bytes, Nanoseconds took) noexcept {
    Nanoseconds& mean = means_[class_of(bytes)];
    if (mean == kUnknown) {
      mean = took;
    } else {
      mean = mean - mean / kWeight + took / kWeight;
    }
    if (mean == kUnknown) mean = 1;
  }

  // What so many are going to take: as long as others of about this size did, else in proportion to the next smaller
  // ones that were seen, else as long as the next larger ones. kUnknown: none was seen.
  Nanoseconds expected(std::uint64_t bytes) const noexcept {
    const std::size_t size = class_of(bytes);
    for (std::size_t smaller = size + 1; smaller-- > 0;) {
      if (means_[smaller] == kUnknown) continue;
      const std::size_t doublings = size - smaller;
      return doublings < kMostDoublings ? means_[smaller] << doublings : UINT64_MAX;
    }
    for (std::size_t larger = size + 1; larger < means_.size(); ++larger) {
      if (means_[larger] != kUnknown) return means_[larger];
    }
    return kUnknown;
  }

  // Once for each wait: whether so many bytes are worth polling for, by who may poll for `budget`.
  bool is_worth_polling(std::uint64_t bytes, Nanoseconds budget) noexcept {
    if (budget == 0) return false;
    if (expected(bytes) <= budget) return true;
    return ++refused_ % kTryAfter == 0;
  }

 private:
  static constexpr Nanoseconds kWeight = 8;
  static constexpr std::size_t kMostDoublings = 24;
  static std::size_t class_of(std::uint64_t bytes) noexcept { return static_cast<std::size_t>(std::bit_width(bytes)); }

  std::array<Nanoseconds, 65> means_{};  // by the number of bits in the size
  unsigned refused_ = 0;
};

}  // namespace ripc::verbs
