// SPDX-License-Identifier: Apache-2.0
// The pushes that this side of a session has under way into return buffers of the peer. The table keeps what does not
// depend on what carries the bytes. A push is not repeated: when its connection is lost, the reply tells the requester
// to pull. Pushes need no copy into the pool: over sockets, pulls instead took 1.1 to 4.4 times as long
// (docs/performance/long-messages.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/event_loop.hpp"
#include "remote/bulk/frame_sender.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::remote {

// One push. Each backend derives its own class.
class OutgoingPush {
 public:
  OutgoingPush(const wire::Grant& grant, spi::Bytes bytes, std::uint64_t id) noexcept
      : grant_(grant), bytes_(bytes), id_(id) {}

  std::uint64_t id() const noexcept { return id_; }
  bool is_pending() const noexcept { return status() == RIPC_PENDING; }
  // Any. Afterwards nothing reads the bytes under the lock. Only the first call counts.
  void end(ripc_status status) noexcept;
  // The pusher. Waits for the outcome; ends the push with RIPC_UNSUPPORTED when it makes no progress for `patience`.
  // Runs the loop if called in the loop's thread.
  ripc_status wait(EventLoop& loop, Nanoseconds patience) noexcept;
  // Under the table's lock. Whether some of its bytes were sent since the last call.
  bool has_moved() noexcept {
    const std::uint64_t progress = progress_.load(std::memory_order_relaxed);
    return progress != std::exchange(looked_at_, progress);
  }

  // Under the table's lock: what it goes over; null: it waits for a connection.
  const FrameSender* connection = nullptr;

 protected:
  ~OutgoingPush() = default;
  ripc_status status() const noexcept { return status_.load(std::memory_order_acquire); }
  void note_progress() noexcept { progress_.fetch_add(1, std::memory_order_relaxed); }

  const wire::Grant grant_;
  const spi::Bytes bytes_;
  const std::uint64_t id_;
  std::mutex mutex_;  // taken after the table's; held while this process reads the bytes

 private:
  std::condition_variable ended_;
  std::atomic<ripc_status> status_{RIPC_PENDING};
  std::atomic<std::uint64_t> progress_{0};
  std::uint64_t looked_at_ = 0;
};

// Any thread may call anything, unless a line says otherwise.
template <typename Push>
class PushTable {
 public:
  // Ends the pushes that have no connection, because there will be none.
  void no_connection() noexcept {
    end_all(RIPC_UNSUPPORTED, [](const Push& push) { return push.connection == nullptr; });
  }
  // Whether a push waits for a connection.
  bool has_backlog() const noexcept {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(
        entries_, [](const auto& entry) { return entry.second->connection == nullptr && entry.second->is_pending(); });
  }
  // Whether a push is under way.
  bool busy() const noexcept {
    const std::lock_guard lock(mutex_);
    return !entries_.empty();
  }
  // For the watch for silent connections: whether a push on this one has stopped moving, so that an answer is due.
  bool is_owed(const FrameSender& connection) noexcept {
    const std::lock_guard lock(mutex_);
    bool is_owed = false;
    for (auto& [id, push] : entries_) {
      if (push->connection == &connection && push->is_pending() && !push->has_moved()) is_owed = true;
    }
    return is_owed;
  }

 protected:
  template <typename Which>
  void end_all(ripc_status status, Which&& which) noexcept {
    const std::lock_guard lock(mutex_);
    for (auto& [id, push] : entries_) {
      if (which(*push)) push->end(status);
    }
  }
  void close(const Push& push) noexcept {
    const std::lock_guard lock(mutex_);
    entries_.erase(push.id());
  }

  mutable std::mutex mutex_;  // taken before a push's
  bool dead_ = false;
  std::uint64_t next_id_ = 1;  // odd: even ones name pulls
  std::unordered_map<std::uint64_t, std::shared_ptr<Push>> entries_;
};

}  // namespace ripc::internal::remote
