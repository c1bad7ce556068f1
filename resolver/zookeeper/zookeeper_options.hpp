// SPDX-License-Identifier: Apache-2.0
// Which ZooKeeper ensemble is asked: HOST[:PORT],...[/CHROOT].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace ripc::internal::resolver {

inline constexpr std::uint16_t kDefaultZooKeeperPort = 2181;
inline constexpr std::string_view kDefaultChroot = "/ripc";
inline constexpr std::size_t kMaxZooKeeperServers = 16;

struct ZooKeeperServer {
  std::string host;  // a name or an address; of IPv6 without brackets
  std::uint16_t port = kDefaultZooKeeperPort;

  // HOST:PORT, [HOST]:PORT
  std::string text() const;
};

struct ZooKeeperOptions {
  std::vector<ZooKeeperServer> servers;
  std::string chroot{kDefaultChroot};  // the folder of everything; "": the root
  // The servers end a session that was silent for this long.
  Nanoseconds session_timeout = 10'000'000'000;

  // All servers, as the client library wants them.
  std::string connect_text() const;
  std::string text() const { return connect_text() + chroot; }
};

// RIPC_INVALID_ARGUMENT with what is wrong and how it is written.
Result<ZooKeeperOptions> parse_zookeeper_options(std::string_view text);

}  // namespace ripc::internal::resolver
