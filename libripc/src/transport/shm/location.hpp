// SPDX-License-Identifier: Apache-2.0
// The `location` of a descriptor or grant on this transport: where the bytes are in the owner's memory.
//
//   bit 63 set    pooled: bits 40-62 arena id, bits 0-39 offset in the arena
//   bit 63 clear  foreign: the address in the owner's process
//   all ones      undisclosed: the owner copies the bytes out on request (the peer belongs to another user)
#pragma once

#include <cstdint>

namespace ripc::internal::shm {

inline constexpr std::uint64_t kUndisclosed = UINT64_MAX;
inline constexpr std::uint64_t kPooledBit = std::uint64_t{1} << 63;
inline constexpr std::uint32_t kMaxArenaId = (1u << 23) - 2;  // so that no pooled location is all ones
inline constexpr std::uint64_t kMaxArenaOffset = (std::uint64_t{1} << 40) - 1;

constexpr std::uint64_t pooled_location(std::uint32_t arena, std::uint64_t offset) noexcept {
  return kPooledBit | std::uint64_t{arena} << 40 | offset;
}
constexpr bool is_pooled(std::uint64_t location) noexcept { return (location & kPooledBit) != 0; }
constexpr std::uint32_t arena_of(std::uint64_t location) noexcept {
  return static_cast<std::uint32_t>(location >> 40) & ((1u << 23) - 1);
}
constexpr std::uint64_t offset_of(std::uint64_t location) noexcept { return location & kMaxArenaOffset; }

}  // namespace ripc::internal::shm
