// SPDX-License-Identifier: Apache-2.0
// What the environment says about finding services on other hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cluster_key.hpp"
#include "base/status.hpp"
#include "resolver/multicast/options.hpp"

namespace ripc::capi {

// The keys in $RIPC_CLUSTER_KEY_FILE; nullptr if it is not set. The errors of ClusterKeys::load().
Result<std::shared_ptr<const ClusterKeys>> read_cluster_keys();

// $RIPC_MULTICAST. Without it the multicast resolver is used if one of the transports leaves the host; "off" switches
// it off (nullopt), anything else on. RIPC_INVALID_ARGUMENT, and the errors of read_cluster_keys().
Result<std::optional<resolver::MulticastOptions>> read_multicast_options(const std::vector<std::string>& transports,
                                                                         const spi::NameHash& hash_name);

}  // namespace ripc::capi
