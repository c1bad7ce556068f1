// SPDX-License-Identifier: Apache-2.0
// What the environment says about the socket transport.
#pragma once

#include "base/status.hpp"
#include "transport/socket/socket_transport.hpp"

namespace ripc::internal::capi {

// From RIPC_SOCKET_* (docs/tuning.md) and RIPC_PEER_TIMEOUT_MS; the context id and the keys are not set.
// RIPC_INVALID_ARGUMENT names the variable and what it may be.
Result<socket::TransportOptions> read_socket_options();

}  // namespace ripc::internal::capi
