// SPDX-License-Identifier: Apache-2.0
// The bounds of long items, per session and side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ripc::internal::remote {

inline constexpr std::size_t kMaxTransfers = 4096;  // exposed
inline constexpr std::size_t kMaxGrants = 1024;

inline constexpr std::uint32_t kSegmentSize = std::uint32_t{1} << 20;  // the largest that is asked for

// ---- Of one TCP connection ----
inline constexpr std::size_t kSegmentsAhead = 4;  // asked for at a time
inline constexpr std::size_t kMaxJobs = 64;       // that a peer may ask for
// Bytes of frames that wait to be sent. A peer that reads its answers never causes this many: each transfer, push and
// segment asks for one frame at a time.
inline constexpr std::size_t kMaxOutbox = std::size_t{1} << 20;

}  // namespace ripc::internal::remote
