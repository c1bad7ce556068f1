// SPDX-License-Identifier: Apache-2.0
// The pool of registered memory: leases over memfd-backed arenas, registrations of foreign memory, and lookup by
// address. Holds keep memory alive while a transfer needs it.
//
// Threads: every function may be called from any thread. Lease and release hold one mutex for a few instructions.
// Arenas are rarely created or freed, and then without the mutex. A thread that finds no room while another thread is
// creating or freeing an arena waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/status.hpp"
#include "memory/residence.hpp"

namespace ripc::internal::memory {

inline constexpr std::size_t kArenaSize = std::size_t{64} << 20;  // normal arenas: 64 MiB of address space
inline constexpr std::size_t kArenaAlignment = std::size_t{2} << 20;
inline constexpr std::size_t kLargestPooled = std::size_t{32} << 20;  // larger leases get an arena of their own

// One memfd with its mapping. Immutable once made; shared by the pool and the objects that hand it to peers.
struct Arena {
  std::uint32_t id;  // unique in the context for its lifetime, never reused; from 1
  int fd;            // sealed: a process that receives it can map it for reading only, at its full size
  std::byte* base;
  std::size_t size;
  bool huge_pages;
};

// Keeps the memory of one transfer alive: a pool lease that is released while held is freed when its last hold ends.
// Move-only; the destructor ends the hold. Any thread.
class Hold {
 public:
  Hold() noexcept = default;
  Hold(Hold&& other) noexcept : place_(std::exchange(other.place_, {})) {}
  Hold& operator=(Hold&& other) noexcept {
    Hold taken(std::move(other));
    std::swap(place_, taken.place_);
    return *this;
  }
  ~Hold() { reset(); }
  void reset() noexcept;
  explicit operator bool() const noexcept { return place_.owner != nullptr; }

  // What a transport needs to know to expose the bytes.
  const Arena* arena() const noexcept { return place_.arena; }     // nullptr: foreign memory. Valid while held
  std::uint64_t offset() const noexcept { return place_.offset; }  // of the range in the arena
  std::size_t lease_size() const noexcept {
    return place_.lease_size;
  }  // of the lease that the range is part of; 0: foreign
  // The residence of the range, which can be pinned only while it is held.
  const Residence& residence() const noexcept { return place_.residence; }

 private:
  friend class Pool;
  struct Place {
    class Pool* owner = nullptr;
    const Arena* arena = nullptr;
    std::uint64_t offset = 0;
    std::size_t lease_size = 0;
    Residence residence;
  };
  Place place_;
};

class Pool {
 public:
  // limit: the most bytes of arena memory. Arenas are smaller than kArenaSize where the limit demands it; a limit below
  // 64 KiB leaves no room for any lease.
  explicit Pool(std::uint64_t limit);
  ~Pool();  // every Hold must be gone
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // At least `size` bytes (0 counts as 1), aligned to 4096 from 4 KiB on, else to 64. Contents are undefined. The lease
  // ends where `size` ends: bytes past it belong to nobody. RIPC_NO_MEMORY (the limit, even after unused memory was
  // freed and old holds were looked for), or the status with which creating an arena failed.
  Result<std::byte*> lease(std::size_t size);
  // Ends a lease at once for find() and hold(); the memory is used again when the last hold is gone.
  // RIPC_INVALID_ARGUMENT if `data` is not the start of a lease.
  Status release(void* data);
  // Does the same for the lease that the hold is on, unless the lease has already ended.
  void release(const Hold& hold) noexcept;

  // Registrations are counted per exact range. Ranges may overlap, and may lie inside one lease. RIPC_INVALID_ARGUMENT:
  // null, empty, or partly pool memory.
  Status register_memory(void* data, std::size_t size);
  // Removes one registration of the range that starts at `data`; if there are several ranges, of the smallest. Holds on
  // it stay valid objects (their memory is the application's), but nobody can pin them any more. Waits until existing
  // pins end. *ended (`ended` may be null) gets the range if that was its last registration, else an empty one.
  // RIPC_INVALID_ARGUMENT if no registered range starts there.
  Status unregister_memory(void* data, std::span<std::byte>* ended = nullptr);

  // The lease that contains `address`, with the size that was asked for; else the smallest registration that contains
  // it. RIPC_INVALID_ARGUMENT if there is none.
  Result<std::span<std::byte>> find(const void* address) const;

  // The smallest registration that contains these bytes; empty: none does.
  std::span<std::byte> registration_of(const void* data, std::size_t size) const noexcept;

  // Takes a hold on [data, data+size) for a transfer. The range must lie inside one lease (then it is pooled) or be
  // foreign memory. An unregistered range is held as foreign memory too. Empty ranges are allowed anywhere; they hold
  // the lease they start in, if any. RIPC_INVALID_ARGUMENT if it starts in a lease and runs past its end, if the lease
  // was already released, or if the range touches pool memory in any other way.
  Result<Hold> hold(const void* data, std::size_t size);

  // A copy of these bytes (at least one), in a separate lease that ends with the hold. The errors of lease().
  Result<Hold> copy(std::span<const std::byte> bytes);

  // A lease of `size` bytes that ends with the last copy of the pointer. The pool must outlive the pointer. The errors
  // of lease().
  Result<std::shared_ptr<std::byte>> share(std::size_t size);

  // Fills everything but `size`. Now: reserved (bytes of arenas), leased (bytes asked for in leases that are not freed
  // yet), arenas, huge_page_arenas (of 2 MiB pages reserved by the administrator), registrations (different ranges).
  // Since the start: leases, reuses (leases that did not have to create an arena), releases, deferred_releases
  // (releases that waited for a hold), failures (of lease), registration_hits (registrations of ranges that were
  // already registered).
  void fill_statistics(ripc_pool_statistics& statistics) const;

  // Sets a function that is called with the id of each freed arena, in the thread that caused it, with no lock held.
  // There is one for each owner. Set it before other threads use the pool; an empty function removes it.
  void set_arena_observer(const void* owner, std::function<void(std::uint32_t)> observer);
  // The same, but there is only one. It is called with each range whose last registration has ended, once
  // registration_of() no longer finds it.
  void set_registration_observer(std::function<void(std::span<std::byte>)> observer);

  // Sets a function that ends holds that nobody needs any more. lease() calls it before it fails for lack of memory, in
  // its thread, with no lock of the pool held. Set it before other threads use the pool.
  void set_hold_ender(std::function<void()> ender);

 private:
  friend class Hold;
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ripc::internal::memory
