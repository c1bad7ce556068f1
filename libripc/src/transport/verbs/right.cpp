// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/right.hpp"

#include <errno.h>

namespace ripc::verbs {

Result<std::shared_ptr<Right>> Right::by_window(RegionPointer region, const DevicePointer& device,
                                                const void* connection) {
  ibv_mw* const window = ibv_alloc_mw(device->pd, IBV_MW_TYPE_2);
  if (window == nullptr) return system_error(errno, "ibv_alloc_mw");
  const std::uint32_t key = ibv_inc_rkey(window->rkey);
  return std::shared_ptr<Right>(new Right(std::move(region), device, connection, window, key));
}

std::shared_ptr<Right> Right::by_region(RegionPointer region, const DevicePointer& device, const void* connection) {
  const std::uint32_t key = region->remote_key();
  return std::shared_ptr<Right>(new Right(std::move(region), device, connection, nullptr, key));
}

void Right::end() noexcept {
  const std::lock_guard lock(mutex_);
  if (window_ != nullptr) (void)ibv_dealloc_mw(window_);
  window_ = nullptr;
  region_.reset();
}

}  // namespace ripc::verbs
