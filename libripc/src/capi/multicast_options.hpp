// SPDX-License-Identifier: Apache-2.0
// Reads the variables for finding services on other hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "capi/network_access.hpp"
#include "resolver/multicast/options.hpp"

namespace ripc::internal::capi {

// $RIPC_MULTICAST. Without it the multicast resolver is used if one of the transports leaves the host; "off" switches
// it off (nullopt), anything else on. RIPC_INVALID_ARGUMENT. RIPC_PERMISSION: it is set, but there is no cluster key.
Result<std::optional<resolver::MulticastOptions>> read_multicast_options(const std::vector<std::string>& transports,
                                                                         const NetworkAccess& access,
                                                                         const spi::NameHash& hash_name);

}  // namespace ripc::internal::capi
