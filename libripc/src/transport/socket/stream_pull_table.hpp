// SPDX-License-Identifier: Apache-2.0
// The pulls of one session over TCP. The table cuts them into segments and requests these over the open connections,
// with pulls taking turns. So every pull gets its share, and a large one uses all connections. The table requests again
// what a lost connection still owed. A segment is requested over the connection that will bring it first.
//
// Any thread may call anything, unless a line says otherwise. The lock is held while requests are written, never while
// payload is read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "remote/bulk/access.hpp"
#include "remote/bulk/pull_table.hpp"
#include "remote/bulk/segment_queue.hpp"
#include "remote/bulk/stream_connection.hpp"

namespace ripc::internal::socket {

using remote::Destination;
using remote::StreamConnection;

struct StreamPull : remote::PullEntry<StreamPull>, Destination {
  using PullEntry::PullEntry;
};

class StreamPullTable : public remote::PullTable<StreamPull> {
 public:
  // `finishes`: of the same session. Throws std::bad_alloc.
  StreamPullTable(remote::FinishTable& finishes, Nanoseconds stall_timeout)
      : PullTable(finishes), lanes_(stall_timeout) {}

  // As Bulk::pull, abandon, died.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  void abandon(spi::Pull& pull) noexcept;
  void died() noexcept;

  struct Lane : remote::Lane<StreamConnection> {
    remote::SegmentQueue<StreamPull> segments;

    std::size_t under_way() const noexcept { return segments.size(); }
    bool has_room() const noexcept { return segments.has_room(); }
  };
  // Mover, or before the connection joins the set. `lane` was made for this connection.
  void connection_made(std::list<Lane> lane) noexcept;
  void connection_lost(const StreamConnection& connection) noexcept;

  // Mover. A data frame has come: sets `destination` to where its payload belongs. False: no one asked for it.
  bool begin_data(const StreamConnection& connection, const wire::bulk::Frame& frame,
                  std::shared_ptr<Destination>& destination) noexcept;
  // Mover. The payload of the frame has come, or will not come (see `status`). False: the frame makes no sense.
  bool end_data(const StreamConnection& connection, const wire::bulk::Frame& frame, ripc_status status) noexcept;
  // Mover. The destination of this frame cannot be written.
  void unwritable(const StreamConnection& connection) noexcept;

  // Whether this connection owes something.
  bool is_owed(const StreamConnection& connection) const noexcept;
  // The connection that would bring something small first; null: there is no connection.
  std::shared_ptr<StreamConnection> quickest() const noexcept;
  // The rate that RailPace has measured, in bytes per second; 0: not known.
  std::uint64_t rate_of(const StreamConnection& connection) const noexcept;
  // Whether something waits that was not requested over any connection.
  bool has_backlog() const noexcept;
  std::uint64_t bytes_requested() const noexcept { return bytes_requested_.load(std::memory_order_relaxed); }

 private:
  void ask() noexcept;
  void end(StreamPull& entry, ripc_status status) noexcept;

  remote::Lanes<Lane> lanes_;
  std::uint64_t next_segment_ = 1;
  std::atomic<std::uint64_t> bytes_requested_{0};
};

}  // namespace ripc::internal::socket
