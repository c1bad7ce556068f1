// SPDX-License-Identifier: Apache-2.0
// Builds a context out of options and environment: the only place that knows every transport and resolver.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/spin.hpp"
#include "base/status.hpp"
#include "capi/network_access.hpp"
#include "core/context.hpp"
#include "resolver/multicast/options.hpp"
#include "resolver/zookeeper/directory_resolver.hpp"
#include "resolver/zookeeper/zookeeper_options.hpp"
#include "ripc/ripc.h"
#include "transport/socket/socket_transport.hpp"
#ifdef RIPC_WITH_VERBS
#include "transport/verbs/verbs_transport.hpp"
#endif

namespace ripc::internal::capi {

// Options with the environment and the defaults filled in.
struct Settings {
  std::string runtime_directory;  // empty: the default
  std::vector<std::string> transports;
  bool may_lack_rdma = false;  // no one has asked for it: without a device that works, the others do
  NetworkAccess network;
  security::Credentials credentials;
  std::uint32_t encrypt = RIPC_ENCRYPT_AUTO;
  std::vector<std::string> withheld;   // transports that were not asked for by name, and that `network` does not allow
  bool is_multicast_withheld = false;  // likewise
  std::string static_resolver;         // empty: none
  std::optional<resolver::MulticastOptions> multicast;
  std::optional<resolver::ZooKeeperOptions> zookeeper;
  std::vector<std::string> resolvers;  // in the order in which they are asked, as far as they are set up
  std::uint64_t pool_limit = 0;
  Nanoseconds resolve_timeout = 0;
  Spin spin;
  Nanoseconds group_refresh = 0;
  std::uint32_t peer_policy = 0;
  std::uint32_t max_peers = 0;
  socket::TransportOptions socket;  // without the context
#ifdef RIPC_WITH_VERBS
  verbs::TransportOptions verbs;  // likewise
#endif
};

// RIPC_INVALID_ARGUMENT names the option or variable and what it may be. RIPC_PERMISSION: what leaves the host was
// asked for, without a cluster key; or the key file may not be read, or not be trusted.
Result<Settings> read_settings(const ripc_context_options& options);

// The options of the resolver of a directory, but the last of DirectoryOptions.
resolver::DirectoryOptions directory_options(const Settings& settings);

Result<std::unique_ptr<core::Context>> compose(const Settings& settings);

}  // namespace ripc::internal::capi
