// SPDX-License-Identifier: Apache-2.0
// Slots for small leases. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>

#include "memory/block_allocator.hpp"
#include "memory/pool_arena.hpp"

namespace ripc::internal::memory {

class SlabAllocator {
 public:
  explicit SlabAllocator(BlockAllocator& blocks) noexcept : blocks_(blocks) {}

  // Takes a slot. An empty piece: no arena has room for another slab. Throws std::bad_alloc, with nothing taken.
  Piece take(std::size_t slab_class);
  // Gives a slot back. Keeps one empty slab of each class, so that alternating leases and releases stay cheap.
  void give_back(const Piece& piece) noexcept;
  // Gives back the empty slabs that were kept. True if there were any.
  bool drop_empty() noexcept;

 private:
  Slab* make(std::size_t slab_class);
  void drop(Slab& slab) noexcept;
  void link(Slab& slab) noexcept;
  void unlink(Slab& slab) noexcept;

  BlockAllocator& blocks_;
  std::array<Slab*, kSlabClasses> with_free_{};
};

}  // namespace ripc::internal::memory
