// SPDX-License-Identifier: Apache-2.0
// The network interfaces that the multicast resolver uses.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace ripc::internal::resolver {

inline constexpr std::size_t kMaxInterfaces = 16;

struct Interface {
  unsigned index = 0;
  std::string name;
  bool has_ipv4 = false;
  bool has_ipv6 = false;
  friend bool operator==(const Interface&, const Interface&) = default;
};

// The interfaces that are up and have an address, in the order of their indices, 16 at most. If `wanted` is not empty,
// only the interfaces in it, of any kind. Otherwise all that can multicast and are not part of a bridge or bond; the
// loopback interface only if there is no other. IPv6 multicast does not work over the loopback interface: has_ipv6 is
// false there.
// An empty list is no error: interfaces come and go. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
Result<std::vector<Interface>> usable_interfaces(const std::vector<std::string>& wanted);

}  // namespace ripc::internal::resolver
