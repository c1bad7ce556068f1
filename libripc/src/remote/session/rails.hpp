// SPDX-License-Identifier: Apache-2.0
// The rails to a peer: pairs of addresses, each over a network interface of its own. What the kernel's routes say at
// the moment of the call.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "remote/session/endpoint.hpp"

namespace ripc::internal::remote {

inline constexpr std::size_t kMaxRails = 8;

// Which rails are used.
struct RailOptions {
  std::size_t most = kMaxRails;         // 1 to kMaxRails
  std::vector<std::string> interfaces;  // only those over these interfaces of this machine; empty: over any
};

struct Rail {
  Endpoint local;  // without a port
  Endpoint remote;
};

// `remotes`: where the peer may be reached; the first one is that of the control connection. Of several addresses over
// one interface the first is taken, so the order is that of preference. A peer on this machine has one rail, whatever
// the options say. Never empty unless `remotes` is: without a rail that the options allow, it has the first address.
std::vector<Rail> find_rails(std::span<const Endpoint> remotes, const RailOptions& options);

// The interface of this machine that has an address; "": none.
std::string interface_of(const Endpoint& local);

}  // namespace ripc::internal::remote
