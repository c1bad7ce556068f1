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
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/event_loop.hpp"
#include "network/access.hpp"
#include "network/finish_book.hpp"
#include "spi/transport.hpp"
#include "transport/socket/bulk_connection.hpp"
#include "transport/socket/bulk_limits.hpp"

namespace ripc::socket {

class PullScheduler {
 public:
  // `finishes`: of the same session.
  explicit PullScheduler(network::FinishBook& finishes) noexcept : finishes_(finishes) {}

  // As BulkPeer::pull, abandon, forget, died.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  void abandon(spi::Pull& pull) noexcept;
  void forget(const EventSet& events) noexcept;
  void died() noexcept;

  // Responder, or before the connection joins the loop.
  void connection_made(std::shared_ptr<BulkConnection> connection) noexcept;
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
  // Between pull() and its end; the pull's `progress` is its address.
  struct Entry : Destination {
    std::atomic<ripc_status> status{RIPC_PENDING};
    // For the rest, the scheduler's lock.
    wire::Descriptor descriptor{};
    std::uint64_t next = 0;       // first byte nobody was asked for yet
    std::uint64_t landed = 0;     // bytes that are there
    std::vector<Range> returned;  // asked for and lost
    bool ready = false;           // in ready_
    bool finishes = false;        // the transfer, when it ends well
    EventSet* events = nullptr;

    bool has_unasked() const noexcept { return next != descriptor.length || !returned.empty(); }
    Range take_unasked() noexcept;
  };
  struct Segment {
    std::uint64_t id;
    std::shared_ptr<Entry> entry;
    Range rest;  // not confirmed yet
  };
  struct Lane {
    std::shared_ptr<BulkConnection> connection;
    std::deque<Segment> segments;  // in the order of their answers
    std::vector<wire::bulk::Frame> requests;
  };

  static Entry* entry_of(const spi::Pull& pull) noexcept;
  Lane* lane_of(const BulkConnection& connection) noexcept;
  void make_ready(const std::shared_ptr<Entry>& entry);
  void ask() noexcept;
  void end(Entry& entry, ripc_status status) noexcept;

  network::FinishBook& finishes_;
  mutable std::mutex mutex_;
  bool dead_ = false;
  std::unordered_map<Entry*, std::shared_ptr<Entry>> entries_;
  std::deque<std::shared_ptr<Entry>> ready_;  // have something to ask for; taken in turns
  std::vector<Lane> lanes_;
  std::uint64_t next_segment_ = 1;
  std::atomic<std::uint64_t> bytes_requested_{0};
};

}  // namespace ripc::socket
