// SPDX-License-Identifier: Apache-2.0
// Pauses between attempts: each is twice as long as the one before it, up to a longest one.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace ripc::internal {

class Backoff {
 public:
  constexpr Backoff(Nanoseconds first, Nanoseconds longest) noexcept : first_(first), longest_(longest) {}

  // The pause to make now.
  constexpr Nanoseconds next() noexcept {
    const Nanoseconds pause = pause_;
    pause_ = std::min(2 * pause, longest_);
    return pause;
  }
  // What next() is going to return.
  constexpr Nanoseconds peek() const noexcept { return pause_; }
  // The next pause is the first one again.
  constexpr void reset() noexcept { pause_ = first_; }

 private:
  Nanoseconds first_;
  Nanoseconds longest_;
  Nanoseconds pause_ = first_;
};

}  // namespace ripc::internal
