// SPDX-License-Identifier: Apache-2.0
#include "memory/pool_arena.hpp"

namespace ripc::internal::memory {

Piece piece_at(PoolArena& arena, std::uint64_t offset) noexcept {
  if (arena.blocks == nullptr) return Piece{&arena, nullptr, &arena.lease, 0};

  const auto unit = static_cast<std::uint32_t>(offset / kUnitSize);
  // A block starts at a multiple of its size rounded up to a power of two.
  std::uint32_t first = unit;
  for (std::uint32_t alignment = 1; alignment <= arena.units; alignment *= 2) {
    first = unit & ~(alignment - 1);
    if (arena.blocks[first].kind != BlockKind::inside) break;
  }
  Block& block = arena.blocks[first];
  if (unit - first >= block.units) return {};
  const std::uint64_t start = std::uint64_t{first} * kUnitSize;
  if (block.kind == BlockKind::leased) return Piece{&arena, &block, &block.lease, start};
  if (block.kind != BlockKind::slab) return {};

  const auto inside = static_cast<std::uint32_t>(offset - start);
  const std::uint32_t slot = inside / block.slab->slot_size;
  if (slot >= block.slab->slots) return {};
  return Piece{&arena, &block, &block.slab->leases[slot], start + std::uint64_t{slot} * block.slab->slot_size};
}

}  // namespace ripc::internal::memory
