// SPDX-License-Identifier: Apache-2.0
// The long items of one session, over TCP connections. docs/wire.md, "Bulk connections", describes the frames.
//
// Pulls are split into segments, which are requested over all open connections. Many transfers can thus share the
// connections, and one large transfer uses all of them. A lost connection costs only what was under way on it. Exposed
// memory goes straight into the socket, and straight from the socket to its destination.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "remote/bulk/bulk_backend.hpp"
#include "remote/bulk/stream_connection.hpp"
#include "remote/bulk/stream_push_table.hpp"
#include "remote/session/rails.hpp"
#include "transport/socket/stream_pull_table.hpp"

namespace ripc::internal::socket {

using remote::Job;
using remote::Reading;
using remote::StreamPush;
using remote::StreamPushTable;
using remote::StreamTally;

inline constexpr std::size_t kMaxBulkConnections = 16;  // dialed by either side; more are closed

struct BulkOptions {
  // Connections that this side asks for when there is enough to pull; 1 to kMaxBulkConnections.
  std::size_t connections = 1;
  // A connection on which an answer is due is given up when nothing arrives for this long. So is a push.
  Nanoseconds stall_timeout = 5'000'000'000;
};

// Counts since the start. The counts of one call are consistent only while nothing moves.
struct BulkCounters {
  std::uint64_t send_calls = 0;       // system calls
  std::uint64_t receive_calls = 0;    // likewise
  std::uint64_t bytes_sent = 0;       // frames included
  std::uint64_t bytes_received = 0;   // likewise
  std::uint64_t bytes_requested = 0;  // asked of the peer; more than pulled where something was asked for again
  std::uint64_t bytes_discarded = 0;  // arrived for no one: abandoned, withdrawn or refused
  std::uint64_t connections_made = 0;
  std::uint64_t connections_lost = 0;  // by the network or the peer
  std::uint64_t refused = 0;           // requests of the peer for what it has no right to, or no longer
  std::uint64_t violations = 0;        // connections closed because the peer broke the protocol
};

class StreamBulk final : public remote::BulkBackend<StreamConnection, StreamPullTable, StreamPushTable>,
                         public StreamConnection::Handler,
                         public std::enable_shared_from_this<StreamBulk> {
 public:
  // `loop` is the responder's and outlives the bulk. Throws std::bad_alloc.
  static std::shared_ptr<StreamBulk> create(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options);
  StreamBulk(EventLoop& loop, remote::BulkHooks hooks, const BulkOptions& options);
  ~StreamBulk() override { died(); }

  // Any. Takes over a bulk connection of this session, dialed by either side. Its handshake is over: the next byte in
  // both directions is the first of a frame. Sets the socket options it needs. Closes the connection after died(), if
  // there are kMaxBulkConnections already, or if the loop cannot take it.
  void adopt(remote::SecureSocket socket) noexcept;
  BulkCounters counters() const noexcept;

  // ---- remote::Bulk ----
  std::string describe() const override { return "TCP for long items"; }
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept override;
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept override;

  // ---- StreamConnection::Handler ----
  bool frame(StreamConnection& connection, const wire::bulk::Frame& frame,
             std::shared_ptr<Destination>& destination) noexcept override;
  bool payload(StreamConnection& connection, const wire::bulk::Frame& frame, ripc_status status) noexcept override;
  Reading read(const Job& job) noexcept override;
  void unreadable(const Job& job) noexcept override;
  void unwritable(StreamConnection& connection, const wire::bulk::Frame& frame) noexcept override;
  void lost(StreamConnection& connection, bool violation) noexcept override;

 private:
  std::string device_of(const Member& member) const override { return remote::interface_of(member.local); }
  std::uint64_t rate_of(const StreamConnection& connection) const noexcept override {
    return connection.rate(pulls_.rate_of(connection));
  }
  std::shared_ptr<StreamConnection> choose() noexcept override { return pulls_.quickest(); }

  const Nanoseconds stall_timeout_;
  const std::shared_ptr<StreamTally> tally_ = std::make_shared<StreamTally>();
  StreamPullTable stream_pulls_{finishes_, stall_timeout_};
  StreamPushTable stream_pushes_;
  std::atomic<std::uint64_t> connections_made_{0};
  std::atomic<std::uint64_t> connections_lost_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> violations_{0};
};

}  // namespace ripc::internal::socket
