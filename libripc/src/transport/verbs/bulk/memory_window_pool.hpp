// SPDX-License-Identifier: Apache-2.0
// The type 2 memory windows of one connection. A window that the peer has invalidated is bound again with its next key,
// because making and unmaking a window are system calls. A window has 256 keys. It is unmade before a key would be used
// twice, so that an ended key never opens anything later.
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
  // The keys of one window, except the one that it was made with.
  static constexpr std::uint32_t kKeys = 255;

  // `made` counts the windows that are made.
  MemoryWindowPool(DevicePointer device, std::shared_ptr<std::atomic<std::uint64_t>> made) noexcept
      : device_(std::move(device)), made_(std::move(made)) {}
  ~MemoryWindowPool();

  struct Window {
    ibv_mw* window = nullptr;
    std::uint32_t key = 0;   // the key to bind it with next, never used before
    std::uint32_t used = 0;  // how many of its keys, this one included
  };
  // A window that is not bound. The caller owns it, and ends it with give_back() or unmake(). RIPC_NO_MEMORY,
  // RIPC_SYSTEM.
  Result<Window> take();
  // Call it when the device says that the window is no longer bound.
  void give_back(const Window& window) noexcept;
  // The window may be bound or not. When this has returned, the device refuses the key.
  static void unmake(const Window& window) noexcept;

 private:
  static constexpr std::size_t kMostFree = 64;

  const DevicePointer device_;
  const std::shared_ptr<std::atomic<std::uint64_t>> made_;
  std::mutex mutex_;
  std::vector<Window> free_;  // at most kMostFree; each with the key that it had last
};

}  // namespace ripc::internal::verbs
