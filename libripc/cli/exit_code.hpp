// SPDX-License-Identifier: Apache-2.0
// The exit codes of the command. They are part of its interface: scripts may rely on them.
#pragma once

#include "ripc/ripc.hpp"

namespace cli {

enum ExitCode : int {
  kOk = 0,
  kFailure = 1,    // anything without a code of its own
  kUsage = 2,      // the command line is wrong; nothing was done
  kNoService = 3,  // no living service has this name or ID
  kTimeout = 4,    // the service is there, but did not answer in time
  kRefused = 5,    // the service refused: no such file, no permission, no such method, an answer with a code, ...
  kMismatch = 6,   // data arrived that differs from what was sent: a checksum or benchmark payload was wrong
};

inline ExitCode exit_code_for(ripc_status status) noexcept {
  switch (status) {
    case RIPC_OK:
      return kOk;
    case RIPC_NO_SERVICE:
      return kNoService;
    case RIPC_TIMEOUT:
      return kTimeout;
    case RIPC_REFUSED:
      return kRefused;
    case RIPC_CORRUPT:
      return kMismatch;
    default:
      return kFailure;
  }
}

inline constexpr const char* kExitCodeHelp =
    "Exit codes: 0 done, 1 failure, 2 wrong usage, 3 no such service, 4 timed out, 5 the service refused,\n"
    "6 data did not match.";

}  // namespace cli
