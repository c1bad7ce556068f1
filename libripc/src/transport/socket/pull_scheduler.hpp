// SPDX-License-Identifier: Apache-2.0
// The pulls of one session: cuts them into segments, asks for these over the connections there are, in turns, so that
// every pull gets its share and a large one uses all connections; and asks again for what a lost connection still owed.
//
// Any thread may call anything, unless a line says otherwise. The lock is held while requests are written, never while
// payload is read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/bulk/access.hpp"
#include "remote/bulk/finish_table.hpp"
#include "spi/transport.hpp"
#include "transport/socket/bulk_connection.hpp"
#include "transport/socket/bulk_limits.hpp"

namespace ripc::socket {

class PullScheduler {
 public:
  // `finishes`: of the same session.
  explicit PullScheduler(remote::FinishTable& finishes) noexcept : finishes_(finishes) {}

  // What the pulls of some items will need.
  struct Entry;
  using Entries = std::list<std::shared_ptr<Entry>>;
  // RIPC_NO_MEMORY.
  static ripc_status prepare(std::span<const wire::Descriptor> items, EventSet& events, Entries& prepared) noexcept;
  void add_prepared(Entries prepared) noexcept;
  // Items of this key will not be pulled any more, if they were not.
  void drop_prepared(std::uint64_t key) noexcept;

  // As BulkPeer::pull, abandon, forget, died. What was prepared takes no memory.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  void abandon(spi::Pull& pull) noexcept;
  void forget(const EventSet& events) noexcept;
  void died() noexcept;

  // Responder, or before the connection joins the loop.
  // With a lane that was made for it.
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
  // Something waits that no connection was asked for.
  bool has_backlog() const noexcept;
  std::uint64_t bytes_requested() const noexcept { return bytes_requested_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  struct Segment {
    std::uint64_t id;
    std::shared_ptr<Entry> entry;
    Range rest;  // not confirmed yet
  };
  struct Lane {
    std::shared_ptr<BulkConnection> connection;
    std::vector<Segment> segments;            // in the order of their answers; kSegmentsAhead at most
    std::vector<wire::bulk::Frame> requests;  // likewise

    void segment_over() noexcept { segments.erase(segments.begin()); }
  };

 public:
  class NewLane {
   public:
    // Throws std::bad_alloc.
    explicit NewLane(std::shared_ptr<BulkConnection> connection);

   private:
    friend class PullScheduler;
    std::list<Lane> lane_;
  };

 private:
  static Entry* entry_of(const spi::Pull& pull) noexcept;
  static void add_entry(Entries& entries, const wire::Descriptor& item, EventSet& events);
  Lane* lane_of(const BulkConnection& connection) noexcept;
  void make_ready(Entry& entry) noexcept;
  void make_unready(Entry& entry) noexcept;
  void ask() noexcept;
  void end(Entry& entry, ripc_status status) noexcept;

  remote::FinishTable& finishes_;
  mutable std::mutex mutex_;
  bool dead_ = false;
  Entries prepared_;
  Entries entries_;
  std::list<Entry*> ready_;  // of entries_; have something to ask for, taken in turns
  std::list<Lane> lanes_;
  std::uint64_t next_segment_ = 1;
  std::atomic<std::uint64_t> bytes_requested_{0};
};

// Between prepare() and the end of the pull, whose `progress` is its address. It has all the memory that it needs.
struct PullScheduler::Entry : Destination {
  std::atomic<ripc_status> status{RIPC_PENDING};
  // For the rest, the scheduler's lock.
  wire::Descriptor descriptor{};
  std::uint64_t next = 0;       // first byte nobody was asked for yet
  std::uint64_t landed = 0;     // bytes that are there
  std::vector<Range> returned;  // asked for and lost
  Entries::iterator place;      // in prepared_, then in entries_
  std::list<Entry*> turn;       // this one, if it is not in ready_
  bool ready = false;           // it is
  bool finishes = false;        // the transfer, when it ends well
  EventSet* events = nullptr;

  bool has_unasked() const noexcept { return next != descriptor.length || !returned.empty(); }
  Range take_unasked() noexcept;
};

}  // namespace ripc::socket
