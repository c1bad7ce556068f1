// SPDX-License-Identifier: Apache-2.0
// The type 2 memory windows of one connection. One that the peer has invalidated is bound again, by the next of its
// keys: to make and to unmake one are system calls. A window has 256 keys; it goes before one of them would come again,
// so that a key that has ended opens nothing later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

// Any thread.
class MemoryWindowPool {
 public:
  // Keys of one window, all but the one that it was made with.
  static constexpr std::uint32_t kKeys = 255;

  // `made` counts those that are made.
  MemoryWindowPool(DevicePointer device, std::shared_ptr<std::atomic<std::uint64_t>> made) noexcept
      : device_(std::move(device)), made_(std::move(made)) {}
  ~MemoryWindowPool();

  struct Window {
    ibv_mw* window = nullptr;
    std::uint32_t key = 0;   // that it is to be bound by, and never was
    std::uint32_t used = 0;  // how many of its keys, this one included
  };
  // One that is not bound; it is the caller's, which ends it by give_back() or unmake(). RIPC_NO_MEMORY, RIPC_SYSTEM.
  Result<Window> take();
  // The device says that it is bound no more.
  void give_back(const Window& window) noexcept;
  // Bound or not: when it has returned, the device refuses the key.
  static void unmake(const Window& window) noexcept;

 private:
  static constexpr std::size_t kMostFree = 64;

  const DevicePointer device_;
  const std::shared_ptr<std::atomic<std::uint64_t>> made_;
  std::mutex mutex_;
  std::vector<Window> free_;  // at most kMostFree; with the key that was their last one
};

}  // namespace ripc::internal::verbs
