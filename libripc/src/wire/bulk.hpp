// SPDX-License-Identifier: Apache-2.0
// The frames of bulk connections between two contexts, which carry pulls and pushes. On RDMA connections, the frames
// only say what may be read and written. docs/wire.md is the specification; the decoder trusts nothing. The trailer
// says whether the payload is valid, because memory can go away while a frame is being sent.
//
// Everything here may be called from any thread. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.hpp"

namespace ripc::internal::wire::bulk {

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderSize = 48;
inline constexpr std::size_t kTrailerSize = 8;
inline constexpr std::uint32_t kMaxPayload = std::uint32_t{1} << 20;   // of one frame
inline constexpr std::uint32_t kMaxSegment = std::uint32_t{16} << 20;  // of one pull request

enum class Type : std::uint8_t {
  pull_request = 1,  // asks for `length` bytes, at least 1, of the item (key, location) from `offset` on
  data = 2,          // the answer, in one or more frames: the bytes of segment `id`, starting at `offset` in the item
  finish = 3,        // the receiver is done with the transfer (key, location); `value`: its status; RDMA, `id`: the
                     // device's key that this frame ends, 0: none
  finished = 4,      // the answer; `value`: RIPC_OK, or RIPC_REVOKED if the transfer had been withdrawn
  push = 5,          // bytes for the return buffer (key, location) from `offset` on, of `value` bytes in all
  pushed = 6,        // the answer, when all bytes have come or none will be taken; `value`: a status
  ask_read = 7,      // asks for a remote key to read the item (key, location)
  ask_write = 8,     // asks for a remote key to write `value` bytes, at least 1, to the return buffer (key, location)
  remote_key = 9,  // the answer: the address (`location`) and the device's key (`key`); `value`: a status; `offset`: 1
                   // if a finish may end that key, else 0
  written = 10,    // the return buffer (key, location) has its `value` bytes; answered with pushed
  offer = 11,      // the item (key, location) may be read without asking, at the address `value` with the device's key
                   // `id`; `offset` as in remote_key. If all three are 0, it may no longer be
};

// What the frames travel over. Data, push and pull_request exist on streams only, types 7 to 11 on RDMA only.
enum class Carrier : std::uint8_t { stream, rdma };

// The header. Fields that a type does not use are 0.
struct Frame {
  Type type = Type::pull_request;
  std::uint32_t length = 0;
  std::uint64_t id = 0;  // of the segment, push or question; the asking side counts them
  std::uint64_t key = 0;
  std::uint64_t location = 0;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

constexpr bool has_payload(Type type) noexcept { return type == Type::data || type == Type::push; }

// Writes a header that decode() accepts.
void encode(const Frame& frame, std::span<std::byte, kHeaderSize> out) noexcept;

// RIPC_VERSION_MISMATCH for another version; RIPC_CORRUPT for any other fault, such as a type that this carrier does
// not have. The caller checks what keys, locations and ids mean.
Result<Frame> decode(std::span<const std::byte, kHeaderSize> bytes, Carrier carrier = Carrier::stream) noexcept;

std::array<std::byte, kTrailerSize> encode_trailer(ripc_status status) noexcept;

// Nothing: the status is unknown to ripc.h, or bytes that must be 0 are not.
std::optional<ripc_status> decode_trailer(std::span<const std::byte, kTrailerSize> bytes) noexcept;

}  // namespace ripc::internal::wire::bulk
