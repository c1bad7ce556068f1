// SPDX-License-Identifier: Apache-2.0
// The control messages of the shared-memory transport: what two contexts say to each other over their Unix socket
// (SOCK_SEQPACKET; one message is one datagram). docs/wire.md is the specification; the decoder trusts nothing.
//
// Everything here may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "wire/fields.hpp"

namespace ripc::internal::wire::shm_control {

inline constexpr std::uint8_t kProtocolVersion = 3;
inline constexpr std::size_t kPrefixSize = 8;                   // the header
inline constexpr std::size_t kMaxSize = std::size_t{64} << 10;  // of a datagram

// The largest value that says whether one context can read the other's memory (shm::Reach).
inline constexpr std::uint32_t kMaxReach = 4;

// First message of the connecting side.
struct Hello {
  std::uint64_t context = 0;  // the sender's context id
  std::uint32_t pid = 0;      // as the sender sees itself
  std::uint32_t flags = 0;    // whether the sender can read the receiver's memory; at most kMaxReach
};

// Its answer; the connection is refused unless status is RIPC_OK.
struct HelloReply {
  std::uint64_t context = 0;
  std::uint32_t pid = 0;
  std::uint32_t flags = 0;  // as in Hello
  ripc_status status = RIPC_OK;
};

// Asks for a queue to a service of the receiver.
struct Open {
  std::uint64_t request = 0;  // names the question in its answer
  std::uint64_t service = 0;
  std::uint64_t link = 0;       // the opener's name for the channel; not 0
  std::uint32_t reserved = 0;   // must be 0
  std::uint32_t reserved2 = 0;  // must be 0
};

// Its answer. Unless status is RIPC_OK, all numbers but request and link are 0.
struct Opened {
  std::uint64_t request = 0;
  ripc_status status = RIPC_OK;
  std::uint64_t link = 0;  // as in Open
  std::uint64_t incarnation = 0;
  std::uint32_t cells = 0;
  std::uint32_t data_bytes = 0;
  std::uint32_t state_slot = 0;  // index of the service's state line
  std::uint32_t flags = 0;       // the transport's
};

// The queue of this link has room again.
struct Room {
  std::uint64_t link = 0;
};

// A watched transfer of this link has finished.
struct TransferDone {
  std::uint64_t link = 0;
};

// From the opener: it will not use the link any more.
struct CloseLink {
  std::uint64_t link = 0;
};

// From the receiving side: the link is gone.
struct LinkClosed {
  std::uint64_t link = 0;
};

inline constexpr std::uint32_t kArenaHugePages = 1;

// Hands a pool arena over; its descriptor travels with the message.
struct Arena {
  std::uint32_t id = 0;     // not 0
  std::uint32_t flags = 0;  // kArenaHugePages or 0
  std::uint64_t size = 0;   // bytes; not 0
};

// No later message will name the arena: the receiver unmaps it.
struct ArenaGone {
  std::uint32_t id = 0;
};

// Asks the owner of exposed foreign memory to copy a piece of it into the bounce ring.
struct BounceRequest {
  std::uint64_t link = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // bytes; not 0
  std::uint32_t sequence = 0;
  std::uint32_t reserved = 0;  // must be 0
};

// Its answer: the piece is in the ring, or why not.
struct BounceData {
  std::uint64_t link = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  ripc_status status = RIPC_OK;
  std::uint32_t sequence = 0;
  std::uint64_t length = 0;  // bytes
};

// A packet for a service of the receiver. It goes to the receiver's responder instead of a queue.
struct Control {
  std::uint64_t link = 0;
  std::uint64_t destination = 0;      // service id
  std::span<const std::byte> packet;  // borrowed: the caller's, or part of the decoded datagram; not empty
};
// The largest packet of a Control message.
inline constexpr std::size_t kMaxControlPacket = kMaxSize - kPrefixSize - 2 * sizeof(std::uint64_t);

using fields::Fence;
using fields::Fenced;

// Last message: the sender closes the connection normally.
struct Bye {};

// The type of each message in the header is its position here, counted from 1.
using Message = std::variant<Hello, HelloReply, Open, Opened, Room, TransferDone, CloseLink, LinkClosed, Arena,
                             ArenaGone, BounceRequest, BounceData, Control, Fence, Fenced, Bye>;

template <typename T>
requires fields::IsAlternativeOf<T, Message>
bool operator==(const T& left, const T& right) noexcept { return fields::are_equal(left, right); }

// Makes `out` exactly the datagram of one of the structures above; its capacity is reused, so a vector that is kept
// stops allocating once it is large enough. RIPC_TOO_LARGE: more than kMaxSize; RIPC_INVALID_ARGUMENT: a field has a
// value that decode() refuses. `out` is then empty.
ripc_status encode(const Message& message, std::vector<std::byte>& out);

// Checks and reads one whole datagram. RIPC_VERSION_MISMATCH for another version; RIPC_CORRUPT for any other fault.
// Never allocates. A Control's packet points into `datagram`; the packet itself is not decoded.
Result<Message> decode(std::span<const std::byte> datagram) noexcept;

}  // namespace ripc::internal::wire::shm_control
