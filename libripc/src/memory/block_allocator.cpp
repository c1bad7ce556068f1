// SPDX-License-Identifier: Apache-2.0
#include "memory/block_allocator.hpp"

#include <bit>

namespace ripc::internal::memory {
namespace {

std::size_t order_of(std::uint32_t units) noexcept { return static_cast<std::size_t>(std::countr_zero(units)); }

std::uint32_t index_of(const Block& block) noexcept {
  return static_cast<std::uint32_t>(&block - block.arena->blocks.get());
}

}  // namespace

void BlockAllocator::add(PoolArena& arena) noexcept {
  for (std::uint32_t first = 0; first < arena.units;) {
    const std::uint32_t units = std::bit_floor(arena.units - first);
    put(arena, first, order_of(units));
    first += units;
  }
}

void BlockAllocator::remove(PoolArena& arena) noexcept {
  for (std::uint32_t first = 0; first < arena.units;) {
    Block& block = arena.blocks[first];
    first += block.units;
    unlink(block);
  }
}

Block* BlockAllocator::take(std::uint32_t units) noexcept {
  const std::size_t wanted = order_of(std::bit_ceil(units));
  const std::uint32_t candidates = wanted < kOrders ? orders_with_free_ >> wanted << wanted : 0;
  if (candidates == 0) return nullptr;

  std::size_t order = static_cast<std::size_t>(std::countr_zero(candidates));
  Block& block = *free_[order];
  PoolArena& arena = *block.arena;
  const std::uint32_t first = index_of(block);
  unlink(block);
  while (order > wanted) {
    --order;
    put(arena, first + (1u << order), order);
  }
  const std::uint32_t whole = 1u << wanted;
  if (units < whole) put(arena, first + units, order_of(whole - units));
  block.units = units;
  arena.used_units += units;
  return &block;
}

void BlockAllocator::give_back(Block& block) noexcept {
  PoolArena& arena = *block.arena;
  const std::uint32_t first = index_of(block);
  const std::uint32_t units = block.units;
  arena.used_units -= units;
  block.kind = BlockKind::inside;
  const std::uint32_t lower = std::bit_floor(units);
  if (units > lower) merge_and_put(arena, first + lower, order_of(units - lower));
  merge_and_put(arena, first, order_of(lower));
}

void BlockAllocator::merge_and_put(PoolArena& arena, std::uint32_t first, std::size_t order) noexcept {
  for (; order + 1 < kOrders; ++order) {
    const std::uint32_t units = 1u << order;
    const std::uint32_t buddy = first ^ units;
    if (buddy + units > arena.units) break;
    Block& other = arena.blocks[buddy];
    if (other.kind != BlockKind::free || other.units != units) break;
    unlink(other);
    first &= ~units;
  }
  put(arena, first, order);
}

void BlockAllocator::put(PoolArena& arena, std::uint32_t first, std::size_t order) noexcept {
  Block& block = arena.blocks[first];
  block.kind = BlockKind::free;
  block.units = 1u << order;
  block.previous = nullptr;
  block.next = free_[order];
  if (block.next != nullptr) block.next->previous = &block;
  free_[order] = &block;
  orders_with_free_ |= 1u << order;
}

void BlockAllocator::unlink(Block& block) noexcept {
  const std::size_t order = order_of(block.units);
  if (block.next != nullptr) block.next->previous = block.previous;
  if (block.previous != nullptr) {
    block.previous->next = block.next;
  } else {
    free_[order] = block.next;
    if (free_[order] == nullptr) orders_with_free_ &= ~(1u << order);
  }
  block.kind = BlockKind::inside;
}

}  // namespace ripc::internal::memory
