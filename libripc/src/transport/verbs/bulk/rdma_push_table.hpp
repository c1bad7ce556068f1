// SPDX-License-Identifier: Apache-2.0
// The pushes of one session over RDMA: asks for a remote key of each return buffer, writes the bytes, and tells the
// peer when all have been written.
//
// Any thread may call anything, unless a line says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>

#include "base/event_loop.hpp"
#include "remote/bulk/push_table.hpp"
#include "transport/verbs/bulk/queue_pair_connection.hpp"

namespace ripc::internal::verbs {

// The table's lock guards everything that OutgoingPush does not guard.
class RdmaPush final : public remote::OutgoingPush {
 public:
  enum class Step : std::uint8_t { waiting, asked, writing, announced, answered };
  using OutgoingPush::note_progress;
  using OutgoingPush::OutgoingPush;

  const wire::Grant& grant() const noexcept { return grant_; }
  spi::Bytes bytes() const noexcept { return bytes_; }

  std::shared_ptr<QueuePairConnection> over;  // null: it waits for a connection
  LocalMemory memory;                         // the bytes, as registered with that connection's device
  Step step = Step::waiting;
  ripc_status answer = RIPC_PENDING;  // the peer's
  std::uint64_t remote = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t next = 0;  // the first byte for which no write was posted
  std::size_t writes = 0;  // under way
};

class RdmaPushTable : public remote::PushTable<RdmaPush> {
 public:
  RdmaPushTable(const PresentRegistrar& registrar, EventLoop& loop, Nanoseconds patience)
      : registrar_(registrar), loop_(loop), patience_(patience) {}

  // Like remote::Bulk::push. Calls `wanted`, without locks held, if there is no connection yet.
  template <typename Wanted>
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes, Wanted&& wanted) noexcept try {
    const PushPointer push = begin(grant, bytes);
    if (!push) return RIPC_PEER_DEAD;
    if (needs_connection(*push)) wanted();
    return wait(*push);
  } catch (const std::bad_alloc&) {
    return RIPC_UNSUPPORTED;
  }
  void died() noexcept;

  // Responder. Sets the connection that pushes use from now on; those that wait start at once. The caller flushes it.
  void place_all(const std::shared_ptr<QueuePairConnection>& connection) noexcept;
  void connection_lost(const QueuePairConnection& connection) noexcept;
  // The peer has answered the question for a remote key. False: no push asked it.
  bool answered(const QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // The peer says how the push ended.
  void pushed(const QueuePairConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // A write of this table has ended.
  void write_done(const QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept;

 private:
  using Step = RdmaPush::Step;
  using PushPointer = std::shared_ptr<RdmaPush>;

  // Throws std::bad_alloc.
  PushPointer begin(const wire::Grant& grant, spi::Bytes bytes);
  bool needs_connection(const RdmaPush& push) const noexcept;
  ripc_status wait(RdmaPush& push) noexcept;
  std::shared_ptr<QueuePairConnection> connection() const noexcept;
  static ripc_status find_memory(RdmaPush& push, Registrar& registrar) noexcept;
  void place(RdmaPush& push) noexcept;
  void write_some(RdmaPush& push) noexcept;
  void tell(RdmaPush& push) noexcept;
  void settle(RdmaPush& push) noexcept;
  static wire::bulk::Frame frame_of(const RdmaPush& push, wire::bulk::Type type) noexcept;

  const PresentRegistrar& registrar_;
  EventLoop& loop_;
  const Nanoseconds patience_;
  std::shared_ptr<QueuePairConnection> connection_;
  std::unordered_map<std::uint64_t, PushPointer> writes_;  // by the id of the operation
};

}  // namespace ripc::internal::verbs
