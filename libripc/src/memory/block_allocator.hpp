// SPDX-License-Identifier: Apache-2.0
// Divides normal arenas into blocks of whole units: a binary buddy allocator over all of them. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "memory/pool_arena.hpp"

namespace ripc::internal::memory {

class BlockAllocator {
 public:
  // The arena's units become free. It stays the caller's.
  void add(PoolArena& arena) noexcept;
  // Forgets an arena of which no unit is used.
  void remove(PoolArena& arena) noexcept;

  // Takes a block of 2^n or 3 * 2^n units; its start is a multiple of that, rounded up to a power of two. The caller
  // sets `kind`. Null: no arena has a large enough stretch.
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
