// SPDX-License-Identifier: Apache-2.0
// The top two bits of an ID give its kind: number of a service (00), group (01), name (10), or random (11). Bit 61 of a
// group's ID tells names (1) from numbers (0).
#pragma once

#include <cstddef>
#include <span>

#include "ripc/ripc.h"

namespace ripc::internal {

inline constexpr std::size_t kMaxGroups = RIPC_MAX_GROUPS;  // of one service

constexpr bool is_group(ripc_service_id id) noexcept { return id >> 62 == 1; }
constexpr bool is_named(ripc_service_id id) noexcept { return id >> 62 == 2; }
// There are 2^62 random IDs, so no one else has the same.
constexpr bool is_random(ripc_service_id id) noexcept { return id >> 62 == 3; }

// Whether this is a valid list of a service's groups: at most kMaxGroups group IDs in ascending order, each once.
constexpr bool is_group_list(std::span<const ripc_service_id> groups) noexcept {
  if (groups.size() > kMaxGroups) return false;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    if (!is_group(groups[index]) || (index > 0 && groups[index - 1] >= groups[index])) return false;
  }
  return true;
}

}  // namespace ripc::internal
