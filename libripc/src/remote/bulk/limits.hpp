// SPDX-License-Identifier: Apache-2.0
// The bounds of long items, per session and side.
#pragma once

#include <cstddef>

namespace ripc::internal::remote {

inline constexpr std::size_t kMaxTransfers = 4096;  // exposed
inline constexpr std::size_t kMaxGrants = 1024;

}  // namespace ripc::internal::remote
