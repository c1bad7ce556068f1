// SPDX-License-Identifier: Apache-2.0
// What the environment says about sessions with other hosts, for every transport that has them.
#pragma once

#include "base/status.hpp"
#include "remote/session/session_transport.hpp"

namespace ripc::internal::capi {

// From RIPC_SOCKET_PORTS, RIPC_SOCKET_RECEIVE_BUFFER, RIPC_SOCKET_STREAMS and RIPC_PEER_TIMEOUT_MS (docs/tuning.md);
// what else there is, such as the keys, stays as it is. RIPC_INVALID_ARGUMENT names the variable and what it may be.
Status read_session_options(remote::SessionOptions& options);

}  // namespace ripc::internal::capi
