// SPDX-License-Identifier: Apache-2.0
// Time stamps of files, by which what was read from one is known to be still true.
#pragma once

#include <time.h>

#include "base/clock.hpp"

namespace ripc::internal {

inline bool same_time(const timespec& one, const timespec& other) noexcept {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

// Whether every later change gives the file another time stamp than `changed`. It was read at `read_at` (wall clock).
// The clock of file systems is coarse, 2 seconds on the coarsest.
inline bool is_settled(const timespec& changed, Nanoseconds read_at) noexcept {
  constexpr Nanoseconds kCoarsest = 2'000'000'000;
  const Nanoseconds time = changed.tv_sec < 0 ? 0
                                              : static_cast<Nanoseconds>(changed.tv_sec) * 1'000'000'000 +
                                                    static_cast<Nanoseconds>(changed.tv_nsec);
  return time + kCoarsest < read_at;
}

}  // namespace ripc::internal
