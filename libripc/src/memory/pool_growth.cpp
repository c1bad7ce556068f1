// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "memory/pool_implementation.hpp"

namespace ripc::internal::memory {
namespace {

constexpr const char* kArenaName = "ripc-pool";

// Called without the mutex, because it makes system calls and page tables.
Result<std::unique_ptr<PoolArena>> create_arena(std::uint32_t id, std::size_t size, bool for_one_lease) noexcept {
  try {
    auto arena = std::make_unique<PoolArena>();
    if (!for_one_lease) {
      arena->units = static_cast<std::uint32_t>(size / kUnitSize);
      arena->blocks = std::make_unique<Block[]>(arena->units);
      for (std::uint32_t unit = 0; unit < arena->units; ++unit) arena->blocks[unit].arena = arena.get();
    }
    const bool whole_huge_pages = size % kArenaAlignment == 0;
    Result<SharedMemory> memory = create_shared_memory(kArenaName, size, PeerAccess::read_only, whole_huge_pages);
    if (!memory.ok()) return memory.status();
    arena->memory = std::move(memory.value());
    arena->id = id;
    arena->fd = arena->memory.fd.get();
    arena->base = arena->memory.mapping.data();
    arena->size = size;
    arena->huge_pages = arena->memory.huge_pages;
    if (for_one_lease) {
      // Makes the node that a later release will need.
      UnusedArenas maker;
      arena->unused_node = maker.extract(maker.emplace(size, arena.get()));
    }
    return arena;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
}

}  // namespace

Result<PoolArena*> Pool::Implementation::grow(Lock& lock, std::size_t smallest, std::size_t largest, bool for_one_lease,
                                              bool& at_limit) {
  const ripc_status room = make_room(lock, smallest, largest);
  at_limit = room == RIPC_NO_MEMORY;
  if (room != RIPC_OK) return room;
  if (next_arena_id == 0) return RIPC_LIMIT;

  std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(largest, limit - reserved));
  size -= size % (size >= kArenaAlignment ? kArenaAlignment : kUnitSize);
  const std::uint32_t id = next_arena_id++;
  reserved += size;
  ++busy;
  lock.unlock();
  Result<std::unique_ptr<PoolArena>> made = create_arena(id, size, for_one_lease);
  lock.lock();
  --busy;
  changed.notify_all();
  if (!made.ok()) {
    reserved -= size;
    return made.status();
  }
  PoolArena* const arena = made.value().get();
  const auto position = std::ranges::lower_bound(arenas, arena->base, {}, &PoolArena::base);
  try {
    arenas.insert(position, std::move(made.value()));
  } catch (const std::bad_alloc&) {
    made = RIPC_NO_MEMORY;
    reserved -= size;
    return RIPC_NO_MEMORY;
  }
  if (arena->huge_pages) ++huge_page_arenas;
  if (!for_one_lease) blocks.add(*arena);
  return arena;
}

Result<PoolArena*> Pool::Implementation::grow_alone(Lock& lock, std::size_t smallest, bool& at_limit) {
  struct Growing {
    explicit Growing(Implementation& owner) noexcept : pool(owner) { pool.growing = true; }
    ~Growing() {
      pool.growing = false;
      pool.changed.notify_all();
    }
    Implementation& pool;
  } const growing_now(*this);
  return grow(lock, smallest, kArenaSize, false, at_limit);
}

ripc_status Pool::Implementation::make_room(Lock& lock, std::size_t smallest, std::size_t largest) noexcept {
  for (;;) {
    const std::uint64_t room = limit - reserved;
    if (room >= largest) return RIPC_OK;
    if (smallest > limit) return RIPC_NO_MEMORY;
    if (slabs.drop_empty()) return RIPC_AGAIN;
    // Free nothing at all unless that will be enough.
    if (room + unused_bytes() < smallest) {
      if (busy == 0) return RIPC_NO_MEMORY;
      // That thread may create or free enough.
      changed.wait(lock);
      return RIPC_AGAIN;
    }
    PoolArena* const arena = pick_unused(largest - room);
    if (arena == nullptr) return RIPC_OK;
    destroy_arena(lock, *arena);
  }
}

std::uint64_t Pool::Implementation::unused_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [size, arena] : unused) bytes += size;
  for (const auto& arena : arenas) {
    if (arena->blocks != nullptr && arena->used_units == 0) bytes += arena->size;
  }
  return bytes;
}

// Prefers the smallest arena that suffices alone, and prefers arenas of one lease to normal ones.
PoolArena* Pool::Implementation::pick_unused(std::uint64_t missing) const noexcept {
  if (!unused.empty()) {
    const auto enough = unused.lower_bound(static_cast<std::size_t>(missing));
    return enough != unused.end() ? enough->second : unused.rbegin()->second;
  }
  for (const auto& arena : arenas) {
    if (arena->blocks != nullptr && arena->used_units == 0) return arena.get();
  }
  return nullptr;
}

void Pool::Implementation::destroy_arena(Lock& lock, PoolArena& arena) noexcept {
  if (arena.blocks != nullptr) {
    blocks.remove(arena);
  } else {
    const auto [begin, end] = unused.equal_range(arena.size);
    unused.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == &arena; }));
  }
  if (arena.huge_pages) --huge_page_arenas;
  const auto position = std::ranges::lower_bound(arenas, arena.base, {}, &PoolArena::base);
  std::unique_ptr<PoolArena> owned = std::move(*position);
  arenas.erase(position);
  const std::size_t size = arena.size;
  const std::uint32_t id = arena.id;

  ++busy;
  lock.unlock();
  owned.reset();
  for (const auto& [owner, observer] : arena_observers) {
    if (observer) observer(id);
  }
  lock.lock();
  --busy;
  reserved -= size;  // only now: the memory counts until it is gone
  changed.notify_all();
}

Status Pool::Implementation::limit_reached(std::size_t size) const {
  return Status(RIPC_NO_MEMORY, "The buffer pool has no room for " + std::to_string(size) +
                                    " bytes: " + std::to_string(leased) + " bytes are leased in " +
                                    std::to_string(reserved) + " reserved of at most " + std::to_string(limit) +
                                    "; release buffers, or raise pool_limit.");
}

}  // namespace ripc::internal::memory
