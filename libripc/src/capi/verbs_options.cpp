// SPDX-License-Identifier: Apache-2.0
#ifdef RIPC_WITH_VERBS

#include "capi/verbs_options.hpp"

#include "capi/environment.hpp"
#include "capi/session_options.hpp"

namespace ripc::internal::capi {

Result<verbs::TransportOptions> read_verbs_options() {
  verbs::TransportOptions options;
  Status status = read_session_options(options);
  if (!status.ok()) return status;
  std::uint64_t connections = options.max_connections;
  status = read_number("RIPC_VERBS_CONNECTIONS", 1, 65536, connections);
  if (!status.ok()) return status;
  options.max_connections = static_cast<std::size_t>(connections);
  status = read_switch("RIPC_VERBS_GROUPS", options.multicast_groups);
  if (!status.ok()) return status;
  return options;
}

}  // namespace ripc::internal::capi

#endif
