// SPDX-License-Identifier: Apache-2.0
// Everything long of one session: what this context exposes to the peer, what it pulls from it, return buffers in both
// directions, and the TCP connections that carry it. docs/wire.md, "Bulk connections", has the frames.
//
// Pulls are split into segments that are asked for over whatever connections there are, so that many transfers share
// them, one large transfer uses all of them, and the loss of a connection costs no more than what was under way on it.
// Exposed memory goes from where it lies into the socket, and from the socket to where it belongs.
//
// Threads: "any" and "receiver" as in spi/transport.hpp. No call waits for the network but push(). Locks of the caller
// may be held during any call but push(), as hooks are called from the responder's loop only and never from inside a
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"
#include "spi/transport.hpp"
#include "transport/socket/bulk_limits.hpp"
#include "wire/packet.hpp"

namespace ripc::socket {

struct BulkOptions {
  // Connections that this side asks for when there is enough to pull; 1 to kMaxBulkConnections.
  std::size_t connections = 1;
  // A connection on which an answer is due is given up when nothing arrives for this long. So is a push.
  Nanoseconds stall_timeout = 5'000'000'000;
};

// Since the start; what one call reads belongs together only while nothing moves.
struct BulkCounters {
  std::uint64_t send_calls = 0;       // system calls
  std::uint64_t receive_calls = 0;    // likewise
  std::uint64_t bytes_sent = 0;       // frames included
  std::uint64_t bytes_received = 0;   // likewise
  std::uint64_t bytes_requested = 0;  // asked of the peer; more than pulled where something was asked for again
  std::uint64_t bytes_discarded = 0;  // arrived for nobody: abandoned, withdrawn or refused
  std::uint64_t connections_made = 0;
  std::uint64_t connections_lost = 0;  // by the network or the peer
  std::uint64_t refused = 0;           // requests of the peer for what it has no right to, or no longer
  std::uint64_t violations = 0;        // connections closed because the peer broke the protocol
};

class BulkPeer {
 public:
  // All are called in the responder, without locks held, and not after died() (one that runs may be finishing).
  struct Hooks {
    // A watched transfer that was exposed for `owner` has finished.
    std::function<void(std::uint64_t owner, std::uint64_t transfer)> finished;
    // One more connection is wanted. Answered at any time, from any thread, with adopt() or dial_failed(); until then
    // it is not called again (a connection that the peer dialed is an answer too).
    std::function<void()> dial;
    // A packet that told of a transfer of `owner` seems to be lost: it is to be sent once more.
    std::function<void(std::uint64_t owner, spi::Bytes packet)> repeat;
  };

  // `loop` is the responder's and outlives the peer.
  static std::shared_ptr<BulkPeer> create(EventLoop& loop, Hooks hooks, const BulkOptions& options);
  BulkPeer(const BulkPeer&) = delete;
  BulkPeer& operator=(const BulkPeer&) = delete;
  ~BulkPeer();  // as died()

  // ---- Connections -------------------------------------------------------------------------------------------

  // Any. A bulk connection of this session whose handshake is over: the next byte in both directions is the first of a
  // frame. Also those that the peer dialed. Sets the socket options it needs. Closes it after died(), when there are
  // kMaxBulkConnections already or the loop cannot take it.
  void adopt(UniqueFd connection) noexcept;

  // Any. The answer to Hooks::dial when there will be no connection: asked again after a pause that grows from 10 ms to
  // 1 s, while anything waits for it.
  void dial_failed() noexcept;

  // Any. The peer is gone, or the session ends. Closes the connections; pulls end with RIPC_PEER_DEAD, unanswered
  // finish() with RIPC_REVOKED, transfers with RIPC_PEER_DEAD unless they had finished, grants as end_grant() tells.
  // When it has returned, nobody touches exposed, granted or destination memory any more. Idempotent.
  void died() noexcept;

  // ---- Exposing side: what Channel needs ---------------------------------------------------------------------

