// SPDX-License-Identifier: Apache-2.0
// A limit of so many events per second, with bursts. Header-only.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace ripc::internal::resolver {

// Not thread-safe.
class RateLimit {
 public:
  RateLimit(double per_second, double burst) noexcept : per_second_(per_second), burst_(burst), tokens_(burst) {}

  // Whether one more is allowed now; if so, counts it.
  bool take(Nanoseconds now) noexcept {
    if (last_ != 0 && now > last_)
      tokens_ = std::min(burst_, tokens_ + static_cast<double>(now - last_) * 1e-9 * per_second_);
    last_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  const double per_second_;
  const double burst_;
  double tokens_;
  Nanoseconds last_ = 0;
};

}  // namespace ripc::internal::resolver
