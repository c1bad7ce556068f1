// SPDX-License-Identifier: Apache-2.0
// Registers memory with a device. Two kinds of memory stay mapped until somebody announces their end: the pool's
// arenas, and ranges that the application has registered. The registrar registers these once, at their first use, and
// keeps them until that end. It registers all other memory for one use only, because nobody reports when it is
// unmapped. A registration that outlives its mapping would go on showing pages that nobody sees any more.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.hpp"
#include "memory/pool.hpp"
#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

// One registration. Immutable; any thread.
class Region {
 public:
  Region(DevicePointer device, ibv_mr* mr) noexcept : device_(std::move(device)), mr_(mr) {}
  ~Region() { (void)device_->library->dereg_mr(mr_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const Device* device() const noexcept { return device_.get(); }
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
  Registrar(DevicePointer device, memory::Pool& pool)
      : device_(std::move(device)), pool_(pool), has_windows_(device_->windows) {}

  // The region of an arena; registers the arena the first time. RIPC_NO_MEMORY (the limit of locked memory; this arena
  // is not tried again), RIPC_SYSTEM.
  Result<RegionPointer> arena(const memory::Arena& arena);
  // A new registration of this range only, with this access. RIPC_CANCELLED: the memory does not allow this access.
  // Other statuses as above.
  Result<RegionPointer> range(const void* data, std::size_t size, unsigned access);
  // The region to which to bind a window that opens the range, or a part of it, on a device that has windows. By itself
  // it opens nothing to peers. `arena`: the pool's arena that contains the range; null: none. Statuses as for range().
  Result<RegionPointer> for_window(const void* data, std::size_t size, const memory::Arena* arena);
  // For RDMA that this process starts: reads into the memory if `writable`, else writes out of it.
  Result<LocalMemory> local(const void* data, std::size_t size, bool writable);
  // Lets the device read from a lease, without a separate registration. No region: this is not a lease, or its arena is
  // more than may be locked.
  LocalMemory leased(const void* data, std::size_t size);
  // The pool freed the arena; the last registration of the range has ended. Regions in use end with their use.
  void arena_gone(std::uint32_t id) noexcept;
  void registration_gone(std::span<const std::byte> range) noexcept;

  const DevicePointer& device() const noexcept { return device_; }
  // Whether memory is opened by windows. False once the device has refused to bind one.
  bool has_windows() const noexcept { return has_windows_.load(std::memory_order_relaxed); }
  void give_up_windows() noexcept { has_windows_.store(false, std::memory_order_relaxed); }

 private:
  // An arena, or memory that the application has registered. An arena may lie where an earlier one did; the number
  // tells them apart.
  struct Extent {
    std::uint32_t arena = 0;  // 0: the application's
    const std::byte* start = nullptr;
    std::size_t size = 0;
    friend auto operator<=>(const Extent&, const Extent&) = default;  // NOLINT(modernize-use-nullptr): takes <=> for it
  };
  // A part of an extent that is registered by itself.
  struct Part {
    Extent of;
    const void* data;
    std::size_t size;
    RegionPointer region;
  };
  static constexpr std::size_t kParts = 64;

  ibv_mr* make(const void* data, std::size_t size, unsigned access) noexcept;
  Result<RegionPointer> kept(const void* data, std::size_t size, const memory::Arena* arena, bool may_be_whole);
  Result<RegionPointer> whole(const Extent& extent);
  Result<RegionPointer> part(const Extent& extent, const void* data, std::size_t size);
  template <typename Is>
  void gone(Is&& is) noexcept;
  void drop_parts() noexcept;
  unsigned own_access() const noexcept;

  const DevicePointer device_;
  memory::Pool& pool_;
  std::atomic<bool> has_windows_;
  // Taken before parts_mutex_ and the pool's lock. Held from the look-up of what the application registered until its
  // region is stored, so that registration_gone() finds memory that is unregistered meanwhile.
  std::mutex mutex_;
  std::map<Extent, RegionPointer> wholes_;  // under mutex_; null: it is more than may be locked
  std::mutex parts_mutex_;
  std::list<Part> parts_;  // under parts_mutex_; the one used last is the last; at most kParts
};

// The registrar of the device where a session is now. Any thread.
class PresentRegistrar {
 public:
  explicit PresentRegistrar(std::shared_ptr<Registrar> registrar) noexcept : registrar_(std::move(registrar)) {}
  std::shared_ptr<Registrar> get() const noexcept {
    const std::lock_guard lock(mutex_);
    return registrar_;
  }
  void set(std::shared_ptr<Registrar> registrar) noexcept {
    const std::lock_guard lock(mutex_);
    registrar_.swap(registrar);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Registrar> registrar_;
};

}  // namespace ripc::internal::verbs
