// SPDX-License-Identifier: Apache-2.0
#include "memory/slab_allocator.hpp"

#include <utility>

namespace ripc::internal::memory {

Piece SlabAllocator::take(std::size_t slab_class) {
  Slab* slab = with_free_[slab_class];
  if (slab == nullptr) slab = make(slab_class);
  if (slab == nullptr) return {};

  const std::uint32_t slot = slab->first_free;
  Lease& lease = slab->leases[slot];
  slab->first_free = lease.next_free;
  if (++slab->used == slab->slots) unlink(*slab);
  Block& block = *slab->block;
  const auto unit = static_cast<std::uint64_t>(&block - block.arena->blocks.get());
  return Piece{block.arena, &block, &lease, unit * kUnitSize + std::uint64_t{slot} * slab->slot_size};
}

void SlabAllocator::give_back(const Piece& piece) noexcept {
  Slab& slab = *piece.block->slab;
  const auto slot = static_cast<std::uint32_t>(piece.lease - slab.leases.get());
  piece.lease->next_free = static_cast<std::uint16_t>(slab.first_free);
  slab.first_free = slot;
  if (slab.used-- == slab.slots) link(slab);
  const bool only_one = with_free_[slab.slab_class] == &slab && slab.next == nullptr;
  if (slab.used == 0 && !only_one) drop(slab);
}

bool SlabAllocator::drop_empty() noexcept {
  bool dropped = false;
  for (Slab* slab : with_free_) {
    while (slab != nullptr) {
      Slab* const next = slab->next;
      if (slab->used == 0) {
        drop(*slab);
        dropped = true;
      }
      slab = next;
    }
  }
  return dropped;
}

Slab* SlabAllocator::make(std::size_t slab_class) {
  auto slab = std::make_unique<Slab>();
  slab->slab_class = static_cast<std::uint32_t>(slab_class);
  slab->slot_size = kSlotSizes[slab_class];
  slab->slots = slab_slots(slab_class);
  slab->leases = std::make_unique<Lease[]>(slab->slots);
  for (std::uint32_t slot = 0; slot < slab->slots; ++slot) {
    slab->leases[slot].next_free = static_cast<std::uint16_t>(slot + 1);
  }
  Block* const block = blocks_.take(slab_units(slab_class));
  if (block == nullptr) return nullptr;
  slab->block = block;
  block->kind = BlockKind::slab;
  block->slab = std::move(slab);
  link(*block->slab);
  return block->slab.get();
}

void SlabAllocator::drop(Slab& slab) noexcept {
  unlink(slab);
  Block& block = *slab.block;
  block.slab.reset();
  blocks_.give_back(block);
}

void SlabAllocator::link(Slab& slab) noexcept {
  Slab*& first = with_free_[slab.slab_class];
  slab.previous = nullptr;
  slab.next = first;
  if (first != nullptr) first->previous = &slab;
  first = &slab;
}

void SlabAllocator::unlink(Slab& slab) noexcept {
  if (slab.next != nullptr) slab.next->previous = slab.previous;
  if (slab.previous != nullptr) {
    slab.previous->next = slab.next;
  } else {
    with_free_[slab.slab_class] = slab.next;
  }
}

}  // namespace ripc::internal::memory
