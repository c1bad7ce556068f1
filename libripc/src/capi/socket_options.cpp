// SPDX-License-Identifier: Apache-2.0
#include "capi/socket_options.hpp"

#include "capi/environment.hpp"
#include "capi/session_options.hpp"
#include "transport/socket/bulk_limits.hpp"

namespace ripc::internal::capi {

Result<socket::TransportOptions> read_socket_options() {
  socket::TransportOptions options;
  Status status = read_session_options(options);
  if (!status.ok()) return status;
  std::uint64_t connections = options.bulk_connections;
  status = read_number("RIPC_SOCKET_BULK_CONNECTIONS", 1, socket::kMaxBulkConnections, connections);
  if (!status.ok()) return status;
  options.bulk_connections = static_cast<std::size_t>(connections);
  options.bind_address = environment("RIPC_SOCKET_ADDRESS");
  options.interface = environment("RIPC_SOCKET_INTERFACE");
  return options;
}

}  // namespace ripc::internal::capi
