// SPDX-License-Identifier: Apache-2.0
// A binary buddy allocator over all normal arenas; it divides them into blocks of whole units. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "memory/pool_arena.hpp"

namespace ripc::internal::memory {

class BlockAllocator {
 public:
  // Adds the arena's units as free ones. The caller keeps the arena.
  void add(PoolArena& arena) noexcept;
  // Forgets an arena; none of its units may be in use.
  void remove(PoolArena& arena) noexcept;

  // Takes a block of 2^n or 3 * 2^n units; it starts at a multiple of its size rounded up to a power of two. The caller
  // sets `kind`. Null: no arena has a large enough free stretch.
  Block* take(std::uint32_t units) noexcept;
  void give_back(Block& block) noexcept;

 private:
  static constexpr std::size_t kOrders = 11;  // of 1 to 1024 units
  static_assert((kUnitSize << (kOrders - 1)) == kArenaSize);

  void put(PoolArena& arena, std::uint32_t first, std::size_t order) noexcept;
  void merge_and_put(PoolArena& arena, std::uint32_t first, std::size_t order) noexcept;
  void unlink(Block& block) noexcept;

  std::array<Block*, kOrders> free_{};
  std::uint32_t orders_with_free_ = 0;  // bit n: free_[n] is not empty
};

}  // namespace ripc::internal::memory
