// SPDX-License-Identifier: Apache-2.0
// What the environment says about the RDMA transport.
#pragma once

#include "base/status.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace ripc::internal::capi {

// As read_session_options(), RIPC_VERBS_CONNECTIONS and RIPC_VERBS_GROUPS (docs/tuning.md); the context id and the
// keys are not set.
Result<verbs::TransportOptions> read_verbs_options();

}  // namespace ripc::internal::capi
