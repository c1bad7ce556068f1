// SPDX-License-Identifier: Apache-2.0
// Memory as a device needs to know it. A pool arena is registered once, when it is first used, and stays so until the
// pool frees it; on a device whose windows reach further than they should, so are the parts of it that are opened.
// Registrations of memory of the application are kept where the kernel tells when it is unmapped (registration_cache);
// a registration that outlives its mapping would go on showing pages that nobody sees any more. Elsewhere they are made
// for one use.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/status.hpp"
#include "memory/pool.hpp"
#include "spi/transport.hpp"
#include "transport/verbs/device/fabric.hpp"
#include "transport/verbs/device/registration_cache.hpp"

namespace ripc::verbs {

// One registration. Immutable; any thread.
class Region {
 public:
  Region(DevicePointer device, ibv_mr* mr) noexcept : device_(std::move(device)), mr_(mr) {}
  ~Region() { (void)device_->library->dereg_mr(mr_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  ibv_mr* mr() const noexcept { return mr_; }
  std::uint32_t local_key() const noexcept { return mr_->lkey; }
  std::uint32_t remote_key() const noexcept { return mr_->rkey; }

 private:
  const DevicePointer device_;
  ibv_mr* const mr_;
};
using RegionPointer = std::shared_ptr<const Region>;

// Memory that the device may read and write on behalf of this process, as long as this lives.
struct LocalMemory {
  RegionPointer region;
  memory::Hold hold;  // of pool memory
};

// Any thread.
class Registrar {
 public:
  // `cache`: may be that of other devices too.
  Registrar(DevicePointer device, memory::Pool& pool, std::shared_ptr<RegistrationCache> cache)
      : device_(std::move(device)), pool_(pool), cache_(std::move(cache)), has_windows_(device_->windows) {}

  // What an arena is registered as; registers it if this is the first time. RIPC_NO_MEMORY (the limit of locked
  // memory; this arena is not tried again), RIPC_SYSTEM.
  Result<RegionPointer> arena(const memory::Arena& arena);
  // A new registration of this range only, with these rights. RIPC_CANCELLED: it cannot be accessed like that. Else as
  // above.
  Result<RegionPointer> range(const void* data, std::size_t size, unsigned access);
  // What a window is bound to that opens the range, or a part of it, on a device that has windows. Nothing remote by
  // itself. `arena`: the pool's that the range is of; null: none. Statuses as range().
  Result<RegionPointer> for_window(const void* data, std::size_t size, const memory::Arena* arena);
  // For RDMA of this process's own: reads into the memory if `writable`, else writes out of it.
  Result<LocalMemory> local(const void* data, std::size_t size, bool writable);
  // For the device to read out of a lease, without a registration of its own. No region: this is none, or its arena is
  // more than may be locked.
  LocalMemory leased(const void* data, std::size_t size);
  // The pool freed it.
  void arena_gone(std::uint32_t id) noexcept;

  const DevicePointer& device() const noexcept { return device_; }
  // Whether rights are given by windows. No more once the device has refused to bind one.
  bool has_windows() const noexcept { return has_windows_.load(std::memory_order_relaxed); }
  void give_up_windows() noexcept { has_windows_.store(false, std::memory_order_relaxed); }
  // Registrations made since the start: of arenas, of ranges.
  std::uint64_t arena_count() const noexcept { return arena_count_.load(std::memory_order_relaxed); }
  std::uint64_t range_count() const noexcept { return range_count_.load(std::memory_order_relaxed); }

 private:
  // A part of an arena that is registered by itself.
  struct Part {
    std::uint32_t arena;
    const void* data;
    std::size_t size;
    RegionPointer region;
  };
  static constexpr std::size_t kParts = 64;

  ibv_mr* make(const void* data, std::size_t size, unsigned access) noexcept;
  Result<RegionPointer> kept(const void* data, std::size_t size, bool exact);
  Result<RegionPointer> arena_or_part(const memory::Arena& arena, const void* data, std::size_t size);
  Result<RegionPointer> part(const memory::Arena& arena, const void* data, std::size_t size);
  void drop_parts() noexcept;
  bool was_used(const void* data, std::size_t size) noexcept;
  unsigned own_access() const noexcept;

  const DevicePointer device_;
  memory::Pool& pool_;
  const std::shared_ptr<RegistrationCache> cache_;
  std::atomic<bool> has_windows_;
  std::mutex arenas_mutex_;                                  // taken before mutex_; for the next
  std::unordered_map<std::uint32_t, RegionPointer> arenas_;  // by id; null: it is more than may be locked
  std::mutex mutex_;                                         // for the following
  std::list<Part> parts_;                                    // the one used last is the last; at most kParts
  // Ranges that were registered for one use lately.
  std::array<std::pair<const void*, std::size_t>, 64> used_{};
  std::size_t next_used_ = 0;
  std::atomic<std::uint64_t> arena_count_{0};
  std::atomic<std::uint64_t> range_count_{0};
};

}  // namespace ripc::verbs
