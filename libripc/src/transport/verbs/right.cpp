// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/right.hpp"

#include <utility>

#include "transport/verbs/connection.hpp"

namespace ripc::verbs {

Result<std::shared_ptr<Right>> Right::by_window(RegionPointer region, const std::shared_ptr<Windows>& windows,
                                                const void* connection) {
  const Result<Windows::Window> window = windows->take();
  if (!window.ok()) return window.status();
  return std::shared_ptr<Right>(new Right(std::move(region), windows, *window, connection, window->key));
}

std::shared_ptr<Right> Right::by_region(RegionPointer region, const void* connection) {
  const std::uint32_t key = region->remote_key();
  return std::shared_ptr<Right>(new Right(std::move(region), nullptr, {}, connection, key));
}

void Right::end() noexcept {
  if (window() != nullptr) {
    // A request of which the device is yet to be told needs it.
    if (const auto binder = binder_.lock()) binder->settle(bind_);
  }
  const std::lock_guard lock(mutex_);
  if (window_.window != nullptr) Windows::unmake(std::exchange(window_, {}));
  region_.reset();
}

void Right::invalidated() noexcept {
  const std::lock_guard lock(mutex_);
  if (window_.window == nullptr) return;
  windows_->give_back(std::exchange(window_, {}));
  region_.reset();
}

}  // namespace ripc::verbs
