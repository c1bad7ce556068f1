// SPDX-License-Identifier: Apache-2.0
// The control messages of the shared-memory transport: what two contexts say to each other over their Unix socket
// (SOCK_SEQPACKET; one message is one datagram). docs/wire.md is the specification. Descriptors that travel beside a
// message, as SCM_RIGHTS, are not part of it. Little-endian, versioned; the decoder trusts nothing.
//
//   header   8 bytes   u8 version | u8 type | u16 zero | u32 size of the datagram
//   fields   those of the structure below, in its order, without padding
//
// Everything here may be called from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/status.hpp"

namespace ripc::wire::shm_control {

inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kPrefixSize = 8;                   // the header
inline constexpr std::size_t kMaxSize = std::size_t{64} << 10;  // of a datagram

enum class Type : std::uint8_t {
  hello = 1,
  hello_reply = 2,
  open = 3,
  opened = 4,
  room = 5,
  transfer_done = 6,
  close_link = 7,
  link_closed = 8,
  arena = 9,
  arena_gone = 10,
  bounce_request = 11,
  bounce_data = 12,
  control = 13,
  fence = 14,
  fenced = 15,
  bye = 16,
};

// The largest answer to whether one context can read the other's memory (shm::Reach).
inline constexpr std::uint32_t kMaxReach = 4;

// First message of whoever connected.
struct Hello {
  static constexpr Type kType = Type::hello;
  std::uint64_t context = 0;  // the sender's context id
  std::uint32_t pid = 0;      // as the sender sees itself
  std::uint32_t flags = 0;    // whether the sender can read the receiver's memory; at most kMaxReach
  friend bool operator==(const Hello&, const Hello&) = default;
};

// Its answer; the connection is refused unless status is RIPC_OK.
struct HelloReply {
  static constexpr Type kType = Type::hello_reply;
  std::uint64_t context = 0;
  std::uint32_t pid = 0;
  std::uint32_t flags = 0;  // as in Hello
  ripc_status status = RIPC_OK;
  friend bool operator==(const HelloReply&, const HelloReply&) = default;
};

// Asks for a queue to a service of the receiver.
struct Open {
  static constexpr Type kType = Type::open;
  std::uint64_t request = 0;  // names the question in its answer
  std::uint64_t service = 0;
  std::uint64_t link = 0;       // the opener's name for the channel; not 0
  std::uint32_t reserved = 0;   // must be 0
  std::uint32_t reserved2 = 0;  // must be 0
  friend bool operator==(const Open&, const Open&) = default;
};

// Its answer. Unless status is RIPC_OK, all numbers but request and link are 0.
struct Opened {
  static constexpr Type kType = Type::opened;
  std::uint64_t request = 0;
  ripc_status status = RIPC_OK;
  std::uint64_t link = 0;  // as in Open
  std::uint64_t incarnation = 0;
  std::uint32_t cells = 0;
  std::uint32_t data_bytes = 0;
  std::uint32_t state_slot = 0;  // index of the service's state line
  std::uint32_t flags = 0;       // the transport's
  friend bool operator==(const Opened&, const Opened&) = default;
};

// The queue of this link has room again.
struct Room {
  static constexpr Type kType = Type::room;
  std::uint64_t link = 0;
  friend bool operator==(const Room&, const Room&) = default;
};

// A watched transfer of this link has finished.
struct TransferDone {
  static constexpr Type kType = Type::transfer_done;
  std::uint64_t link = 0;
  friend bool operator==(const TransferDone&, const TransferDone&) = default;
};

// From the opener: it will not use the link any more.
struct CloseLink {
  static constexpr Type kType = Type::close_link;
  std::uint64_t link = 0;
  friend bool operator==(const CloseLink&, const CloseLink&) = default;
};

// From the receiving side: the link is gone.
struct LinkClosed {
  static constexpr Type kType = Type::link_closed;
  std::uint64_t link = 0;
  friend bool operator==(const LinkClosed&, const LinkClosed&) = default;
};

inline constexpr std::uint32_t kArenaHugePages = 1;

// Hands a pool arena over; its descriptor travels beside it.
struct Arena {
  static constexpr Type kType = Type::arena;
  std::uint32_t id = 0;     // not 0
  std::uint32_t flags = 0;  // kArenaHugePages or 0
  std::uint64_t size = 0;   // bytes; not 0
  friend bool operator==(const Arena&, const Arena&) = default;
};

// The arena will not be named any more: unmap it.
struct ArenaGone {
  static constexpr Type kType = Type::arena_gone;
  std::uint32_t id = 0;
  friend bool operator==(const ArenaGone&, const ArenaGone&) = default;
};

// Asks the owner of exposed foreign memory to copy a piece of it into the bounce ring.
struct BounceRequest {
  static constexpr Type kType = Type::bounce_request;
  std::uint64_t link = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // bytes; not 0
  std::uint32_t sequence = 0;
  std::uint32_t reserved = 0;  // must be 0
  friend bool operator==(const BounceRequest&, const BounceRequest&) = default;
};

// Its answer: the piece is there, or why not.
struct BounceData {
  static constexpr Type kType = Type::bounce_data;
  std::uint64_t link = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  ripc_status status = RIPC_OK;
  std::uint32_t sequence = 0;
  std::uint64_t length = 0;  // bytes
  friend bool operator==(const BounceData&, const BounceData&) = default;
};

// A packet for a service of the receiver that goes to its responder instead of a queue.
struct Control {
  static constexpr Type kType = Type::control;
  std::uint64_t link = 0;
  std::uint64_t destination = 0;      // service id
  std::span<const std::byte> packet;  // borrowed: the caller's, or part of the decoded datagram; not empty
  friend bool operator==(const Control& left, const Control& right) {
    return left.link == right.link && left.destination == right.destination &&
           std::ranges::equal(left.packet, right.packet);
  }
};
// The largest packet of a Control message.
inline constexpr std::size_t kMaxControlPacket = kMaxSize - kPrefixSize - 2 * sizeof(std::uint64_t);

// The receiver's registration of this service, if it is this incarnation or an older one, has ended.
struct Fence {
  static constexpr Type kType = Type::fence;
  std::uint64_t request = 0;
  std::uint64_t service = 0;
  std::uint64_t incarnation = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

// Its answer.
struct Fenced {
  static constexpr Type kType = Type::fenced;
  std::uint64_t request = 0;
  ripc_status status = RIPC_OK;
  friend bool operator==(const Fenced&, const Fenced&) = default;
};

// Last message: the sender closes the connection in good order.
struct Bye {
  static constexpr Type kType = Type::bye;
  friend bool operator==(const Bye&, const Bye&) = default;
};

// In the order of their types.
using Message = std::variant<Hello, HelloReply, Open, Opened, Room, TransferDone, CloseLink, LinkClosed, Arena,
                             ArenaGone, BounceRequest, BounceData, Control, Fence, Fenced, Bye>;

// Makes `out` exactly the datagram of one of the structures above; its capacity is reused, so that a vector that is
// kept allocates only until it has grown. RIPC_TOO_LARGE: more than kMaxSize; RIPC_INVALID_ARGUMENT: a field has a
// value that decode() refuses. `out` is then empty.
template <typename T>
ripc_status encode(const T& message, std::vector<std::byte>& out);

// Checks and reads one whole datagram. RIPC_VERSION_MISMATCH for another version; RIPC_CORRUPT for anything else that
// does not add up: unknown type, a size that is not the datagram's or over kMaxSize, fields missing or bytes left over,
// a value that the structure's comment excludes, a status unknown to ripc.h. Never allocates. A Control's packet points
// into `datagram`; the packet itself is not decoded.
Result<Message> decode(std::span<const std::byte> datagram) noexcept;

}  // namespace ripc::wire::shm_control
