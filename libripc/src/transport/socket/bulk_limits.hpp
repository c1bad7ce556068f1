// SPDX-License-Identifier: Apache-2.0
// The bounds of bulk transfers, per session.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remote/bulk/lanes.hpp"

namespace ripc::internal::socket {

inline constexpr std::size_t kMaxBulkConnections = 16;  // dialed by either side; more are closed

using remote::kSegmentSize;
inline constexpr std::size_t kSegmentsAhead = 4;  // asked for on one connection at a time
// An item up to this size comes over one connection.
inline constexpr std::uint64_t kUndivided = std::uint64_t{256} << 10;
inline constexpr std::size_t kMaxJobs = 64;  // that a peer may ask for on one connection
// Frames that wait to be sent on one connection. A peer that reads its answers never makes it so many: each transfer,
// push and segment asks for one at a time.
inline constexpr std::size_t kMaxOutbox = std::size_t{1} << 20;

}  // namespace ripc::internal::socket
