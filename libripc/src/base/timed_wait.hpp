// SPDX-License-Identifier: Apache-2.0
// Waiting for a notification, with a limit of any length.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"

namespace ripc::internal {

// `lock` is held at the call and at the return. Waits for a notification of `changed`, at most for `time`. Like any
// such wait it may return early, so the caller looks and waits again.
template <typename Condition, typename Lock>
void wait_at_most(Condition& changed, Lock& lock, Nanoseconds time) {
  // The standard library adds the time to its clock, and a sum beyond its range lies in the past.
  constexpr Nanoseconds kLongest = 86'400'000'000'000;
  changed.wait_for(lock, std::chrono::nanoseconds(std::min(time, kLongest)));
}

}  // namespace ripc::internal
