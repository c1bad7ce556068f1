// SPDX-License-Identifier: Apache-2.0
// Which ZooKeeper ensemble to use: HOST[:PORT],...[/CHROOT].
#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace ripc::internal::resolver {

inline constexpr std::uint16_t kDefaultZooKeeperPort = 2181;
inline constexpr std::string_view kDefaultChroot = "/ripc";
inline constexpr std::size_t kMaxZooKeeperServers = 16;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct ZooKeeperServer {
  std::string host;  // a name or an address; IPv6 without brackets
  std::uint16_t port = kDefaultZooKeeperPort;

  // HOST:PORT, [HOST]:PORT
  std::string text() const;
  // May take long. RIPC_NO_SERVICE, RIPC_SYSTEM: the text says why the host has no address.
  Result<AddressList> look_up() const;
};

struct ZooKeeperOptions {
  std::vector<ZooKeeperServer> servers;
  std::string chroot{kDefaultChroot};  // the folder that holds all nodes; "": the root
  // The servers end a session that was silent for this long.
  Nanoseconds session_timeout = 10'000'000'000;

  std::string text() const;
  // The addresses of all servers, in the form that the client library needs: ADDRESS:PORT,... without brackets and in
  // order. Looks host names up, which may take long. An error says why each server has no address.
  Result<std::string> connect_text() const;
};

// RIPC_INVALID_ARGUMENT with what is wrong and how to write it.
Result<ZooKeeperOptions> parse_zookeeper_options(std::string_view text);

}  // namespace ripc::internal::resolver
