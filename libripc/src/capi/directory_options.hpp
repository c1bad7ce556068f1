// SPDX-License-Identifier: Apache-2.0
// Reads the options and variables for a directory of services, and for the order in which resolvers are asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "capi/network_access.hpp"
#include "resolver/zookeeper/zookeeper_options.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::capi {

// options.zookeeper, else $RIPC_ZOOKEEPER; nullopt: none, or "off". Includes $RIPC_ZOOKEEPER_SESSION_MS.
// RIPC_INVALID_ARGUMENT. RIPC_PERMISSION: it is set, but there is no cluster key.
Result<std::optional<resolver::ZooKeeperOptions>> read_zookeeper_options(const ripc_context_options& options,
                                                                         const NetworkAccess& access);

// $RIPC_RESOLVERS: the names of the resolvers to use, in the order in which they are asked. Those that are not set up
// are skipped. RIPC_INVALID_ARGUMENT.
Result<std::vector<std::string>> read_resolvers();

}  // namespace ripc::internal::capi
