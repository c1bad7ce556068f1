// SPDX-License-Identifier: Apache-2.0
// A remote key lets one peer read or write one range of this process's memory by RDMA over one connection. Once it has
// ended, the device refuses the key, even for requests that are still on their way.
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
  // Makes a key with a type 2 window on the region; the caller binds the window with key() afterwards. RIPC_NO_MEMORY,
  // RIPC_SYSTEM. `connection`: the one that the peer uses and `windows` belongs to.
  static Result<std::shared_ptr<RemoteKey>> by_window(RegionPointer region,
                                                      const std::shared_ptr<MemoryWindowPool>& windows,
                                                      const void* connection);
  // Makes a key with a registration that covers only the range.
  static std::shared_ptr<RemoteKey> by_region(RegionPointer region, const void* connection);
  ~RemoteKey() { end(); }

  // Any thread. Whether it has not ended; the second also checks that it belongs to this connection.
  bool is_open() noexcept {
    const std::lock_guard lock(mutex_);
    return region_ != nullptr;
  }
  bool is_open(const void* connection) noexcept { return connection_ == connection && is_open(); }
  void end() noexcept override;
  // Any thread. Call it when this side's device reports that the peer has ended the key: its window is invalid.
  void invalidated() noexcept;

  // Whether the key has a window, and so the peer can end it.
  bool has_window() const noexcept { return windows_ != nullptr; }
  std::uint32_t key() const noexcept { return key_; }
  // For the binder, before anyone else knows the key. The window stays until the device has this request.
  void is_bound_by(std::weak_ptr<QueuePairConnection> connection, std::uint64_t request) noexcept {
    binder_ = std::move(connection);
    bind_ = request;
  }
  // For its binder; null: the key no longer has a window.
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
