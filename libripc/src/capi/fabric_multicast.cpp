// SPDX-License-Identifier: Apache-2.0
#include "capi/fabric_multicast.hpp"

#include <algorithm>
#include <utility>

#include "resolver/multicast/udp_network.hpp"
#include "transport/verbs/fabric_multicast/fabric_network.hpp"

namespace ripc::internal::capi {

namespace {

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
  for (const resolver::MulticastGroup& group : options.groups) {
    const resolver::SocketAddress address = resolver::group_address(group, 0);
    chosen.groups.push_back(remote::Endpoint::of(reinterpret_cast<const sockaddr&>(address.address)));
  }
  Result<std::unique_ptr<verbs::FabricNetwork>> network = verbs::FabricNetwork::open(devices, chosen);
  if (!network.ok()) return network.status();
  networks.push_back(std::move(*network));
  return networks;
}

}  // namespace ripc::internal::capi
