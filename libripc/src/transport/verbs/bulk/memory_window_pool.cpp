// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/memory_window_pool.hpp"

#include <errno.h>

namespace ripc::internal::verbs {

MemoryWindowPool::~MemoryWindowPool() {
  for (const Window& window : free_) unmake(window);
}

Result<MemoryWindowPool::Window> MemoryWindowPool::take() {
  Window window;
  {
    const std::lock_guard lock(mutex_);
    // Reserve room now, so that giving windows back needs no memory later.
    free_.reserve(kMostFree);
    if (!free_.empty()) {
      window = free_.back();
      free_.pop_back();
    }
  }
  if (window.window == nullptr) {
    window.window = ibv_alloc_mw(device_->pd, IBV_MW_TYPE_2);
    if (window.window == nullptr) return system_error(errno, "ibv_alloc_mw");
    window.key = window.window->rkey;
    made_->fetch_add(1, std::memory_order_relaxed);
  }
  // The device knows the window by this key until it is bound again.
  window.window->rkey = window.key;
  window.key = ibv_inc_rkey(window.key);
  ++window.used;
  return window;
}

void MemoryWindowPool::give_back(const Window& window) noexcept {
  if (window.used < kKeys) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostFree) {
      free_.push_back(window);
      return;
    }
  }
  unmake(window);
}

void MemoryWindowPool::unmake(const Window& window) noexcept { (void)ibv_dealloc_mw(window.window); }

}  // namespace ripc::internal::verbs
