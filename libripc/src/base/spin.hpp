// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/clock.hpp"

namespace ripc::internal {

// How long a wait polls before it sleeps.
struct Spin {
  Nanoseconds time = 50'000;
  bool adapts = true;  // less where the processor is wanted by others; not if someone has said how long
};

}  // namespace ripc::internal
