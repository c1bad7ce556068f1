// SPDX-License-Identifier: Apache-2.0
// The right of one peer to read or write one range of this process's memory, by RDMA over one connection. When it has
// ended, the device refuses the key, whatever is still on its way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "network/access.hpp"
#include "transport/verbs/registrar.hpp"

namespace ripc::verbs {

class Right final : public network::DeviceRight {
 public:
  // By a type 2 window on the region, which the caller binds with key() afterwards. RIPC_NO_MEMORY, RIPC_SYSTEM.
  // `connection`: that the peer comes over.
  static Result<std::shared_ptr<Right>> by_window(RegionPointer region, const DevicePointer& device,
                                                  const void* connection);
  // By a registration that has no more than the range.
  static std::shared_ptr<Right> by_region(RegionPointer region, const DevicePointer& device, const void* connection);
  ~Right() { end(); }
  Right(const Right&) = delete;
  Right& operator=(const Right&) = delete;

  // Any thread. Whether it is of this connection, and has not ended.
  bool is_open(const void* connection) noexcept {
    const std::lock_guard lock(mutex_);
    return region_ != nullptr && connection_ == connection;
  }
  void end() noexcept override;

  ibv_mw* window() const noexcept { return window_; }  // null: none
  std::uint32_t key() const noexcept { return key_; }

 private:
  Right(RegionPointer region, DevicePointer device, const void* connection, ibv_mw* window, std::uint32_t key) noexcept
      : device_(std::move(device)), connection_(connection), key_(key), region_(std::move(region)), window_(window) {}

  const DevicePointer device_;
  const void* const connection_;
  const std::uint32_t key_;
  std::mutex mutex_;
  RegionPointer region_;  // null: ended
  ibv_mw* window_;
};

}  // namespace ripc::verbs
