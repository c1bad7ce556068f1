// SPDX-License-Identifier: Apache-2.0
// The fixture for tests of calls: a client and a running server.
#pragma once

#include "call_ends.hpp"

namespace conformance {

class RemoteCalls : public CallTest {
 protected:
  RemoteCalls() : server_(make_context()) { server_.start(); }
  CallServer server_;
};

inline constexpr auto kAnswered = RIPC_CALL_ANSWERED;
inline constexpr auto kDidNotRun = RIPC_CALL_DID_NOT_RUN;
inline constexpr auto kMayHaveRun = RIPC_CALL_MAY_HAVE_RUN;

inline Outcome ended(ripc_call_outcome outcome, ripc_status status) {
  return {.begun = RIPC_OK, .outcome = outcome, .status = status};
}

}  // namespace conformance
