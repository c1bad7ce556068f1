// SPDX-License-Identifier: Apache-2.0
// What the pool knows about its memory. All of it lives on the heap, none in the arenas: peers can read arenas, and
// stray writes of the application can hit them. The pool's mutex guards everything here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/shared_memory.hpp"
#include "memory/pool.hpp"
#include "memory/size_classes.hpp"

namespace ripc::internal::memory {

enum class LeaseState : std::uint8_t {
  free,
  leased,
  released,  // by the application, but still held
};

// A piece of memory that can be leased.
struct Lease {
  std::uint64_t size = 0;  // as asked for
  std::uint32_t holds = 0;
  std::uint16_t next_free = 0;  // in a free slot: index of the next free slot in its slab
  LeaseState state = LeaseState::free;
};

struct Block;

// A block that is divided into equal slots.
struct Slab {
  Block* block = nullptr;
  std::uint32_t slab_class = 0;
  std::uint32_t slot_size = 0;
  std::uint32_t slots = 0;
  std::uint32_t used = 0;
  std::uint32_t first_free = 0;  // valid while used < slots
  Slab* previous = nullptr;      // in the list of its class's slabs with free slots
  Slab* next = nullptr;
  std::unique_ptr<Lease[]> leases;
};

struct PoolArena;

enum class BlockKind : std::uint8_t {
  inside,  // not the first unit of its block
  free,
  leased,
  slab,
};

// One unit of a normal arena; the first unit of a block describes the block.
struct Block {
  PoolArena* arena = nullptr;
  Block* previous = nullptr;  // in the free list of its order
  Block* next = nullptr;
  std::unique_ptr<Slab> slab;
  Lease lease;
  std::uint32_t units = 0;
  BlockKind kind = BlockKind::inside;
};

using UnusedArenas = std::multimap<std::size_t, PoolArena*>;  // by size

struct PoolArena : Arena {
  SharedMemory memory;

  // A normal arena: divided into blocks.
  std::unique_ptr<Block[]> blocks;  // null: an arena of one lease
  std::uint32_t units = 0;
  std::uint32_t used_units = 0;

  // An arena of one lease.
  Lease lease;
  UnusedArenas::node_type unused_node;  // kept here while the arena is leased, so that a release never allocates

  bool contains(std::uintptr_t address) const noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(base);
    return address >= start && address - start < size;
  }
};

// The piece that contains an address.
struct Piece {
  PoolArena* arena = nullptr;
  Block* block = nullptr;   // null: an arena of one lease
  Lease* lease = nullptr;   // null: there is no piece
  std::uint64_t start = 0;  // offset in the arena

  explicit operator bool() const noexcept { return lease != nullptr; }
  // Whether the offset is inside the size that was asked for.
  bool covers(std::uint64_t offset) const noexcept { return lease != nullptr && offset - start < lease->size; }
};

// The piece at this offset of the arena: O(log of the arena's units).
Piece piece_at(PoolArena& arena, std::uint64_t offset) noexcept;

}  // namespace ripc::internal::memory
