// SPDX-License-Identifier: Apache-2.0
// Copying a few bytes without a call: for headers and small payloads, where memcpy() with a variable length costs more
// than the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ripc::internal {

template <std::size_t Value>
using FixedLength = std::integral_constant<std::size_t, Value>;

// The ranges do not overlap. `size` is at most Most.
template <std::size_t Most = SIZE_MAX>
[[gnu::always_inline]] inline void copy_small(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  // Copies both ends, which may overlap, so that no size needs a loop.
  const auto move_ends = [&](auto length) {
    std::memcpy(to + size - length, from + size - length, length);
    std::memcpy(to, from, length);
  };
  if (size > 32) {
    if (size <= 64) {
      move_ends(FixedLength<32>());
    } else if (Most <= 128 || size <= 128) {
      move_ends(FixedLength<64>());
    } else if (Most <= 256 || size <= 256) {
      move_ends(FixedLength<128>());
    } else {
      std::memcpy(to, from, size);
    }
  } else if (size >= 16) {
    move_ends(FixedLength<16>());
  } else if (size >= 8) {
    move_ends(FixedLength<8>());
  } else if (size >= 4) {
    move_ends(FixedLength<4>());
  } else if (size != 0) {
    to[0] = from[0];
    to[size / 2] = from[size / 2];
    to[size - 1] = from[size - 1];
  }
}

}  // namespace ripc::internal
