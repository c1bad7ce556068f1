// SPDX-License-Identifier: Apache-2.0
// The header of a call's messages, at the beginning of their first item. docs/wire.md is the specification; the decoder
// trusts nothing.
//
// Everything here may be called from any thread. Nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace ripc::internal::wire::call {

inline constexpr std::uint8_t kVersion = 4;
inline constexpr std::size_t kHeaderSize = 32;
inline constexpr std::uint32_t kMaxSlots = 256;  // a power of two, like every number of slots
inline constexpr std::uint32_t kNoTimeLimit = UINT32_MAX;
inline constexpr std::uint32_t kLate = 1;  // the handler answered later, so the round trip shows little of the path

// A server forgets a session that was unused for this long. The client opens another session after half that time, so
// no call is repeated in a forgotten session.
inline constexpr Nanoseconds kSessionTime = 10'000'000'000;

enum class Kind : std::uint8_t {
  open = 1,     // the client wants a session: `number` is its nonce, `code` how many slots
  opened = 2,   // the answer: the session, the server's incarnation, `code` slots
  request = 3,  // call `number` of the session: `code` is the method, `time` the time left, in microseconds
  answer = 4,  // of call `number`: `code` is the handler's, `time` kLate or 0. Repeated, `incarnation` has bit i set if
               // item i is a Returned
  cancel = 5,  // the client no longer waits for call `number`
  ask = 6,     // what became of call `number`?
  state = 7,   // the answer to ask: flags, `code` is a status. Without a session: about the nonce `number`, whose
               // session was refused or ended with its server
};

// Whether a message of this kind goes to the calling side.
constexpr bool is_for_client(Kind kind) noexcept {
  return kind == Kind::opened || kind == Kind::answer || kind == Kind::state;
}

// What a state message says about the call.
enum class State : std::uint16_t {
  running = 1,       // the handler has it, or its answer is under way
  not_run = 2,       // it was refused, and will never run
  may_have_run = 3,  // it has ended without an answer, or the answer is no longer kept
  no_session = 4,    // this message changed nothing: its session is unknown, or belongs to another server
  unseen = 5,        // the request has not come: send it again
};

// Fields that a kind does not use are 0.
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

// Reads the header at the beginning of a call's first item into `header`, even if it is not valid.
// RIPC_VERSION_MISMATCH for another version; open, and a state without a session, are the same in all versions.
// RIPC_CORRUPT for any other fault. The caller checks what sessions and numbers mean.
ripc_status decode(std::span<const std::byte> bytes, Header& header) noexcept;

// How a repeated answer describes an item in a return buffer: u32 index | u64 size, and the item's bytes if the first
// answer carried them.
struct Returned {
  std::uint32_t index = 0;
  std::uint64_t size = 0;
  std::span<const std::byte> bytes;  // of the item, or none
};
inline constexpr std::size_t kReturnedSize = 12;
// Writes kReturnedSize bytes and the bytes of the item.
void encode_returned(const Returned& returned, std::byte* to) noexcept;
// RIPC_CORRUPT: it is incomplete. The result's bytes are part of `bytes`.
Result<Returned> decode_returned(std::span<const std::byte> bytes) noexcept;

// The time left for a call, in the header's unit, rounded up so that no call ends early.
std::uint32_t time_left(Nanoseconds nanoseconds) noexcept;
// The reverse of time_left(); UINT64_MAX: no limit.
Nanoseconds to_nanoseconds(std::uint32_t time) noexcept;

}  // namespace ripc::internal::wire::call
