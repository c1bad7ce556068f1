// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/registrar.hpp"

#include <errno.h>

namespace ripc::verbs {

namespace {

constexpr const char* kAdvice =
    "if it is the limit of locked memory, raise it: `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit";

}  // namespace

Result<RegionPointer> Registrar::arena(const memory::Arena& arena) {
  const std::lock_guard lock(mutex_);
  if (const auto found = arenas_.find(arena.id); found != arenas_.end()) return found->second;
  // Nothing remote: a window, or a registration of the range, opens what a peer may see.
  const unsigned access = IBV_ACCESS_LOCAL_WRITE | (device_->windows ? unsigned{IBV_ACCESS_MW_BIND} : 0u);
  ibv_mr* const mr = device_->library->reg_mr(device_->pd, arena.base, arena.size, static_cast<int>(access));
  if (mr == nullptr) return system_error(errno, "ibv_reg_mr", kAdvice);
  arena_count_.fetch_add(1, std::memory_order_relaxed);
  auto region = std::make_shared<const Region>(device_, mr);
  arenas_.emplace(arena.id, region);
  return RegionPointer(std::move(region));
}

Result<RegionPointer> Registrar::range(const void* data, std::size_t size, unsigned access) {
  ibv_mr* const mr = device_->library->reg_mr(device_->pd, const_cast<void*>(data), size, static_cast<int>(access));
  if (mr == nullptr) {
    if (errno == EFAULT || errno == EINVAL) return RIPC_CANCELLED;
    return system_error(errno, "ibv_reg_mr", kAdvice);
  }
  range_count_.fetch_add(1, std::memory_order_relaxed);
  return RegionPointer(std::make_shared<const Region>(device_, mr));
}

Result<LocalMemory> Registrar::local(const void* data, std::size_t size, bool writable) {
  // An RDMA read of iWARP is answered by a write of the peer, which needs the right to it: then no more than the range.
  if (!device_->iwarp || !writable) {
    Result<memory::Hold> hold = pool_.hold(data, size);
    if (hold.ok() && hold->arena() != nullptr) {
      Result<RegionPointer> region = arena(*hold->arena());
      if (region.ok()) return LocalMemory{std::move(*region), std::move(*hold)};
    }
  }
  unsigned access = writable ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u;
  if (device_->iwarp && writable) access |= IBV_ACCESS_REMOTE_WRITE;
  Result<RegionPointer> region = range(data, size, access);
  if (!region.ok()) return region.status();
  return LocalMemory{std::move(*region), {}};
}

void Registrar::arena_gone(std::uint32_t id) noexcept {
  RegionPointer gone;  // let go without the lock
  const std::lock_guard lock(mutex_);
  const auto found = arenas_.find(id);
  if (found == arenas_.end()) return;
  gone = std::move(found->second);
  arenas_.erase(found);
}

}  // namespace ripc::verbs
