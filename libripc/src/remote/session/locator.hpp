// SPDX-License-Identifier: Apache-2.0
// The text that says where a context's socket transport can be reached:
//
//   ctx=0123456789abcdef;host=BOOT.NAMESPACE;port=7000;ip=192.0.2.1;ip=2001:db8::1
//
// Only port and one ip are needed; a person who writes a file of known services leaves the rest out, and may also write
// IP:PORT, with an IPv6 address in brackets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "remote/session/endpoint.hpp"

namespace ripc::internal::remote {

struct Locator {
  std::uint64_t context = 0;  // 0: any that answers
  std::string host;           // host_identity() of the context; empty: unknown
  std::uint16_t port = 0;
  std::vector<std::string> ips;  // in its order of preference; at most kMaxIps

  // RIPC_INVALID_ARGUMENT for what is no locator.
  static Result<Locator> parse(const std::string& text);
  std::string text() const;

  // What to dial, best first. `own_host`: host_identity() of the dialing side: loopback is left out unless it is the
  // same machine, and first if it is. Without host, all.
  std::vector<Endpoint> endpoints(const std::string& own_host) const;
  // Whether this locator leads to the context `found`, which was found at that address.
  bool leads_to(std::uint64_t found, const Endpoint& at, const std::string& own_host) const;
};

inline constexpr std::size_t kMaxIps = 16;

}  // namespace ripc::internal::remote
