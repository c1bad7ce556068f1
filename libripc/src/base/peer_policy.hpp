// SPDX-License-Identifier: Apache-2.0
// Which users a context talks to. The rule is the same for every transport and resolver.
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

  // Everyone is admitted, so callers need not look up users.
  constexpr bool admits_all() const noexcept { return policy_ == RIPC_PEERS_ANY; }
  // Whether to admit a process, by its effective user and group. The user of this process and root are always admitted.
  bool admits(uid_t user, gid_t group) const noexcept;
  // The same for a user, where the kernel does not report the group. The policy `group` admits the user while /proc
  // shows that one of the user's processes has this process's effective group.
  bool admits(uid_t user) const noexcept;

 private:
  std::uint32_t policy_ = RIPC_PEERS_SAME_USER;
};

}  // namespace ripc::internal
