// SPDX-License-Identifier: Apache-2.0
// The multicast resolver's network over RDMA devices, made from the resolver's options.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::capi {

// One network, or none. There is none if the options exclude it or keep to this host (ttl=0), or if they have UDP too
// and no port of the fabric supports datagrams. The errors of verbs::FabricNetwork::open().
Result<resolver::MulticastResolver::Networks> fabric_networks(const resolver::MulticastOptions& options,
                                                              const std::shared_ptr<const verbs::DeviceList>& devices);

}  // namespace ripc::internal::capi
