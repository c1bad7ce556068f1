// SPDX-License-Identifier: Apache-2.0
// The pushes that this side of a session has under way into return buffers of the peer: asks for the right, writes, and
// says that all is there.
//
// Any thread may call anything, unless a line says otherwise.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/event_loop.hpp"
#include "spi/transport.hpp"
#include "transport/verbs/bulk/connection.hpp"

namespace ripc::verbs {

class RdmaPushTable {
 public:
  RdmaPushTable(std::shared_ptr<Registrar> registrar, EventLoop& loop, Nanoseconds patience)
      : registrar_(std::move(registrar)), loop_(loop), patience_(patience) {}

  // As remote::Bulk::push. `wanted` is called, without locks held, if there is no connection yet.
  template <typename Wanted>
  ripc_status push(const wire::Grant& grant, spi::Bytes bytes, Wanted&& wanted) noexcept {
    const EntryPointer entry = begin(grant, bytes);
    if (!entry) return RIPC_PEER_DEAD;
    if (needs_connection(*entry)) wanted();
    return wait(*entry);
  }
  void died() noexcept;

  // Responder. The caller of the first flushes the connection.
  void connection_made(std::shared_ptr<Connection> connection) noexcept;
  void connection_lost(const Connection& connection) noexcept;
  // There will be no connection for those that have none.
  void no_connection() noexcept;
  // The peer has answered the question for a right. False: no push asked it.
  bool answered(const Connection& connection, const wire::bulk::Frame& frame) noexcept;
  // The peer says how the push ended.
  void pushed(const Connection& connection, const wire::bulk::Frame& frame) noexcept;
  // A write of this book has ended.
  void write_done(const Connection& connection, std::uint64_t id, ripc_status status) noexcept;

  // Something waits for a connection.
  bool has_backlog() const noexcept;
  // Something is under way.
  bool busy() const noexcept;

 private:
  enum class Step : std::uint8_t { waiting, asked, writing, told, answered };
  struct Entry {
    std::uint64_t id = 0;
    wire::Grant grant{};
    spi::Bytes bytes;
    LocalMemory memory;
    ripc_status status = RIPC_PENDING;
    Step step = Step::waiting;
    ripc_status answer = RIPC_PENDING;  // the peer's
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t next = 0;      // first byte that no write was posted for
    std::size_t writes = 0;      // under way
    std::uint64_t progress = 0;  // counts what happens
  };
  using EntryPointer = std::shared_ptr<Entry>;

  EntryPointer begin(const wire::Grant& grant, spi::Bytes bytes) noexcept;
  bool needs_connection(const Entry& entry) const noexcept;
  ripc_status wait(Entry& entry) noexcept;
  void place(Entry& entry) noexcept;
  void write_some(Entry& entry) noexcept;
  void tell(Entry& entry) noexcept;
  void settle(Entry& entry) noexcept;
  void end(Entry& entry, ripc_status status) noexcept;
  wire::bulk::Frame frame_of(const Entry& entry, wire::bulk::Type type) const noexcept;

  const std::shared_ptr<Registrar> registrar_;
  EventLoop& loop_;
  const Nanoseconds patience_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool dead_ = false;
  std::shared_ptr<Connection> connection_;
  std::unordered_map<std::uint64_t, EntryPointer> entries_;  // by id
  std::unordered_map<std::uint64_t, EntryPointer> writes_;   // by the id of the operation
  std::uint64_t next_id_ = 1;                                // odd: pushes
};

}  // namespace ripc::verbs
