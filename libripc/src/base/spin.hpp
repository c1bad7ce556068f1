// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/clock.hpp"

namespace ripc::internal {

// How long a wait polls before it sleeps.
struct Spin {
  Nanoseconds time = 50'000;
  bool adapts = true;   // less where the processor is wanted by others; not if someone has said how long
  bool expects = true;  // and more where something is expected; there is a processor that can bring it meanwhile
};

}  // namespace ripc::internal
