// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/clock.hpp"

namespace ripc::internal {

// How long a wait polls before it sleeps.
struct Spin {
  Nanoseconds time = 50'000;
  // Whether to poll for less time when others want the processor, and for more when something is expected. False if the
  // user has set the time.
  bool adapts = true;
};

}  // namespace ripc::internal
