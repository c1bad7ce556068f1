// SPDX-License-Identifier: Apache-2.0
// The frames of bulk connections between two contexts, which carry pulls and pushes. On TCP streams, the payload
// follows its frame. On RDMA connections, the frames only say what may be read and written. docs/wire.md is the
// specification. Little-endian, versioned; the decoder trusts nothing.
//
//   header   48 bytes   u8 version | u8 type | u16 zero | u32 length | u64 id | u64 key | u64 location | u64 offset |
//                       u64 value
//   payload  `length` bytes, then a trailer of 8 bytes: u32 status | u32 zero; data and push only
//
// The trailer says whether the payload is what it should be: memory can end while a frame is under way.
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
  data = 2,          // the answer, in one or more frames: the bytes of segment `id` from `offset` of the item on
  finish = 3,      // the receiver has done with the transfer (key, location); `value`: its status; RDMA, `id`: the key
                   // of the device that it ends, 0: none
  finished = 4,    // the answer; `value`: RIPC_OK, or RIPC_REVOKED if it had been withdrawn
  push = 5,        // bytes for the return buffer (key, location) from `offset` on, of `value` bytes in all
  pushed = 6,      // the answer, when all came or none will be taken; `value`: a status
  ask_read = 7,    // asks for a remote key to read the item (key, location)
  ask_write = 8,   // asks for a remote key to write `value` bytes, at least 1, to the return buffer (key, location)
  remote_key = 9,  // the answer: where (`location`), with which key of the device (`key`); `value`: a status;
                   // `offset`: 1 if a finish may end that key, else 0
  written = 10,    // the return buffer (key, location) has its `value` bytes; answered with pushed
  offer = 11,      // the item (key, location) may be read without asking: where (`value`), with which key of the device
                   // (`id`), `offset` as in remote_key; or, if all are 0, no more
};

// What the frames travel over. Data, push and pull_request are of streams only, 7 to 11 of RDMA only.
enum class Carrier : std::uint8_t { stream, rdma };

// The header. Fields that a type has no use for are 0.
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

// RIPC_VERSION_MISMATCH for another version; RIPC_CORRUPT for any other fault. Such are an unknown type, a type that
// this carrier does not have, and a field that must be 0 and is not. Others are a length over its limit, a request for
// 0 bytes, and an offset that overflows or leaves a push; or a status that is unknown or, in finished, impossible. The
// caller checks what keys, locations and ids mean.
Result<Frame> decode(std::span<const std::byte, kHeaderSize> bytes, Carrier carrier = Carrier::stream) noexcept;

std::array<std::byte, kTrailerSize> encode_trailer(ripc_status status) noexcept;

// Nothing: a status unknown to ripc.h, or bytes that are not 0.
std::optional<ripc_status> decode_trailer(std::span<const std::byte, kTrailerSize> bytes) noexcept;

}  // namespace ripc::internal::wire::bulk