  // Any. As Channel::expose; `owner` is the caller's name for the channel. At most RIPC_MAX_ITEMS items; kMaxTransfers
  // of a session at a time, then RIPC_AGAIN. The memory is read until the transfer is gone (Channel::transfer_status,
  // Channel::revoke).
  ripc_status expose(std::uint64_t owner, std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept;

  // Any. This packet told the peer of a transfer. It is repeated, with growing pauses, until the peer has asked for the
  // transfer or it ends.
  void told(std::uint64_t transfer, spi::Gather packet) noexcept;

  // Any. As Channel::transfer_status: one atomic load while it is pending. RIPC_CANCELLED: the memory could not be read
  // any more.
  ripc_status transfer_status(std::uint64_t transfer) noexcept;

  // Any. As Channel::watch_transfer.
  bool watch(std::uint64_t transfer) noexcept;

  // Any. As Channel::revoke, never RIPC_PENDING (nothing is lent). Waits for a chunk that is being written to a socket
  // buffer; afterwards nothing reads the memory: Channel::is_draining() is always false here.
  ripc_status revoke(std::uint64_t transfer) noexcept;

  // Any. As Channel::grant. kMaxGrants of a session at a time, then RIPC_AGAIN. RIPC_PEER_DEAD.
  ripc_status grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept;

  // Any. As Channel::end_grant, never RIPC_PENDING: a write that is going on is cut off (RIPC_EMPTY, the memory has
  // then some of it), and nothing writes the memory any more.
  ripc_status end_grant(const wire::Grant& grant) noexcept;

  // Any. The channel `owner` is lost while the session lives on: what it exposed ends with RIPC_PEER_DEAD unless it had
  // finished, its grants end; each is still to be collected by transfer_status(), revoke() or end_grant(). Nothing
  // touches their memory when it has returned. Hooks::finished is not called for them.
  void end_owner(std::uint64_t owner) noexcept;

  // ---- Pulling side: what Source needs -----------------------------------------------------------------------

  // Receiver. As Source::begin, without asking the peer. RIPC_REVOKED: that transfer was begun before. RIPC_CORRUPT:
  // more than kMaxTransfers, which no peer can have exposed. After died() RIPC_REVOKED.
  ripc_status begin(const wire::Descriptor& descriptor) noexcept;

  // Receiver. As Source::pull. `events` is woken when the pull ends; it must be valid until then, or until abandon() or
  // forget(). `pull.progress` is 0 at the first call and belongs to the peer from then on. RIPC_OK, RIPC_PENDING,
  // RIPC_REVOKED (withdrawn, or never ours), RIPC_CANCELLED (the memory of either side cannot be accessed),
  // RIPC_PEER_DEAD.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;

  // Receiver. As Source::abandon: when it has returned, nothing writes the destination any more.
  void abandon(spi::Pull& pull) noexcept;

  // Any. As Source::finish. RIPC_OK and RIPC_REVOKED are final. The first RIPC_PENDING is told to the peer; `events` is
  // woken when the answer is there, and must be valid until then or until forget(). What drops a message is sent off
  // at once, kept until the peer has it, and gives RIPC_OK. Transfers that were not begun give RIPC_REVOKED.
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept;

  // Any. `events` is about to go: when this has returned it will not be woken any more.
  void forget(const EventSet& events) noexcept;

  // Any, without locks held. As Source::push; waits for the peer's answer, in the loop's thread by running the loop.
  // RIPC_UNSUPPORTED also when no connection could be had or it was lost, and when nothing moved for the stall timeout:
  // the requester may pull instead. `bytes` is not read any more when it has returned. RIPC_CANCELLED: cannot be read.
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept;

  // ---- For people and tests ----------------------------------------------------------------------------------

  // Any. Connections open now.
  std::size_t connection_count() const noexcept;
  BulkCounters counters() const noexcept;

 private:
  explicit BulkPeer(std::shared_ptr<class BulkSession> session) noexcept;

  const std::shared_ptr<BulkSession> session_;
};

}  // namespace ripc::socket
