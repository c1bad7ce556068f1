// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/registrar.hpp"

#include <errno.h>

#include <algorithm>

namespace ripc::verbs {

namespace {

constexpr const char* kAdvice =
    "if it is the limit of locked memory, raise it: `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit";

}  // namespace

Result<RegionPointer> Registrar::arena(const memory::Arena& arena) {
  const std::lock_guard lock(arenas_mutex_);
  const auto [entry, is_new] = arenas_.try_emplace(arena.id);
  if (is_new) {
    ibv_mr* const mr = make(arena.base, arena.size, own_access());
    if (mr != nullptr) {
      arena_count_.fetch_add(1, std::memory_order_relaxed);
      entry->second = std::make_shared<const Region>(device_, mr);
    } else if (errno != ENOMEM) {
      arenas_.erase(entry);
      return system_error(errno, "ibv_reg_mr", kAdvice);
    }
  }
  // Each attempt would let go what is kept.
  if (!entry->second) return system_error(ENOMEM, "ibv_reg_mr", kAdvice);
  return entry->second;
}

// Null: see errno. What is only kept must not use up what may be locked.
ibv_mr* Registrar::make(const void* data, std::size_t size, unsigned access) noexcept {
  const auto attempt = [&] {
    ibv_mr* const mr = device_->library->reg_mr(device_->pd, const_cast<void*>(data), size, static_cast<int>(access));
    // The kernel's word for a limit of nothing at all.
    if (mr == nullptr && errno == EPERM) errno = ENOMEM;
    return mr;
  };
  ibv_mr* const mr = attempt();
  if (mr != nullptr || errno != ENOMEM) return mr;
  (void)cache_->drop_idle();
  drop_parts();
  return attempt();
}

// Nothing remote: a window, or a registration of the range, opens what a peer may see.
unsigned Registrar::own_access() const noexcept {
  return IBV_ACCESS_LOCAL_WRITE | (device_->windows ? unsigned{IBV_ACCESS_MW_BIND} : 0u);
}

Result<RegionPointer> Registrar::range(const void* data, std::size_t size, unsigned access) {
  ibv_mr* const mr = make(data, size, access);
  if (mr == nullptr) {
    if (errno == EFAULT || errno == EINVAL) return RIPC_CANCELLED;
    return system_error(errno, "ibv_reg_mr", kAdvice);
  }
  range_count_.fetch_add(1, std::memory_order_relaxed);
  return RegionPointer(std::make_shared<const Region>(device_, mr));
}

// Whether it is not the first time, as far as that is remembered.
bool Registrar::was_used(const void* data, std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  const std::pair range(data, size);
  if (std::find(used_.begin(), used_.end(), range) != used_.end()) return true;
  used_[next_used_] = range;
  next_used_ = (next_used_ + 1) % used_.size();
  return false;
}

// RIPC_UNSUPPORTED: this memory is not kept.
Result<RegionPointer> Registrar::kept(const void* data, std::size_t size, bool exact) {
  if (const auto found = cache_->find(device_->pd, data, size, exact))
    return std::static_pointer_cast<const Region>(found);
  // To keep memory costs several registrations, which memory that is used once would never bring back.
  if (!was_used(data, size)) return RIPC_UNSUPPORTED;
  const RegistrationCache::Making making = cache_->begin(device_->pd, data, size);
  if (!making) return RIPC_UNSUPPORTED;
  Result<RegionPointer> region = range(data, size, own_access());
  if (!region.ok()) {
    cache_->abandon(making);
    return RIPC_UNSUPPORTED;
  }
  cache_->commit(making, *region);
  return region;
}

// What the pool has mapped stays mapped until it says so: nothing has to be watched.
Result<RegionPointer> Registrar::part(const memory::Arena& arena, const void* data, std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(parts_.begin(), parts_.end(),
                                    [&](const Part& one) { return one.data == data && one.size == size; });
    if (found != parts_.end()) {
      parts_.splice(parts_.end(), parts_, found);
      return RegionPointer(parts_.back().region);
    }
  }
  Result<RegionPointer> region = range(data, size, own_access());
  if (!region.ok()) return region;
  std::list<Part> oldest;  // let go without the lock
  const std::lock_guard lock(mutex_);
  if (parts_.size() == kParts) oldest.splice(oldest.end(), parts_, parts_.begin());
  parts_.push_back({arena.id, data, size, *region});
  return region;
}

Result<RegionPointer> Registrar::arena_or_part(const memory::Arena& arena, const void* data, std::size_t size) {
  Result<RegionPointer> whole = this->arena(arena);
  return whole.ok() ? std::move(whole) : part(arena, data, size);
}

void Registrar::drop_parts() noexcept {
  std::list<Part> dropped;  // let go without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(parts_);
}

Result<RegionPointer> Registrar::for_window(const void* data, std::size_t size, const memory::Arena* arena) {
  // A window that is no narrower than what it is bound to must be bound to no more than the range.
  if (arena != nullptr) return device_->narrow_windows ? arena_or_part(*arena, data, size) : part(*arena, data, size);
  Result<RegionPointer> region = kept(data, size, !device_->narrow_windows);
  return region.ok() ? std::move(region) : range(data, size, own_access());
}

Result<LocalMemory> Registrar::local(const void* data, std::size_t size, bool writable) {
  // An RDMA read of iWARP is answered by a write of the peer, which needs the right to it: then no more than the range,
  // and no longer than the read.
  const bool opens_to_peer = device_->iwarp && writable;
  if (!opens_to_peer) {
    Result<memory::Hold> hold = pool_.hold(data, size);
    if (hold.ok() && hold->arena() != nullptr) {
      Result<RegionPointer> region = arena_or_part(*hold->arena(), data, size);
      if (region.ok()) return LocalMemory{std::move(*region), std::move(*hold)};
    } else if (Result<RegionPointer> region = kept(data, size, false); region.ok()) {
      return LocalMemory{std::move(*region), {}};
    }
  }
  unsigned access = writable ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u;
  if (opens_to_peer) access |= IBV_ACCESS_REMOTE_WRITE;
  Result<RegionPointer> region = range(data, size, access);
  if (!region.ok()) return region.status();
  return LocalMemory{std::move(*region), {}};
}

LocalMemory Registrar::leased(const void* data, std::size_t size) {
  Result<memory::Hold> hold = pool_.hold(data, size);
  if (!hold.ok() || hold->arena() == nullptr) return {};
  Result<RegionPointer> region = arena(*hold->arena());
  if (!region.ok()) return {};
  return {std::move(*region), std::move(*hold)};
}

void Registrar::arena_gone(std::uint32_t id) noexcept {
  std::list<Part> parts;  // let go without the lock
  RegionPointer whole;    // likewise
  const std::lock_guard arenas_lock(arenas_mutex_);
  const std::lock_guard lock(mutex_);
  for (auto next = parts_.begin(); next != parts_.end();) {
    const auto part = next++;
    if (part->arena == id) parts.splice(parts.end(), parts_, part);
  }
  const auto found = arenas_.find(id);
  if (found == arenas_.end()) return;
  whole = std::move(found->second);
  arenas_.erase(found);
}

}  // namespace ripc::verbs
