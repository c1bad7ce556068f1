// SPDX-License-Identifier: Apache-2.0
// A hostile process that writes garbage into everything that it shares with the services of a context, and sends
// garbage on the socket.
#pragma once

#include <string>
#include <vector>

#include "ripc/ripc.h"

namespace fault {

inline constexpr ripc_service_id kService = 1001;  // opens links to it
inline constexpr ripc_service_id kOther = 1002;    // only names it
inline constexpr ripc_service_id kLiar = 1004;     // what it calls itself

// The role of the process. Arguments DIRECTORY CONTEXT SEED ROUNDS.
int scribbler(const std::vector<std::string>& arguments);

}  // namespace fault
