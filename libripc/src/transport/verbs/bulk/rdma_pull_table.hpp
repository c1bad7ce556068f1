// SPDX-License-Identifier: Apache-2.0
// The pulls of one session over RDMA. The table asks the peer for a remote key of each item, and reads it in segments;
// all pulls take turns. Segments of a lost connection are read over others. An item of several segments is opened
// on all connections, and each segment is read over the connection that will finish it first. Rails of sockets
// are asked for segments of such items too. They carry all items when the last connection is lost, when none can be
// made, or when the session's rail is one of sockets, until there is a connection again.
//
// Any thread may call anything, unless a line says otherwise. "The handler" is the responder or a receiver that looks
// for an offer, but never both at a time for one connection. Sends and posts only enqueue: the caller flushes the
// connections.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/bulk/access.hpp"
#include "remote/bulk/pull_table.hpp"
#include "remote/bulk/segment_queue.hpp"
#include "transport/verbs/bulk/queue_pair_connection.hpp"

namespace ripc::internal::verbs {

struct RdmaPull : remote::PullEntry<RdmaPull>, remote::Destination {
  using PullEntry::PullEntry;

  // A connection on which the item was asked for.
  struct Opening {
    const QueuePairConnection* connection = nullptr;
    std::uint32_t local_key = 0;  // of the destination
    std::uint64_t question = 0;   // id of the open question; 0: the peer has answered
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    bool ends_key = false;  // the end of the transfer can end remote_key
  };

  std::vector<LocalMemory> registrations;  // the destination, as each of the devices knows it
  std::vector<Opening> openings;
  std::size_t reads = 0;          // under way
  ripc_status failure = RIPC_OK;  // how the pull ends when no read is under way any more

  // Whether several connections carry the item; whether rails of sockets do.
  bool is_divided() const noexcept { return descriptor.length > remote::kSegmentSize; }
  bool is_for_sockets() const noexcept { return is_divided() || openings.empty(); }
  bool is_over() const noexcept { return !is_pending() || failure != RIPC_OK; }
  Opening* opening_on(const QueuePairConnection& connection) noexcept;
  bool is_open_on(const QueuePairConnection& connection) noexcept;
};

class RdmaPullTable : public remote::PullTable<RdmaPull> {
 public:
  // `registrar`, `finishes`: of the same session. The registrar must outlive the table. Throws std::bad_alloc.
  RdmaPullTable(const PresentRegistrar& registrar, EventLoop& loop, remote::FinishTable& finishes,
                Nanoseconds stall_timeout)
      : PullTable(finishes), registrar_(registrar), loop_(loop), lanes_(stall_timeout) {}

  // Like remote::Bulk::pull, abandon and died.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  // Enqueues the reads of the items that pull() found open to this side, all together, so that they make few batches.
  void start() noexcept;
  // Whether a question or operation with this id belongs to this table.
  static constexpr bool is_own(std::uint64_t id) noexcept { return id % 2 == 0; }
  void abandon(spi::Pull& pull) noexcept;
  void died() noexcept;

