// SPDX-License-Identifier: Apache-2.0
// Reads the variables for the transports between hosts.
#pragma once

#include "base/status.hpp"
#include "transport/socket/socket_transport.hpp"
#ifdef RIPC_WITH_VERBS
#include "transport/verbs/verbs_transport.hpp"
#endif

namespace ripc::internal::capi {

// From RIPC_SOCKET_*, RIPC_VERBS_* and RIPC_PEER_TIMEOUT_MS (docs/tuning.md); the rest is as in `common`.
// RIPC_INVALID_ARGUMENT names the variable and what it may be.
Result<socket::TransportOptions> read_socket_options(const remote::SessionOptions& common);
#ifdef RIPC_WITH_VERBS
Result<verbs::TransportOptions> read_verbs_options(const remote::SessionOptions& common);
#endif

}  // namespace ripc::internal::capi
