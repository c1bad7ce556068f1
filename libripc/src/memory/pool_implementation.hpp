// SPDX-License-Identifier: Apache-2.0
// The inside of the pool. pool.cpp has the leases, registrations and holds; pool_growth.cpp creates and frees arenas.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "memory/block_allocator.hpp"
#include "memory/pool.hpp"
#include "memory/pool_arena.hpp"
#include "memory/registrations.hpp"
#include "memory/slab_allocator.hpp"

namespace ripc::internal::memory {

struct Pool::Implementation {
  using Lock = std::unique_lock<std::mutex>;

  explicit Implementation(std::uint64_t limit_bytes) noexcept : limit(limit_bytes), slabs(blocks) {}

  // Call each of these functions with the mutex locked. Those that take the lock may release it meanwhile.

  // ---- Leases (pool.cpp) ----
  Result<std::byte*> lease(Lock& lock, std::size_t size);
  Result<std::byte*> lease_pooled(Lock& lock, std::size_t size);
  Result<std::byte*> lease_own_arena(Lock& lock, std::size_t size);
  Piece take_piece(std::size_t size);
  // Makes the piece free again. Its lease has ended and nobody holds it.
  void free_piece(const Piece& piece) noexcept;
  // Ends the lease; the piece becomes free as soon as nobody holds it.
  void end_lease(const Piece& piece) noexcept;
  Piece held_piece(const Hold& hold) const noexcept;
  void end_hold(const Hold& hold) noexcept;

  // ---- Lookup (pool.cpp) ----
  // The arena with the highest address that starts at or below this one; null if there is none.
  PoolArena* arena_below(std::uintptr_t address) const noexcept;
  Piece piece_of(const void* address) const noexcept;
  // Whether the range has any byte in an arena. It is not empty and does not wrap around.
  bool touches_arena(const void* data, std::size_t size) const noexcept;

  // ---- Arenas (pool_growth.cpp) ----
  // Adds an arena of `largest` bytes if the limit allows that after unused arenas were freed. Else the arena is
  // smaller, but at least `smallest` bytes. RIPC_AGAIN: something changed, so the caller looks for room in the existing
  // arenas again. RIPC_NO_MEMORY and `at_limit`: there is no room. Else the status with which creating the arena
  // failed.
  Result<PoolArena*> grow(Lock& lock, std::size_t smallest, std::size_t largest, bool for_one_lease, bool& at_limit);
  // The same for a normal arena. No other thread adds a normal arena meanwhile.
  Result<PoolArena*> grow_alone(Lock& lock, std::size_t smallest, bool& at_limit);
  ripc_status make_room(Lock& lock, std::size_t smallest, std::size_t largest) noexcept;
  std::uint64_t unused_bytes() const noexcept;
  PoolArena* pick_unused(std::uint64_t missing) const noexcept;
  void destroy_arena(Lock& lock, PoolArena& arena) noexcept;
  Status limit_reached(std::size_t size) const;

  mutable std::mutex mutex;
  std::condition_variable changed;  // `growing` or `busy` fell

  std::map<const void*, std::function<void(std::uint32_t)>> arena_observers;  // for freed arenas
  std::function<void(std::span<std::byte>)> registration_observer;            // for registrations that have ended
  std::function<void()> hold_ender;                                           // ends holds that nobody needs any more

  const std::uint64_t limit;
  std::uint64_t reserved = 0;       // bytes of arenas, including those being created or freed
  std::uint32_t busy = 0;           // threads that create or free an arena, with the mutex released
  bool growing = false;             // a thread is adding a normal arena
  std::uint32_t next_arena_id = 1;  // 0: all are used up

  std::vector<std::unique_ptr<PoolArena>> arenas;  // by address
  UnusedArenas unused;                             // arenas of one lease that have no lease now
  BlockAllocator blocks;
  SlabAllocator slabs;
  Registrations registrations;

  std::uint64_t leased = 0;
  std::uint64_t leases = 0;
  std::uint64_t reuses = 0;
  std::uint64_t releases = 0;
  std::uint64_t deferred_releases = 0;
  std::uint64_t failures = 0;
  std::uint64_t huge_page_arenas = 0;
  std::uint64_t registration_hits = 0;
};

}  // namespace ripc::internal::memory
