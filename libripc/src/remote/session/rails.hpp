// SPDX-License-Identifier: Apache-2.0
// The rails to a peer: pairs of addresses, each over a network interface of its own. They follow from the kernel's
// routes at the moment of the call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "remote/session/endpoint.hpp"

namespace ripc::internal::remote {

inline constexpr std::size_t kMaxRails = 8;

// Which rails are used.
struct RailOptions {
  std::size_t most = kMaxRails;    // 1 to kMaxRails
  std::vector<std::string> names;  // only those over these interfaces or RDMA devices of this machine; empty: over any

  bool allows(const std::string& name) const noexcept {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
};

struct Rail {
  Endpoint local;  // without a port
  Endpoint remote;
};

// `remotes`: where the peer may be reached; the first one is that of the control connection. Of several addresses over
// one interface the first is taken, so the order is that of preference. `can_be`: whether there may be a rail from this
// address of this machine, which that interface has. A peer on this machine has one rail, whatever that says. Never
// empty unless `remotes` is: if no rail is possible, it has the first address.
std::vector<Rail> find_rails(std::span<const Endpoint> remotes, std::size_t most,
                             const std::function<bool(const Endpoint& local, const std::string& interface)>& can_be);

// The interface of this machine that has an address; "": none.
std::string interface_of(const Endpoint& local);

}  // namespace ripc::internal::remote
