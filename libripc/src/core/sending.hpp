// SPDX-License-Identifier: Apache-2.0
// What sends to a service and sends to a group have in common.
#pragma once

#include "ripc/ripc.h"

namespace ripc::core {

// The channel is of no use any more.
inline bool is_gone(ripc_status status) noexcept { return status == RIPC_PEER_DEAD || status == RIPC_CLOSED; }

}  // namespace ripc::core
