// SPDX-License-Identifier: Apache-2.0
// The header of a call's messages: the beginning of their first item. docs/wire.md is the specification. Little-endian,
// versioned; the decoder trusts nothing.
//
//   32 bytes   u8 version | u8 kind | u16 flags | u32 number | u64 session | u64 incarnation | u32 code | u32 time
//
// Everything here may be called from any thread. Nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace ripc::internal::wire::call {

inline constexpr std::uint8_t kVersion = 3;
inline constexpr std::size_t kHeaderSize = 32;
inline constexpr std::uint32_t kMaxSlots = 256;  // a power of two, as each number of slots
inline constexpr std::uint32_t kNoTimeLimit = UINT32_MAX;

// A session that is not used for so long is forgotten by its server. Its client opens another one after half of that,
// so no call is repeated in a session that is forgotten.
inline constexpr Nanoseconds kSessionTime = 10'000'000'000;

enum class Kind : std::uint8_t {
  open = 1,     // the client wants a session: `number` is its nonce, `code` how many slots
  opened = 2,   // the answer: the session, the server's incarnation, `code` slots
  request = 3,  // call `number` of the session: `code` is the method, `time` what is left, in microseconds
  answer =
      4,  // of call `number`: `code` is the handler's. Repeated, `incarnation` has bit i set if item i is a Returned
  cancel = 5,  // the client does not wait for call `number` any more
  ask = 6,     // what became of call `number`?
  state = 7,   // that: flags, `code` is a status. Without a session: of the nonce `number`, whose session was refused,
               // or has ended with its server
};

// Whether it goes to the calling side.
constexpr bool is_for_client(Kind kind) noexcept {
  return kind == Kind::opened || kind == Kind::answer || kind == Kind::state;
}

// What a state tells.
enum class State : std::uint16_t {
  running = 1,       // the handler has it, or its answer is under way
  not_run = 2,       // it was refused, and never will run
  may_have_run = 3,  // it has ended without an answer, or the answer is not kept any more
  no_session = 4,    // this message changed nothing: its session is unknown, or another server's
  unseen = 5,        // the request has not come: send it again
};

// Fields that a kind has no use for are 0.
struct Header {
  std::uint8_t version = kVersion;
  Kind kind = Kind::open;
  State state = {};
  std::uint32_t number = 0;
  std::uint64_t session = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t code = 0;
  std::uint32_t time = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

// Writes a header that decode() accepts, of kHeaderSize bytes.
void encode(const Header& header, std::byte* to) noexcept;

// Reads the header at the beginning of a call's first item, into `header` also if it is none. RIPC_VERSION_MISMATCH for
// another version; in all versions open, and a state without a session, are as in this one. RIPC_CORRUPT for any other
// fault. That is too few bytes, an unknown kind, state or status, or a number of slots that is none. It is also a field
// that must be 0 and is not, or the other way round. The caller checks what sessions and numbers mean.
ripc_status decode(std::span<const std::byte> bytes, Header& header) noexcept;

// An item in a return buffer, as a repeated answer tells of it: u32 index | u64 size, and its bytes if the first answer
// carried them.
struct Returned {
  std::uint32_t index = 0;
  std::uint64_t size = 0;
  std::span<const std::byte> bytes;  // of the item, or none
};
inline constexpr std::size_t kReturnedSize = 12;
// Writes kReturnedSize bytes and those of the item.
void encode_returned(const Returned& returned, std::byte* to) noexcept;
// RIPC_CORRUPT: a part of it. The result's bytes lie in `bytes`.
Result<Returned> decode_returned(std::span<const std::byte> bytes) noexcept;

// What is left of a call's time, in the unit of the header: rounded up, so that no call ends early.
std::uint32_t time_left(Nanoseconds nanoseconds) noexcept;
// The other way round; UINT64_MAX: no limit.
Nanoseconds to_nanoseconds(std::uint32_t time) noexcept;

}  // namespace ripc::internal::wire::call
