// SPDX-License-Identifier: Apache-2.0
// Time stamps of files, which tell whether what was read from a file is still current.
#pragma once

#include <time.h>

#include "base/clock.hpp"

namespace ripc::internal {

inline bool same_time(const timespec& one, const timespec& other) noexcept {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

// Whether every later change will give the file a time stamp other than `changed`. The file was read at `read_at` (wall
// clock). File systems have coarse clocks: 2 seconds on the coarsest.
inline bool is_settled(const timespec& changed, Nanoseconds read_at) noexcept {
  constexpr Nanoseconds kCoarsest = 2'000'000'000;
  const Nanoseconds time = changed.tv_sec < 0 ? 0
                                              : static_cast<Nanoseconds>(changed.tv_sec) * 1'000'000'000 +
                                                    static_cast<Nanoseconds>(changed.tv_nsec);
  return time + kCoarsest < read_at;
}

}  // namespace ripc::internal
