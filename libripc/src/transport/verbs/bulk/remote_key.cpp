// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/remote_key.hpp"

#include <utility>

#include "transport/verbs/bulk/queue_pair_connection.hpp"

namespace ripc::internal::verbs {

Result<std::shared_ptr<RemoteKey>> RemoteKey::by_window(RegionPointer region,
                                                        const std::shared_ptr<MemoryWindowPool>& windows,
                                                        const void* connection) {
  const Result<MemoryWindowPool::Window> window = windows->take();
  if (!window.ok()) return window.status();
  return std::shared_ptr<RemoteKey>(new RemoteKey(std::move(region), windows, *window, connection, window->key));
}

std::shared_ptr<RemoteKey> RemoteKey::by_region(RegionPointer region, const void* connection) {
  const std::uint32_t key = region->remote_key();
  return std::shared_ptr<RemoteKey>(new RemoteKey(std::move(region), nullptr, {}, connection, key));
}

void RemoteKey::end() noexcept {
  if (window() != nullptr) {
    // A request that the device does not have yet may need the window.
    if (const auto binder = binder_.lock()) binder->settle(bind_);
  }
  const std::lock_guard lock(mutex_);
  if (window_.window != nullptr) MemoryWindowPool::unmake(std::exchange(window_, {}));
  region_.reset();
}

void RemoteKey::invalidated() noexcept {
  const std::lock_guard lock(mutex_);
  if (window_.window == nullptr) return;
  windows_->give_back(std::exchange(window_, {}));
  region_.reset();
}

}  // namespace ripc::internal::verbs
