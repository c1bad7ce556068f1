// SPDX-License-Identifier: Apache-2.0
// The names and sentences of the status codes. Any thread.
#pragma once

#include <cstddef>

#include "ripc/ripc.h"

namespace ripc::internal {

// The short name of a status, such as "RIPC_AGAIN"; "RIPC_UNKNOWN" for a value this version does not know. Static;
// never null.
const char* status_name(ripc_status status) noexcept;

// One sentence on what a status means and what to do. Static; never null, never empty.
const char* status_text(ripc_status status) noexcept;

// Whether each entry of a table is at the index that its `status` gives.
template <typename Table>
constexpr bool is_indexed_by_status(const Table& entries) noexcept {
  for (std::size_t index = 0; index < entries.size(); ++index) {
    if (static_cast<std::size_t>(entries[index].status) != index) return false;
  }
  return entries.size() == static_cast<std::size_t>(RIPC_SYSTEM) + 1;
}

}  // namespace ripc::internal
