// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/clock.hpp"

namespace ripc::internal {

// How long a wait polls before it sleeps.
struct Spin {
  Nanoseconds time = 50'000;
  // Less where others want the processor, and more where something is expected; not if someone has said how long.
  bool adapts = true;
};

}  // namespace ripc::internal