  // Called by the responder; what a completion brings, by the handler. `is_first`: small items are asked for on this
  // connection.
  void connection_made(std::shared_ptr<QueuePairConnection> connection, bool is_first) noexcept;
  void connection_lost(const QueuePairConnection& connection) noexcept;
  // The peer's answer to a question of this table. Ignores an answer to a question that nobody asked.
  void answered(const QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // The peer lets this side read an item without asking; or, if the frame has no address, no longer does.
  void offered(const QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // A read of this table has ended. False: it does not belong to this table.
  bool read_done(const QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept;
  // The connection has refused a read for lack of room, and now has room.
  void room(const QueuePairConnection& connection) noexcept;

  // Responder. The same for a rail of sockets to this peer. Its frames come as in StreamConnection::Handler.
  // RIPC_NO_MEMORY, RIPC_PEER_DEAD: it is not used.
  ripc_status socket_made(std::shared_ptr<remote::StreamConnection> socket, const remote::Endpoint& peer) noexcept;
  void socket_lost(const remote::StreamConnection& socket) noexcept;
  bool begin_data(const remote::StreamConnection& socket, const wire::bulk::Frame& frame,
                  std::shared_ptr<remote::Destination>& destination) noexcept;
  bool end_data(const remote::StreamConnection& socket, const wire::bulk::Frame& frame, ripc_status status) noexcept;
  void unwritable(const remote::StreamConnection& socket) noexcept;

  // Any. No connection can be made now.
  void stand_in() noexcept;
  bool stands_in() const noexcept {
    const std::lock_guard lock(mutex_);
    return stands_in_locked();
  }

  // Something waits for a connection.
  bool has_backlog() const noexcept;
  // Whether something is under way: at all, or on this connection.
  bool busy() const noexcept;
  bool is_owed(const QueuePairConnection& connection) const noexcept;
  bool is_owed(const remote::StreamConnection& socket) const noexcept;
  // The rate that RailPace gives, in bytes per second; 0: unknown.
  std::uint64_t rate_of(const auto& connection) const noexcept {
    const std::lock_guard lock(mutex_);
    return lanes_.rate_of(connection);
  }
  // The number of items that the peer has offered and nobody has pulled; whether this item is one of them.
  std::size_t offers() const noexcept;
  bool is_offered(const wire::Descriptor& item) const noexcept;

 private:
  using Opening = RdmaPull::Opening;
  // An item that the peer has offered and nobody has pulled so far.
  struct OfferedItem {
    const QueuePairConnection* connection;
    std::uint64_t key;
    std::uint64_t location;
    std::uint64_t remote;
    std::uint32_t remote_key;
    bool ends_key;
    bool is_of(std::uint64_t item_key, std::uint64_t item_location) const noexcept {
      return key == item_key && location == item_location;
    }
  };
  static constexpr std::size_t kOffers = 128;
  struct Read {
    EntryPointer entry;
    remote::ByteRange range;
    bool ends_batch;  // this read has the completion

    std::uint64_t length() const noexcept { return range.end - range.begin; }
  };
  // A batch of reads has one completion, and so one wake-up. While the device works on one batch, a second one waits
  // behind it once it is as large; further reads collect in a third. So a reader of one item at a time gets it at once,
  // and a reader with many items under way is woken once for several.
  static constexpr std::size_t kBatches = 2;
  static constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;
  static constexpr std::size_t kBatchReads = 8;
  // A lane of RDMA or of sockets. Those of sockets use only remote::Lane and the first two members here.
  struct Lane : remote::Lane<QueuePairConnection> {
    std::shared_ptr<remote::StreamConnection> socket;  // null: it is of RDMA
    remote::SegmentQueue<RdmaPull> segments;
    std::unordered_map<std::uint64_t, EntryPointer> questions;  // by their ids
    std::unordered_map<std::uint64_t, Read> reads;              // by their ids, under way
    std::size_t batches = 0;                                    // under way
    std::uint64_t reading = 0;                                  // bytes that are under way
    std::size_t divided = 0;                                    // reads of divided items, next batch included
    // Whether the next batch may begin: not while it would be too small, or the connection has no room.
    bool may_begin = true;
    bool is_refused = false;
    std::array<Operation, kBatchReads> operations;
    std::array<Read, kBatchReads> next;
    std::size_t count = 0;
    std::uint64_t bytes = 0;

    using remote::Lane<QueuePairConnection>::is;
    bool is(const remote::StreamConnection& other) const noexcept { return socket.get() == &other; }
    std::size_t under_way() const noexcept { return socket ? segments.size() : divided; }
    bool has_room() const noexcept;
    bool can_carry(RdmaPull& entry) const noexcept;
    bool will_carry(RdmaPull& entry) const noexcept;
  };

  bool stands_in_locked() const noexcept { return stands_in_ || !registrar_.get(); }
  void take_offer(RdmaPull& entry);
  Status find_local_key(RdmaPull& entry, const QueuePairConnection& connection, std::uint32_t& key);
  ripc_status ask_on(Lane& lane, RdmaPull& entry);
  void ask(RdmaPull& entry) noexcept;
  void open(RdmaPull& entry, Opening& opening, std::uint64_t remote, std::uint32_t remote_key, bool ends_key) noexcept;
  void read_some() noexcept;
  bool read_next(Nanoseconds now) noexcept;
  bool has_ready(std::uint64_t bytes) const noexcept;
  void update_may_begin(Lane& lane) const noexcept;
  void add_read(Lane& lane, const EntryPointer& entry, remote::ByteRange range) noexcept;
  void post(Lane& lane) noexcept;
  void give_back(Lane& lane, const Read& read) noexcept;
  void settle(RdmaPull& entry) noexcept;
  void forget_questions(RdmaPull& entry) noexcept;
  void end(RdmaPull& entry, ripc_status status) noexcept;

  const PresentRegistrar& registrar_;
  EventLoop& loop_;
  std::condition_variable changed_;  // a read has ended
  remote::Lanes<Lane> lanes_;
  bool stands_in_ = false;
  std::deque<OfferedItem> offers_;  // the oldest first; at most kOffers
  std::uint64_t next_id_ = 2;       // even: pulls
};

}  // namespace ripc::internal::verbs
