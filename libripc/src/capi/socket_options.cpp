// SPDX-License-Identifier: Apache-2.0
#include "capi/socket_options.hpp"

#include <net/if.h>

#include <algorithm>

#include "capi/environment.hpp"
#include "capi/session_options.hpp"
#include "transport/socket/bulk_limits.hpp"

namespace ripc::internal::capi {

namespace {

// "auto", a number of rails, or the interfaces that they leave by.
Status read_rails(remote::RailOptions& rails) {
  const std::string text = environment("RIPC_RAILS");
  if (text.empty() || text == "auto") return {};
  std::size_t most = 0;
  if (parse_number(text, most)) {
    if (most < 1 || most > remote::kMaxRails)
      return Status(RIPC_INVALID_ARGUMENT, "RIPC_RAILS is '" + text + "': give auto, a number from 1 to " +
                                               std::to_string(remote::kMaxRails) + ", or names of interfaces.");
    rails.most = most;
    return {};
  }
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string name = text.substr(start, end - start);
    start = end + 1;
    if (::if_nametoindex(name.c_str()) == 0)
      return Status(RIPC_INVALID_ARGUMENT,
                    "RIPC_RAILS names '" + name + "', which is no network interface here: see `ip link`.");
    rails.interfaces.push_back(name);
  }
  return {};
}

}  // namespace

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
  status = read_rails(options.rails);
  if (!status.ok()) return status;
  // What leaves by one address or interface has one rail.
  if (!options.bind_address.empty() || !options.interface.empty()) options.rails = {.most = 1, .interfaces = {}};
  return options;
}

}  // namespace ripc::internal::capi
