// SPDX-License-Identifier: Apache-2.0
// The bounds of bulk transfers over sockets, per session.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remote/bulk/limits.hpp"

namespace ripc::internal::socket {

inline constexpr std::size_t kMaxBulkConnections = 16;  // dialed by either side; more are closed

using remote::kSegmentsAhead;
using remote::kSegmentSize;

}  // namespace ripc::internal::socket
