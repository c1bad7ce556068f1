// SPDX-License-Identifier: Apache-2.0
// The bounds of bulk transfers over sockets, per session.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remote/bulk/limits.hpp"

namespace ripc::internal::socket {

inline constexpr std::size_t kMaxBulkConnections = 16;  // dialed by either side; more are closed
// An item up to this size comes over one connection.
inline constexpr std::uint64_t kUndivided = std::uint64_t{256} << 10;

using remote::kSegmentsAhead;
using remote::kSegmentSize;

}  // namespace ripc::internal::socket
