// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "base/clock.hpp"

namespace ripc::internal {

// For a loop that waits for a few instructions of another thread, which may have lost its processor. `round` is 0, 1,
// 2, ...
inline void spin_wait(unsigned round) noexcept {
  if (round < 1000) {
    cpu_pause();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace ripc::internal
