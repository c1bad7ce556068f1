// SPDX-License-Identifier: Apache-2.0
// The frames of the socket transport's TCP connections. They carry the handshake of every connection, and what two
// contexts say to each other over the control connection of their session. docs/wire.md is the specification; the
// decoder trusts nothing.
//
// Everything here may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "wire/fields.hpp"

namespace ripc::internal::wire::session_control {

inline constexpr std::uint8_t kProtocolVersion = 8;
inline constexpr std::size_t kPrefixSize = 8;                   // the header
inline constexpr std::size_t kMaxSize = std::size_t{64} << 10;  // of a frame
inline constexpr std::size_t kMaxHandshakeSize = 512;           // of one of the first three types

using Nonce = std::array<std::byte, 16>;

// What a connection is for.
enum class Role : std::uint32_t {
  control = 1,      // the first connection of a session
  resume = 2,       // replaces a control connection that was lost
  bulk = 3,         // carries pulls and pushes of a session
  check = 4,        // asks whether the context is there; closed after the handshake
  stream = 5,       // carries packets of a link that the connecting side opened
  peer_stream = 6,  // the same for a link that the other side opened
};

// What an end of a connection has and asks for; each is one bit of `abilities`.
enum Ability : std::uint32_t {
  kAes = 1,                  // of security::Suite
  kChaCha = 2,               // of security::Suite; every end has it
  kHasKey = 4,               // a cluster key
  kHasIdentity = 8,          // an identity
  kEncrypts = 16,            // it supports encryption
  kRequiresEncryption = 32,  // it refuses a peer that does not
  kRequiresIdentity = 64,    // it has a trust file
};
inline constexpr std::uint32_t kAllAbilities = 127;

// The first message of a Noise handshake. The sender makes one offer for each way in which it can prove itself.
struct HandshakeOffer {
  static constexpr std::size_t kSize = 49;
  static constexpr std::size_t kMost = 4;
};

// First frame of the connecting side.
struct Hello {
  std::uint64_t context = 0;  // the sender's context id; not 0
  std::uint64_t session = 0;  // the session's name, chosen at random by the side that began it; not 0
  std::uint64_t number = 0;   // role resume: frames of the session that the sender has received; stream and
                              // peer_stream: the link
  std::uint64_t time = 0;     // nanoseconds of the sender's own clock, which never goes back; it grows within a session
  std::uint32_t role = 0;     // of Role
  std::uint32_t port = 0;     // where the sender listens; 1 to 65535
  std::uint32_t abilities = 0;
  std::span<const std::byte> offers{};  // borrowed: HandshakeOffers in a row; none: the sender cannot prove itself
};

// Its answer; the connection is refused unless status is RIPC_OK.
struct HelloReply {
  std::uint64_t context = 0;
  std::uint64_t received = 0;
  ripc_status status = RIPC_OK;
  std::uint32_t abilities = 0;
  std::uint32_t choice = 0;              // of the offers, from 1 on; 0: none
  std::span<const std::byte> message{};  // borrowed: the second message of that handshake; empty without one
};

// Ends the handshake.
struct Confirm {
  std::span<const std::byte> message{};  // borrowed: the third one, or what stands for it; empty without one
};

// The least packet limit that a peer may set, and the least MTU of a device, which InfiniBand sets.
inline constexpr std::uint32_t kMinPacketLimit = 128;
inline constexpr std::uint32_t kMinDatagramMtu = 256;

// Asks for a link to a service of the receiver.
struct Open {
  std::uint64_t request = 0;  // names the question in its answer
  std::uint64_t service = 0;
  std::uint64_t token = 0;  // goes into every datagram of the link
  std::uint32_t link = 0;   // the opener's name for the link; not 0
  std::uint32_t port = 0;   // the opener's UDP port; 1 to 65535
};

// Its answer. Unless status is RIPC_OK, all numbers but request and link are 0.
struct Opened {
  std::uint64_t request = 0;
  ripc_status status = RIPC_OK;
  std::uint32_t link = 0;  // as in Open
  std::uint64_t incarnation = 0;
  std::uint32_t port = 0;          // the receiver's UDP port; 1 to 65535
  std::uint32_t packet_limit = 0;  // bytes of the largest packet that the receiver takes; kMinPacketLimit to
                                   // datagram::kMaxRecordPacket
  std::uint32_t credit = 0;        // what may be spent before anything more is granted
};

// From the opener: it will send no more over the link.
struct CloseLink {
  std::uint32_t link = 0;
  std::uint32_t sequence = 0;  // of the last packet that it sent; 0: none
};

// From the receiving side: the link is gone.
struct LinkClosed {
  std::uint32_t link = 0;
  ripc_status status = RIPC_OK;
};

// A packet for a service of the receiver. It goes to the receiver's responder instead of a queue.
struct Control {
  std::uint32_t link = 0;
  std::uint64_t destination = 0;      // service id
  std::span<const std::byte> packet;  // borrowed: the caller's, or part of the decoded frame; not empty
};
// The largest packet of a Control frame.
inline constexpr std::size_t kMaxControlPacket = kMaxSize - kPrefixSize - sizeof(std::uint32_t) - sizeof(std::uint64_t);

using fields::Fence;
using fields::Fenced;

// Sent to acknowledge frames, and when nothing else was sent for a while.
struct Heartbeat {
  std::uint64_t received = 0;  // frames of the session that the sender has received so far
};

// Asks the side that began the session for one more bulk connection.
struct WantBulk {};

// Last frame: the sender ends the session. RIPC_OK: it ends normally. RIPC_REFUSED: the sender does not know the
// identity that the receiver has proven, and it was too late for the handshake to say so.
struct Bye {
  ripc_status status = RIPC_OK;
};

using Gid = std::array<std::byte, 16>;

// Sessions of the RDMA transport only. The side that accepted the session sends it before anything else. It says where
// RDMA connections are accepted, and what they must know. There is one for each address, the session's address first.
struct BulkPort {
  std::uint32_t port = 0;  // of RDMA_PS_TCP; 0: no RDMA there, but connections for long items at the session's TCP port
  Nonce nonce{};
  Gid address{};  // an IP address; IPv4 as ::ffff:a.b.c.d
};

// The `request` of an OpenDatagram, and of its answer, about a link that is already open and whose session has moved.
inline constexpr std::uint64_t kMove = 0;

// Sessions of the RDMA transport only. Like Open, but for a link over the device's unreliable datagrams. The receiver
// sends only credit back, to this queue pair.
struct OpenDatagram {
  std::uint64_t request = 0;
  std::uint64_t service = 0;
  std::uint64_t token = 0;
  std::uint32_t link = 0;        // not 0
  Gid gid{};                     // of the opener's port
  std::uint32_t lid = 0;         // likewise; at most 65535
  std::uint32_t queue_pair = 0;  // less than 2^24, not 0
  std::uint32_t queue_key = 0;
  std::uint32_t mtu = 0;  // bytes of the largest datagram of the opener's port, headers of the device not included; at
                          // least kMinDatagramMtu
};

// Its answer. Unless status is RIPC_OK, all but request and link is 0.
struct DatagramOpened {
  std::uint64_t request = 0;
  ripc_status status = RIPC_OK;
  std::uint32_t link = 0;
  std::uint64_t incarnation = 0;
  Gid gid{};  // of the receiver's port, and so on
  std::uint32_t lid = 0;
  std::uint32_t queue_pair = 0;
  std::uint32_t queue_key = 0;
  std::uint32_t packet_limit = 0;  // of one datagram; at least kMinPacketLimit
  std::uint32_t credit = 0;        // in datagrams
  // The queue pair at the same port that answers greetings.
  std::uint32_t greeted_pair = 0;
  std::uint32_t greeted_key = 0;
};

// Sessions of the RDMA transport only, from the opener of a link over datagrams. Asks that the link's service get what
// comes to the group's multicast address with this token.
struct JoinGroup {
  std::uint32_t link = 0;
  std::uint64_t token = 0;  // not 0; another for each question
  std::uint64_t group = 0;  // service id of a group
};

// Its answer, sent each time a greeting with the token has come.
struct GroupJoined {
  std::uint32_t link = 0;
  std::uint64_t token = 0;
};

// From the side that asked: it sends nothing more with this token.
struct LeaveGroup {
  std::uint32_t link = 0;
  std::uint64_t token = 0;
};

// From the opener of a link over UDP: asks whether a datagram of the link has come since the last Prove. The receiver
// first sends a greeting by the link's socket.
struct Prove {
  std::uint32_t link = 0;
};

// Its answer.
struct Proved {
  std::uint32_t link = 0;
  std::uint32_t arrived = 0;  // 0 or 1
};

// A whole datagram of a link over UDP, in either direction, for when UDP does not get through.
struct Streamed {
  std::uint32_t link = 0;
  std::span<const std::byte> datagram;  // borrowed, as Control's packet; not empty
};
// The largest datagram of a Streamed frame.
inline constexpr std::size_t kMaxStreamed = kMaxSize - kPrefixSize - sizeof(std::uint32_t);

// From the opener of a link over UDP, to the side that began the session: connect a stream for it.
struct WantStream {
  std::uint32_t link = 0;
};

// The type of each frame in the header is its position here, counted from 1.
using Frame = std::variant<Hello, HelloReply, Confirm, Open, Opened, CloseLink, LinkClosed, Control, Fence, Fenced,
                           Heartbeat, WantBulk, Bye, BulkPort, OpenDatagram, DatagramOpened, JoinGroup, GroupJoined,
                           LeaveGroup, Prove, Proved, Streamed, WantStream>;

template <typename T>
requires fields::IsAlternativeOf<T, Frame>
bool operator==(const T& left, const T& right) noexcept { return fields::are_equal(left, right); }

// Makes `out` exactly the frame of one of the structures above; its capacity is reused. RIPC_TOO_LARGE: more than
// kMaxSize; RIPC_INVALID_ARGUMENT: a field has a value that decode() refuses. `out` is then empty.
ripc_status encode(const Frame& frame, std::vector<std::byte>& out);

// The size in bytes of the frame that starts with these kPrefixSize bytes. RIPC_VERSION_MISMATCH for another version;
// RIPC_CORRUPT: the size is less than kPrefixSize or more than kMaxSize.
Result<std::size_t> frame_size(std::span<const std::byte> prefix) noexcept;

// Checks and reads one whole frame. RIPC_VERSION_MISMATCH for another version; RIPC_CORRUPT for any other fault. Never
// allocates. A Control's packet and a Streamed's datagram point into `bytes`; decode() does not decode them.
Result<Frame> decode(std::span<const std::byte> bytes) noexcept;

}  // namespace ripc::internal::wire::session_control
