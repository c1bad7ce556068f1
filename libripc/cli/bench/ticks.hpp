// SPDX-License-Identifier: Apache-2.0
// A clock cheap enough to be read twice in every round trip. It is the processor's time stamp counter where that runs
// at a constant rate, else the monotonic clock.
#pragma once

#include <cstdint>

#include "output.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace cli::bench {

class TickClock {
 public:
  TickClock() noexcept {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kInvariant = 1U << 8;
    use_counter_ = __get_cpuid(0x80000007U, &a, &b, &c, &d) == 1 && (d & kInvariant) != 0;
    if (use_counter_) {
      constexpr std::uint64_t kCalibration = 20'000'000;
      const std::uint64_t start = monotonic_now();
      const std::uint64_t first = __rdtsc();
      while (monotonic_now() - start < kCalibration) {
      }
      const std::uint64_t last = __rdtsc();
      nanoseconds_per_tick_ = static_cast<double>(monotonic_now() - start) / static_cast<double>(last - first);
    }
#endif
  }

  std::uint64_t now() const noexcept {
#if defined(__x86_64__)
    if (use_counter_) {
      unsigned processor;
      const std::uint64_t ticks = __rdtscp(&processor);  // after everything before it
      _mm_lfence();                                      // before everything after it
      return ticks;
    }
#endif
    return monotonic_now();
  }
  double nanoseconds(std::uint64_t ticks) const noexcept { return static_cast<double>(ticks) * nanoseconds_per_tick_; }

 private:
  bool use_counter_ = false;
  double nanoseconds_per_tick_ = 1;
};

}  // namespace cli::bench
