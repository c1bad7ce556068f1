// SPDX-License-Identifier: Apache-2.0
// Everything long of one session: what this context exposes to the peer, what it pulls from it, return buffers in both
// directions, and the TCP connections that carry it. docs/wire.md, "Bulk connections", has the frames.
//
// Pulls are split into segments that are asked for over whatever connections there are, so that many transfers share
// them, one large transfer uses all of them, and the loss of a connection costs no more than what was under way on it.
// Exposed memory goes from where it lies into the socket, and from the socket to where it belongs.
//
// The calls are those of remote/bulk/bulk.hpp, which says what they do and from which threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"
#include "remote/bulk/bulk.hpp"
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

class BulkPeer final : public remote::Bulk {
 public:
  using Hooks = remote::BulkHooks;

  // `loop` is the responder's and outlives the peer.
  static std::shared_ptr<BulkPeer> create(EventLoop& loop, Hooks hooks, const BulkOptions& options);
  BulkPeer(const BulkPeer&) = delete;
  BulkPeer& operator=(const BulkPeer&) = delete;
  ~BulkPeer() override;  // as died()

  // Any. A bulk connection of this session whose handshake is over: the next byte in both directions is the first of a
  // frame. Also those that the peer dialed. Sets the socket options it needs. Closes it after died(), when there are
  // kMaxBulkConnections already or the loop cannot take it.
  void adopt(UniqueFd connection) noexcept;

  void dial_failed() noexcept override;
  void died() noexcept override;
  std::string describe() const override { return "TCP for long items"; }
  ripc_status expose(std::uint64_t owner, std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept override;
  ripc_status will_tell(std::uint64_t transfer, std::size_t size) noexcept override;
  void told(std::uint64_t transfer, spi::Gather packet) noexcept override;
  ripc_status transfer_status(std::uint64_t transfer) noexcept override;
  bool watch(std::uint64_t transfer) noexcept override;
  // Waits for a chunk that is being written to a socket buffer.
  ripc_status revoke(std::uint64_t transfer) noexcept override;
  ripc_status grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept override;
  ripc_status end_grant(const wire::Grant& grant) noexcept override;
  bool has_room(spi::Need need) const noexcept override;
  void end_owner(std::uint64_t owner) noexcept override;
  ripc_status begin(std::span<const wire::Descriptor> items, EventSet& events) noexcept override;
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept override;
  void abandon(spi::Pull& pull) noexcept override;
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept override;
  void forget(const EventSet& events) noexcept override;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept override;

  // Any. Connections open now.
  std::size_t connection_count() const noexcept;
  BulkCounters counters() const noexcept;

 private:
  explicit BulkPeer(std::shared_ptr<class BulkSession> session) noexcept;

  const std::shared_ptr<BulkSession> session_;
};

}  // namespace ripc::socket
