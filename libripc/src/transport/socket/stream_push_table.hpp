// SPDX-License-Identifier: Apache-2.0
// The pushes that this side of a session has under way into return buffers of the peer.
//
// Any thread may call anything, unless a line says otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "remote/bulk/access.hpp"
#include "transport/socket/bulk_connection.hpp"
#include "wire/packet.hpp"

namespace ripc::socket {

class OutgoingPush {
 public:
  OutgoingPush(const wire::Grant& grant, spi::Bytes bytes, std::uint64_t id) noexcept
      : grant_(grant), bytes_(bytes), id_(id) {}

  // The bytes, while it goes on.
  Reading read(std::uint64_t offset, std::uint64_t length) noexcept;
  // Afterwards nothing reads the bytes. The first one counts.
  void end(ripc_status status) noexcept;
  // Its outcome; ends it with RIPC_UNSUPPORTED when it makes no progress for `patience`. Runs the loop if this is its
  // thread.
  ripc_status wait(EventLoop& loop, Nanoseconds patience) noexcept;
  Job job(std::shared_ptr<OutgoingPush> self) const noexcept;
  std::uint64_t id() const noexcept { return id_; }

 private:
  ripc_status status() const noexcept { return status_.load(std::memory_order_acquire); }

  const wire::Grant grant_;
  const spi::Bytes bytes_;
  const std::uint64_t id_;
  std::mutex mutex_;  // held while the bytes are read
  std::condition_variable ended_;
  std::atomic<ripc_status> status_{RIPC_PENDING};
  std::atomic<std::uint64_t> reads_{0};
};

class StreamPushTable {
 public:
  // null after died(). Throws std::bad_alloc.
  std::shared_ptr<OutgoingPush> open(const wire::Grant& grant, spi::Bytes bytes);
  void close(const OutgoingPush& push) noexcept;

  // Sends it there; false if that connection is lost.
  bool place(const OutgoingPush& push, BulkConnection& connection) noexcept;
  // The same for all that have no connection.
  void place_all(BulkConnection& connection) noexcept;
  // There will be no connection for those that have none.
  void no_connection() noexcept;
  void connection_lost(const BulkConnection& connection) noexcept;
  void died() noexcept;

  // The peer's answer, over the connection that it came on.
  void answered(const BulkConnection& connection, const wire::bulk::Frame& frame) noexcept;
  // Something waits for a connection.
  bool has_backlog() const noexcept;

 private:
  struct Entry {
    std::shared_ptr<OutgoingPush> push;
    const BulkConnection* connection = nullptr;
  };
  bool place(Entry& entry, BulkConnection& connection) noexcept;

  mutable std::mutex mutex_;  // taken before a push's
  bool dead_ = false;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace ripc::socket
