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
  // With one processor, a peer on this host needs it: only a wait for peers on other hosts polls.
  bool remote_only = false;

  // For a wait whose peer may be on this host.
  Nanoseconds any_peer() const noexcept { return remote_only ? 0 : time; }
};

}  // namespace ripc::internal
