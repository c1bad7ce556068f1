// SPDX-License-Identifier: Apache-2.0
// Which piece of an arena a lease gets, depending on its size. Small leases share a slab of equal slots; larger ones
// get whole units. A piece is less than twice as large as the lease, mostly less than 1.5 times.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ripc::internal::memory {

inline constexpr std::size_t kUnitSize = std::size_t{64} << 10;  // arenas are divided into units

inline constexpr std::array<std::uint32_t, 18> kSlotSizes{64,   128,  192,  256,  384,   512,   768,   1024,  1536,
                                                          2048, 3072, 4096, 8192, 12288, 16384, 24576, 32768, 49152};
inline constexpr std::size_t kSlabClasses = kSlotSizes.size();
inline constexpr std::size_t kLargestSlot = kSlotSizes.back();
inline constexpr std::size_t kSmallAlignment = 64;
inline constexpr std::size_t kLargeAlignment = 4096;  // from this size on

namespace detail {

// For each multiple of `step`, the class of the smallest slot that holds it.
template <std::size_t kCount>
constexpr std::array<std::uint8_t, kCount> class_table(std::size_t step) noexcept {
  std::array<std::uint8_t, kCount> table{};
  std::uint8_t slab_class = 0;
  for (std::size_t index = 0; index < kCount; ++index) {
    while (kSlotSizes[slab_class] < index * step) ++slab_class;
    table[index] = slab_class;
  }
  return table;
}

inline constexpr auto kSmallClasses = class_table<kLargeAlignment / kSmallAlignment + 1>(kSmallAlignment);
inline constexpr auto kLargeClasses = class_table<kLargestSlot / kLargeAlignment + 1>(kLargeAlignment);

}  // namespace detail

// The slab class for 1 to kLargestSlot bytes.
constexpr std::size_t slab_class_of(std::size_t size) noexcept {
  if (size <= kLargeAlignment) return detail::kSmallClasses[(size + kSmallAlignment - 1) / kSmallAlignment];
  return detail::kLargeClasses[(size + kLargeAlignment - 1) / kLargeAlignment];
}

// How many units a slab of this class takes; a power of two.
constexpr std::uint32_t slab_units(std::size_t slab_class) noexcept {
  return kSlotSizes[slab_class] <= kLargeAlignment ? 1 : 4;
}

constexpr std::uint32_t slab_slots(std::size_t slab_class) noexcept {
  return static_cast<std::uint32_t>(slab_units(slab_class) * kUnitSize / kSlotSizes[slab_class]);
}

// The units for a lease above kLargestSlot: 2^n or 3 * 2^n.
constexpr std::uint32_t block_units(std::size_t size) noexcept {
  const auto units = static_cast<std::uint32_t>((size + kUnitSize - 1) / kUnitSize);
  const std::uint32_t whole = std::bit_ceil(units);
  const std::uint32_t three_quarters = whole / 4 * 3;
  return three_quarters >= units ? three_quarters : whole;
}

// The smallest free stretch of units from which a lease of this size can be cut.
constexpr std::size_t stretch_for(std::size_t size) noexcept {
  const std::uint32_t units = size <= kLargestSlot ? slab_units(slab_class_of(size)) : block_units(size);
  return std::bit_ceil(units) * kUnitSize;
}

}  // namespace ripc::internal::memory
