// SPDX-License-Identifier: Apache-2.0
// Time, and waiting for a condition that another thread or process makes true.
#pragma once

#include <time.h>

#include <cstdint>

namespace support {

inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1000 * kMillisecond;
inline constexpr std::uint64_t kLimit = 20 * kSecond;  // no wait is longer

// Nanoseconds.
inline std::uint64_t read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kSecond + static_cast<std::uint64_t>(time.tv_nsec);
}
inline std::uint64_t now() { return read_clock(CLOCK_MONOTONIC); }

// Polls until the condition holds or the limit has passed; returns whether it held.
template <typename Condition>
bool eventually(const Condition& condition, std::uint64_t limit = kLimit) {
  const std::uint64_t end = now() + limit;
  while (!condition()) {
    if (now() >= end) return false;
    // The pause only leaves the processor to the thread that makes the condition true.
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

}  // namespace support
