// SPDX-License-Identifier: Apache-2.0
// The pulls of one session over RDMA: asks the peer for a remote key of each item, reads it in pieces that all pulls
// take turns with, and asks anew over another connection for what a lost one has left undone.
//
// Any thread may call anything, unless a line says otherwise. "The handler" is the responder, or a receiver that looks
// for an offer; never both at a time. What pull(), start() and connection_made() send is
// enqueued: the caller flushes the connection.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "base/event_loop.hpp"
#include "remote/bulk/pull_table.hpp"
#include "transport/verbs/bulk/queue_pair_connection.hpp"

namespace ripc::internal::verbs {

struct RdmaPull : remote::PullEntry<RdmaPull> {
  enum class Step : std::uint8_t { waiting, asked, open };
  using PullEntry::PullEntry;

  std::byte* destination = nullptr;
  LocalMemory memory;
  Step step = Step::waiting;
  std::uint64_t question = 0;
  std::uint64_t remote = 0;
  std::uint32_t remote_key = 0;
  bool ends_key = false;          // of remote_key: the end of the transfer can end it
  std::size_t reads = 0;          // under way
  ripc_status failure = RIPC_OK;  // how it ends when no read is under way any more
  bool ready = false;             // in ready_
};

class RdmaPullTable : public remote::PullTable<RdmaPull> {
 public:
  // `registrar`: of the device that the session's connections are made over; `finishes`: of the same session.
  RdmaPullTable(std::shared_ptr<Registrar> registrar, EventLoop& loop, remote::FinishTable& finishes)
      : PullTable(finishes), registrar_(std::move(registrar)), loop_(loop) {}

  // As remote::Bulk::pull, abandon, died.
  ripc_status pull(spi::Pull& pull, EventSet& events) noexcept;
  // Enqueues the reads of what pull() has found open to this side: together, so that they make few lots.
  void start() noexcept;
  // Whether a question or an operation with this name is one of this table's.
  static constexpr bool is_own(std::uint64_t id) noexcept { return id % 2 == 0; }
  void abandon(spi::Pull& pull) noexcept;
  void died() noexcept;

  // Responder; what a completion brings, the handler.
  void connection_made(std::shared_ptr<QueuePairConnection> connection) noexcept;
  void connection_lost(const QueuePairConnection& connection) noexcept;
  // The peer's answer to a question of this table. One that nobody asked is not looked at.
  void answered(const QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // The peer lets an item be read before it was asked; or, without an address, does so no more.
  void offered(const QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // A read of this table has ended. False: it is none of this table's.
  bool read_done(const QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept;
  // The connection has refused a read for want of room, and now it has some.
  void room(const QueuePairConnection& connection) noexcept;

  // Something waits for a connection.
  bool has_backlog() const noexcept;
  // Something is under way.
  bool busy() const noexcept;
  // Items that the peer has offered and nobody has pulled; whether this is one.
  std::size_t offers() const noexcept;
  bool is_offered(const wire::Descriptor& item) const noexcept;

 private:
  using Step = RdmaPull::Step;
  // What the peer offered, and nobody has pulled so far.
  struct OfferedItem {
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
    std::uint64_t offset;
    std::uint32_t length;
    bool ends_lot;  // the one that has the completion
  };
  // One completion, and so one wake-up, is for a lot of reads. The device works on one lot while the next one waits
  // behind it, as soon as that is as large; what is to be read meanwhile makes the third. So who reads one item at a
  // time has it at once, and who has many under way is woken for several of them.
  static constexpr std::size_t kLots = 2;
  static constexpr std::uint64_t kLotBytes = std::uint64_t{4} << 20;
  static constexpr std::size_t kLotReads = 8;

  void open(const EntryPointer& entry, std::uint64_t remote, std::uint32_t remote_key, bool ends_key) noexcept;
  bool take_offer(const EntryPointer& entry) noexcept;
  void ask(const EntryPointer& entry) noexcept;
  void ask_all() noexcept;
  void read_some() noexcept;
  bool has_ready(std::uint64_t bytes) const noexcept;
  bool read_lot() noexcept;
  void take_back(const EntryPointer& entry, const Operation& operation) noexcept;
  void restart(RdmaPull& entry) noexcept;
  void settle(RdmaPull& entry) noexcept;
  void end(RdmaPull& entry, ripc_status status) noexcept;

  const std::shared_ptr<Registrar> registrar_;
  EventLoop& loop_;
  std::condition_variable changed_;  // a read has ended
  std::shared_ptr<QueuePairConnection> connection_;
  std::deque<OfferedItem> offers_;                             // the oldest first; at most kOffers
  std::unordered_map<std::uint64_t, EntryPointer> questions_;  // by their ids
  std::unordered_map<std::uint64_t, Read> reads_;              // likewise
  std::size_t lots_ = 0;                                       // under way
  std::uint64_t reading_ = 0;                                  // bytes that are under way
  std::deque<EntryPointer> ready_;                             // have something to read; taken in turns
  std::uint64_t next_id_ = 2;                                  // even: pulls
};

}  // namespace ripc::internal::verbs
