// SPDX-License-Identifier: Apache-2.0
// The pulls of one session over TCP: cuts them into segments, asks for these over the connections there are, in turns,
// so that every pull gets its share and a large one uses all connections; and asks again for what a lost connection
// still owed. Of several connections, the one that will have a segment first is asked for it.
//
// Any thread may call anything, unless a line says otherwise. The lock is held while requests are written, never while
// payload is read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "remote/bulk/access.hpp"
#include "remote/bulk/pull_table.hpp"
#include "remote/bulk/rail_pace.hpp"
#include "transport/socket/bulk_connection.hpp"
#include "transport/socket/bulk_limits.hpp"

namespace ripc::internal::socket {

struct ByteRange {
  std::uint64_t begin;
  std::uint64_t end;
};

// It has all the memory that it needs.
struct StreamPull : remote::PullEntry<StreamPull>, Destination {
  // Throws std::bad_alloc.
  StreamPull(const wire::Descriptor& item, EventSet& receiver);

  std::vector<ByteRange> returned;  // asked for and lost
  std::list<StreamPull*> turn;      // this one, if it does not wait for its turn
  bool ready = false;               // it does

  bool has_unasked() const noexcept { return next != descriptor.length || !returned.empty(); }
  // Up to `segment` bytes, or a whole small item.
  ByteRange take_unasked(std::uint64_t segment) noexcept;
};

class StreamPullTable : public remote::PullTable<StreamPull> {
 public:
  using PullTable::PullTable;

  // As Bulk::pull, abandon, died.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  void abandon(spi::Pull& pull) noexcept;
  void died() noexcept;

  // Responder, or before the connection joins the loop. With a lane that was made for it.
  class NewLane;
  void connection_made(NewLane lane) noexcept;
  void connection_lost(const BulkConnection& connection) noexcept;

  // Responder. A data frame has come: where its payload belongs. False: nobody asked for it.
  bool begin_data(const BulkConnection& connection, const wire::bulk::Frame& frame,
                  std::shared_ptr<Destination>& destination) noexcept;
  // Responder. Its payload is there, or not (see status). False: it makes no sense.
  bool end_data(const BulkConnection& connection, const wire::bulk::Frame& frame, ripc_status status) noexcept;
  // Responder. The destination of this frame cannot be written.
  void unwritable(const BulkConnection& connection) noexcept;

  // How many segments this connection owes.
  std::size_t owed(const BulkConnection& connection) const noexcept;
  // The connection that brings something small first; null: there is none.
  std::shared_ptr<BulkConnection> quickest() const noexcept;
  // As RailPace tells, in bytes per second; 0: not known.
  double rate_of(const BulkConnection& connection) const noexcept;
  // Something waits that no connection was asked for.
  bool has_backlog() const noexcept;
  std::uint64_t bytes_requested() const noexcept { return bytes_requested_.load(std::memory_order_relaxed); }

 private:
  struct Segment {
    std::uint64_t id;
    std::shared_ptr<StreamPull> entry;
    ByteRange rest;  // not confirmed yet
  };
  struct Lane {
    std::shared_ptr<BulkConnection> connection;
    std::vector<Segment> segments;            // in the order of their answers; kSegmentsAhead at most
    std::vector<wire::bulk::Frame> requests;  // likewise
    remote::RailPace pace;
    Nanoseconds probe_at = 0;  // of a spare one: when it is tried again

    void segment_over() noexcept { segments.erase(segments.begin()); }
  };

 public:
  class NewLane {
   public:
    // Throws std::bad_alloc.
    explicit NewLane(std::shared_ptr<BulkConnection> connection);

   private:
    friend class StreamPullTable;
    std::list<Lane> lane_;
  };

 private:
  Lane* lane_of(const BulkConnection& connection) noexcept;
  const Lane* lane_of(const BulkConnection& connection) const noexcept;
  std::pair<Lane*, std::uint64_t> next_lane(Nanoseconds now) noexcept;
  void make_ready(StreamPull& entry) noexcept;
  void make_unready(StreamPull& entry) noexcept;
  void ask() noexcept;
  void end(StreamPull& entry, ripc_status status) noexcept;

  std::list<StreamPull*> ready_;  // of entries_; have something to ask for, taken in turns
  std::list<Lane> lanes_;
  std::uint64_t next_segment_ = 1;
  std::atomic<std::uint64_t> bytes_requested_{0};
};

}  // namespace ripc::internal::socket
