// SPDX-License-Identifier: Apache-2.0
// Which users a context talks to: one rule for every transport and resolver.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "ripc/ripc.h"

namespace ripc::internal {

// Immutable; any thread.
class PeerPolicy {
 public:
  // Only the same user.
  constexpr PeerPolicy() noexcept = default;
  // One of ripc_peer_policy.
  constexpr explicit PeerPolicy(std::uint32_t policy) noexcept : policy_(policy) {}

  // Everyone is admitted: no one needs to be asked about.
  constexpr bool admits_all() const noexcept { return policy_ == RIPC_PEERS_ANY; }
  // A process, by its effective user and group. The user of this process and root are always admitted.
  bool admits(uid_t user, gid_t group) const noexcept;
  // A user, where the kernel does not tell the group. The policy `group` admits the user while one of its processes
  // that /proc shows has this process's effective group.
  bool admits(uid_t user) const noexcept;

 private:
  std::uint32_t policy_ = RIPC_PEERS_SAME_USER;
};

}  // namespace ripc::internal
