// SPDX-License-Identifier: Apache-2.0
// A remote key: what lets one peer read or write one range of this process's memory, by RDMA over one connection. When
// it has ended, the device refuses the key, whatever is still on its way.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "remote/bulk/access.hpp"
#include "transport/verbs/bulk/memory_window_pool.hpp"
#include "transport/verbs/device/registrar.hpp"

namespace ripc::internal::verbs {

class QueuePairConnection;

class RemoteKey final : public remote::RemoteAccess {
 public:
  // By a type 2 window on the region, which the caller binds with key() afterwards. RIPC_NO_MEMORY, RIPC_SYSTEM.
  // `connection`: that the peer comes over, and `windows` are of.
  static Result<std::shared_ptr<RemoteKey>> by_window(RegionPointer region,
                                                      const std::shared_ptr<MemoryWindowPool>& windows,
                                                      const void* connection);
  // By a registration that has no more than the range.
  static std::shared_ptr<RemoteKey> by_region(RegionPointer region, const void* connection);
  ~RemoteKey() { end(); }

  // Any thread. Whether it has not ended; and is of this connection.
  bool is_open() noexcept {
    const std::lock_guard lock(mutex_);
    return region_ != nullptr;
  }
  bool is_open(const void* connection) noexcept { return connection_ == connection && is_open(); }
  void end() noexcept override;
  // Any thread. This side's device says that the peer has ended it: its window is invalid.
  void invalidated() noexcept;

  // Whether the peer can end it.
  bool has_window() const noexcept { return windows_ != nullptr; }
  std::uint32_t key() const noexcept { return key_; }
  // For the binder, before anyone else knows of it: its window stays until the device has this request.
  void is_bound_by(std::weak_ptr<QueuePairConnection> connection, std::uint64_t request) noexcept {
    binder_ = std::move(connection);
    bind_ = request;
  }
  // For its binder; null: it has none any more.
  ibv_mw* window() noexcept {
    const std::lock_guard lock(mutex_);
    return window_.window;
  }

 private:
  RemoteKey(RegionPointer region, std::shared_ptr<MemoryWindowPool> windows, const MemoryWindowPool::Window& window,
            const void* connection, std::uint32_t key) noexcept
      : windows_(std::move(windows)), connection_(connection), key_(key), region_(std::move(region)), window_(window) {}

  const std::shared_ptr<MemoryWindowPool> windows_;  // null: the region itself is open
  const void* const connection_;
  const std::uint32_t key_;
  std::weak_ptr<QueuePairConnection> binder_;
  std::uint64_t bind_ = 0;
  std::mutex mutex_;      // for the following
  RegionPointer region_;  // null: ended
  MemoryWindowPool::Window window_;
};

}  // namespace ripc::internal::verbs
