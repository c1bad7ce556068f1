// SPDX-License-Identifier: Apache-2.0
// The options of the multicast resolver, and the one line of text that sets them:
//
//   RIPC_MULTICAST=239.255.82.73                          this group only, at the default port
//   RIPC_MULTICAST=239.1.2.3:5000%eth0,ttl=4              another group and port, one interface, four hops
//   RIPC_MULTICAST=[ff15::17]:5000,239.1.2.3:5000         two groups: questions go to both
//   RIPC_MULTICAST=interface=eth0,interface=eth1          the default groups, on these interfaces
//   RIPC_MULTICAST=fabric                                 only the datagrams of RDMA devices, no UDP
//   RIPC_MULTICAST=off                                    no multicast (read by the code that composes the context)
//
// Items are separated by commas, in any order. `udp` and `fabric` name the networks to use; without either, UDP is
// used, and RDMA devices if there are any. A group is ADDRESS[:PORT][%INTERFACE]; brackets enclose an IPv6 address
// before a port. An option is ttl=HOPS (0: this host only), interface=NAME or probe=MILLISECONDS.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/peer_policy.hpp"
#include "base/status.hpp"
#include "security/credentials.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

inline constexpr std::string_view kDefaultGroup4 = "239.255.82.73";    // organisation-local scope
inline constexpr std::string_view kDefaultGroup6 = "ff12::5249:5043";  // link-local scope, not a registered group
inline constexpr std::uint16_t kDefaultMulticastPort = 26673;
inline constexpr std::size_t kMaxMulticastGroups = 4;

struct MulticastGroup {
  bool is_ipv6 = false;
  in_addr ipv4{};
  in6_addr ipv6{};
  std::uint16_t port = kDefaultMulticastPort;

  // 239.255.82.73:26673, [ff12::5249:5043]:26673
  std::string text() const;
};

using spi::NameHash;

struct MulticastOptions {
  bool udp = true;
  bool fabric = true;  // the datagrams of RDMA devices, if the code that composes the context has any
  std::vector<MulticastGroup> groups;
  std::vector<std::string> interfaces;  // network interfaces; empty: every usable one (interfaces.hpp)
  unsigned ttl = 1;                     // hops that a question may take
  // Before a service is published, its name or fixed ID is asked for during this time; 0: not at all.
  Nanoseconds probe_time = 30'000'000;
  // A record that was learned this long ago is asked for again.
  Nanoseconds max_age = 300'000'000'000;
  std::size_t max_cached = 16384;  // services
  std::size_t max_peers = 4096;    // contexts whose packets are distinguished from copies
  // With keys: packets whose time differs from ours by more than this are refused.
  Nanoseconds clock_tolerance = 30'000'000'000;
  Nanoseconds (*wall_clock)() noexcept = realtime_now;  // tests replace it
  security::Credentials credentials;                    // no keys: nothing is authenticated
  PeerPolicy peers;                                     // which users of this host are admitted
  // Checks names from peers. Any thread may call it. Must be set.
  NameHash hash_name;
  // Whether to receive our own packets, which come back from the group. Only a self-check needs them
  // (MulticastState::silent_interfaces); otherwise the kernel drops them before they wake a thread.
  bool receives_own_packets = false;
};

// The options that the text sets, and the defaults of the others; "" and "on" set nothing. keys and hash_name stay
// unset. RIPC_INVALID_ARGUMENT with the item that is wrong and what it may be.
Result<MulticastOptions> parse_multicast_options(std::string_view text);

}  // namespace ripc::internal::resolver
