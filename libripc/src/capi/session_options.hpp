// SPDX-License-Identifier: Apache-2.0
// What the environment says about sessions with other hosts, for every transport that has them.
#pragma once

#include "base/status.hpp"
#include "network/session_transport.hpp"

namespace ripc::capi {

// From RIPC_SOCKET_PORTS, RIPC_SOCKET_RECEIVE_BUFFER, RIPC_PEER_TIMEOUT_MS and RIPC_CLUSTER_KEY_FILE (docs/tuning.md);
// what else there is stays as it is. RIPC_INVALID_ARGUMENT names the variable and what it may be; or as
// ClusterKeys::load().
Status read_session_options(network::SessionOptions& options);

}  // namespace ripc::capi
