// SPDX-License-Identifier: Apache-2.0
#ifdef RIPC_WITH_VERBS

#include "capi/fabric_multicast.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "transport/verbs/fabric_multicast/fabric_network.hpp"

namespace ripc::internal::capi {

namespace {

remote::Endpoint endpoint_of(const resolver::MulticastGroup& group) {
  if (group.is_ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = group.ipv6;
    address.sin6_port = htons(group.port);
    return remote::Endpoint::of(reinterpret_cast<const sockaddr&>(address));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = group.ipv4;
  address.sin_port = htons(group.port);
  return remote::Endpoint::of(reinterpret_cast<const sockaddr&>(address));
}

bool has_datagrams(const verbs::DevicePort& port) { return port.mtu != 0; }

}  // namespace

Result<resolver::MulticastResolver::Networks> fabric_networks(const resolver::MulticastOptions& options,
                                                              const std::shared_ptr<const verbs::DeviceList>& devices) {
  resolver::MulticastResolver::Networks networks;
  const std::vector<verbs::DevicePort> ports = devices->ports();
  const bool is_of_use = !options.udp || std::any_of(ports.begin(), ports.end(), has_datagrams);
  if (!options.fabric || options.ttl == 0 || !is_of_use) return networks;
  verbs::FabricNetworkOptions chosen{.groups = {},
                                     .interfaces = options.interfaces,
                                     .hops = options.ttl,
                                     .peers = options.peers,
                                     .receives_own_packets = options.receives_own_packets};
  for (const resolver::MulticastGroup& group : options.groups) chosen.groups.push_back(endpoint_of(group));
  Result<std::unique_ptr<verbs::FabricNetwork>> network = verbs::FabricNetwork::open(devices, chosen);
  if (!network.ok()) return network.status();
  networks.push_back(std::move(*network));
  return networks;
}

}  // namespace ripc::internal::capi

#endif
