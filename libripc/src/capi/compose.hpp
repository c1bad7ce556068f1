// SPDX-License-Identifier: Apache-2.0
// Builds a context from the options and the environment. The only place that knows every transport and resolver.
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
  bool may_lack_rdma = false;  // nobody asked for it by name: without a working device, the other transports suffice
  NetworkAccess network;
  security::Credentials credentials;
  std::uint32_t encrypt = RIPC_ENCRYPT_AUTO;
  std::vector<std::string> withheld;   // transports that `network` does not allow, and that were not asked for by name
  bool is_multicast_withheld = false;  // the same, for multicast
  std::string static_resolver;         // empty: none
  std::optional<resolver::MulticastOptions> multicast;
  std::optional<resolver::ZooKeeperOptions> zookeeper;
  std::vector<std::string> resolvers;  // those that are set up, in the order in which they are asked
  std::uint64_t pool_limit = 0;
  Nanoseconds resolve_timeout = 0;
  Spin spin;
  Nanoseconds group_refresh = 0;
  std::uint32_t peer_policy = 0;
  std::uint32_t max_peers = 0;
  socket::TransportOptions socket;  // without the context
#ifdef RIPC_WITH_VERBS
  verbs::TransportOptions verbs;  // without the context
#endif
};

// RIPC_INVALID_ARGUMENT names the option or variable and what it may be. RIPC_PERMISSION: something that leaves the
// host was asked for without a cluster key, or the key file cannot be read or trusted.
Result<Settings> read_settings(const ripc_context_options& options);

// Lists the environment variables that begin with RIPC_ but are none of the library's: they may be misspelled.
std::string unknown_settings();

// The options of a directory's resolver, except the last member of DirectoryOptions.
resolver::DirectoryOptions directory_options(const Settings& settings);

Result<std::unique_ptr<core::Context>> compose(const Settings& settings);

}  // namespace ripc::internal::capi
