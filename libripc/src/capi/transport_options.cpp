// SPDX-License-Identifier: Apache-2.0
#include "capi/transport_options.hpp"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "capi/environment.hpp"
#include "remote/session/endpoint.hpp"
#include "transport/socket/stream_bulk.hpp"

namespace ripc::internal::capi {

namespace {

// "7000" or "7000-7999".
Status read_ports(remote::PortRange& range) {
  const std::string text = environment("RIPC_SOCKET_PORTS");
  if (text.empty()) return {};
  const std::size_t dash = text.find('-');
  const bool good = parse_number(std::string_view(text).substr(0, dash), range.first) &&
                    (dash == std::string::npos || parse_number(std::string_view(text).substr(dash + 1), range.last));
  if (dash == std::string::npos) range.last = range.first;
  if (good && range.first != 0 && range.first <= range.last) return {};
  return Status(RIPC_INVALID_ARGUMENT,
                "RIPC_SOCKET_PORTS is '" + text + "': give a port or a range of ports, such as 7000-7999.");
}

// The options that all of these transports have.
Status read_session_options(remote::SessionOptions& options) {
  Status status = read_ports(options.ports);
  if (!status.ok()) return status;
  std::uint64_t timeout = options.peer_timeout / 1'000'000;
  status = read_number("RIPC_PEER_TIMEOUT_MS", 100, 3'600'000, timeout);
  if (!status.ok()) return status;
  options.peer_timeout = timeout * 1'000'000;
  std::uint64_t buffer = options.receive_buffer;
  status = read_number("RIPC_SOCKET_RECEIVE_BUFFER", 4096, std::uint64_t{1} << 30, buffer);
  if (!status.ok()) return status;
  options.receive_buffer = static_cast<std::size_t>(buffer);
  return read_switch("RIPC_SOCKET_STREAMS", options.streams);
}

// Whether this may be the name of a network interface or an RDMA device.
bool is_device(const std::string& name) {
  return ::if_nametoindex(name.c_str()) != 0 || (!name.empty() && name.find('/') == std::string::npos &&
                                                 ::access(("/sys/class/infiniband/" + name).c_str(), F_OK) == 0);
}

// Reads "auto", a number of rails, or the names of the interfaces or devices that the rails use.
Status read_rails(remote::RailOptions& rails) {
  const std::string text = environment("RIPC_RAILS");
  if (text.empty() || text == "auto") return {};
  std::size_t most = 0;
  if (parse_number(text, most)) {
    if (most < 1 || most > remote::kMaxRails)
      return Status(RIPC_INVALID_ARGUMENT, "RIPC_RAILS is '" + text + "': give auto, a number from 1 to " +
                                               std::to_string(remote::kMaxRails) +
                                               ", or names of interfaces or RDMA devices.");
    rails.most = most;
    return {};
  }
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string name = text.substr(start, end - start);
    start = end + 1;
    if (!is_device(name))
      return Status(RIPC_INVALID_ARGUMENT, "RIPC_RAILS names '" + name +
                                               "', which is no network interface or RDMA device here: see `ip link` "
                                               "and `rdma link`.");
    rails.names.push_back(name);
  }
  return {};
}

}  // namespace

Result<socket::TransportOptions> read_socket_options(const remote::SessionOptions& common) {
  socket::TransportOptions options{common};
  Status status = read_session_options(options);
  if (!status.ok()) return status;
  std::uint64_t connections = options.bulk_connections;
  status = read_number("RIPC_SOCKET_BULK_CONNECTIONS", 1, socket::kMaxBulkConnections, connections);
  if (!status.ok()) return status;
  options.bulk_connections = static_cast<std::size_t>(connections);
  options.bind_address = environment("RIPC_SOCKET_ADDRESS");
  if (remote::Endpoint where; !options.bind_address.empty() && !remote::Endpoint::parse(options.bind_address, 0, where))
    return Status(RIPC_INVALID_ARGUMENT, "RIPC_SOCKET_ADDRESS is '" + options.bind_address +
                                             "', which is no IP address: give one of this host, such as 10.0.0.7.");
  options.interface = environment("RIPC_SOCKET_INTERFACE");
  status = read_rails(options.rails);
  if (!status.ok()) return status;
  // Traffic through one address or interface has one rail.
  if (!options.bind_address.empty() || !options.interface.empty()) options.rails = {.most = 1, .names = {}};
  return options;
}

#ifdef RIPC_WITH_VERBS
Result<verbs::TransportOptions> read_verbs_options(const remote::SessionOptions& common) {
  verbs::TransportOptions options{common};
  Status status = read_session_options(options);
  if (!status.ok()) return status;
  std::uint64_t connections = options.max_connections;
  status = read_number("RIPC_VERBS_CONNECTIONS", 1, 65536, connections);
  if (!status.ok()) return status;
  options.max_connections = static_cast<std::size_t>(connections);
  status = read_switch("RIPC_VERBS_GROUPS", options.multicast_groups);
  if (!status.ok()) return status;
  status = read_rails(options.rails);
  if (!status.ok()) return status;
  return options;
}
#endif

}  // namespace ripc::internal::capi
