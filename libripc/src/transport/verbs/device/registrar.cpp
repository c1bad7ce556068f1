// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/registrar.hpp"

#include <errno.h>

#include <algorithm>
#include <new>

namespace ripc::internal::verbs {

namespace {

constexpr const char* kAdvice =
    "if it is the limit of locked memory, raise it: `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit";

}  // namespace

// Null: see errno. Parts can be registered again, so they must not use up the memory that may be locked.
ibv_mr* Registrar::make(const void* data, std::size_t size, unsigned access) noexcept {
  const auto attempt = [&] {
    ibv_mr* const mr = device_->library->reg_mr(device_->pd, const_cast<void*>(data), size, static_cast<int>(access));
    // The kernel reports EPERM if the limit is 0.
    if (mr == nullptr && errno == EPERM) errno = ENOMEM;
    return mr;
  };
  ibv_mr* const mr = attempt();
  if (mr != nullptr || errno != ENOMEM) return mr;
  drop_parts();
  return attempt();
}

// No remote access: a window, or a registration of the range, opens what a peer may see.
unsigned Registrar::own_access() const noexcept {
  return IBV_ACCESS_LOCAL_WRITE | (device_->windows ? unsigned{IBV_ACCESS_MW_BIND} : 0u);
}

Result<RegionPointer> Registrar::range(const void* data, std::size_t size, unsigned access) {
  ibv_mr* const mr = make(data, size, access);
  if (mr == nullptr) {
    if (errno == EFAULT || errno == EINVAL) return RIPC_CANCELLED;
    return system_error(errno, "ibv_reg_mr", kAdvice);
  }
  return RegionPointer(std::make_shared<const Region>(device_, mr));
}

// ---- Kept until the memory is gone -------------------------------------------------------------------------------

Result<RegionPointer> Registrar::arena(const memory::Arena& arena) {
  const std::lock_guard lock(mutex_);
  return whole({arena.id, arena.base, arena.size});
}

// With mutex_ locked.
Result<RegionPointer> Registrar::whole(const Extent& extent) {
  const auto [entry, is_new] = wholes_.try_emplace(extent);
  if (is_new) {
    ibv_mr* const mr = make(extent.start, extent.size, own_access());
    if (mr != nullptr) {
      entry->second = std::make_shared<const Region>(device_, mr);
    } else if (errno != ENOMEM) {
      const int error = errno;
      wholes_.erase(entry);
      return system_error(error, "ibv_reg_mr", kAdvice);
    }
  }
  // Do not try again: each attempt would release the parts.
  if (!entry->second) return system_error(ENOMEM, "ibv_reg_mr", kAdvice);
  return entry->second;
}

// With mutex_ locked.
Result<RegionPointer> Registrar::part(const Extent& extent, const void* data, std::size_t size) {
  {
    const std::lock_guard lock(parts_mutex_);
    const auto found = std::ranges::find_if(
        parts_, [&](const Part& one) { return one.of == extent && one.data == data && one.size == size; });
    if (found != parts_.end()) {
      parts_.splice(parts_.end(), parts_, found);
      return RegionPointer(parts_.back().region);
    }
  }
  Result<RegionPointer> region = range(data, size, own_access());
  if (!region.ok()) return region;
  std::list<Part> oldest;  // released without the lock
  const std::lock_guard lock(parts_mutex_);
  if (parts_.size() == kParts) oldest.splice(oldest.end(), parts_, parts_.begin());
  parts_.push_back({extent, data, size, *region});
  return region;
}

// RIPC_UNSUPPORTED: neither the pool's nor registered.
Result<RegionPointer> Registrar::kept(const void* data, std::size_t size, const memory::Arena* arena,
                                      bool may_be_whole) {
  const std::lock_guard lock(mutex_);
  Extent extent;
  if (arena != nullptr) {
    extent = {arena->id, arena->base, arena->size};
  } else {
    const std::span<const std::byte> range = pool_.registration_of(data, size);
    if (range.empty()) return RIPC_UNSUPPORTED;
    extent = {0, range.data(), range.size()};
  }
  if (may_be_whole || (extent.start == data && extent.size == size)) {
    if (Result<RegionPointer> region = whole(extent); region.ok()) return region;
  }
  return part(extent, data, size);
}

Result<RegionPointer> Registrar::for_window(const void* data, std::size_t size, const memory::Arena* arena) {
  // If windows open the whole region they are bound to, the region must have no more than the range.
  Result<RegionPointer> region = kept(data, size, arena, device_->narrow_windows);
  if (region.status().code() != RIPC_UNSUPPORTED) return region;
  return range(data, size, own_access());
}

Result<LocalMemory> Registrar::local(const void* data, std::size_t size, bool writable) try {
  // The peer answers an RDMA read of iWARP by a write, and needs the right to it. So it gets no more than the range,
  // for no longer than the read.
  const bool opens_to_peer = device_->iwarp && writable;
  if (!opens_to_peer) {
    Result<memory::Hold> hold = pool_.hold(data, size);
    const memory::Arena* const arena = hold.ok() ? hold->arena() : nullptr;
    if (Result<RegionPointer> region = kept(data, size, arena, true); region.ok())
      return LocalMemory{std::move(*region), arena != nullptr ? std::move(*hold) : memory::Hold()};
  }
  unsigned access = writable ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u;
  if (opens_to_peer) access |= IBV_ACCESS_REMOTE_WRITE;
  Result<RegionPointer> region = range(data, size, access);
  if (!region.ok()) return region.status();
  return LocalMemory{std::move(*region), {}};
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

LocalMemory Registrar::leased(const void* data, std::size_t size) {
  Result<memory::Hold> hold = pool_.hold(data, size);
  if (!hold.ok() || hold->arena() == nullptr) return {};
  Result<RegionPointer> region = arena(*hold->arena());
  if (!region.ok()) return {};
  return {std::move(*region), std::move(*hold)};
}

// ---- Ends --------------------------------------------------------------------------------------------------------

void Registrar::drop_parts() noexcept {
  std::list<Part> dropped;  // released without the lock
  const std::lock_guard lock(parts_mutex_);
  dropped.swap(parts_);
}

template <typename Is>
void Registrar::gone(Is&& is) noexcept {
  std::list<Part> parts;                   // released without the locks
  std::map<Extent, RegionPointer> wholes;  // likewise
  const std::lock_guard lock(mutex_);
  const std::lock_guard parts_lock(parts_mutex_);
  for (auto next = parts_.begin(); next != parts_.end();) {
    const auto part = next++;
    if (is(part->of)) parts.splice(parts.end(), parts_, part);
  }
  for (auto next = wholes_.begin(); next != wholes_.end();) {
    const auto whole = next++;
    if (is(whole->first)) wholes.insert(wholes_.extract(whole));
  }
}

void Registrar::arena_gone(std::uint32_t id) noexcept {
  gone([&](const Extent& extent) { return extent.arena == id; });
}

void Registrar::registration_gone(std::span<const std::byte> range) noexcept {
  gone([&](const Extent& extent) { return extent == Extent{0, range.data(), range.size()}; });
}

}  // namespace ripc::internal::verbs
