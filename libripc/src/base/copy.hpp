// SPDX-License-Identifier: Apache-2.0
// Copying a few bytes without a call: for headers and small payloads, where memcpy() with a variable length costs more
// than the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ripc {

// The ranges do not overlap.
inline void copy_small(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  struct Block {
    std::uint64_t words[2];
  };
  const auto move = [&]<typename T>(T, std::size_t at) {
    T value;
    std::memcpy(&value, from + at, sizeof value);
    std::memcpy(to + at, &value, sizeof value);
  };
  if (size >= sizeof(Block)) {
    if (size > 256) {
      std::memcpy(to, from, size);
      return;
    }
    // The last block may overlap the one before it.
    for (std::size_t at = 0; at + sizeof(Block) < size; at += sizeof(Block)) move(Block{}, at);
    move(Block{}, size - sizeof(Block));
  } else if (size >= 8) {
    move(std::uint64_t{}, 0);
    move(std::uint64_t{}, size - 8);
  } else if (size >= 4) {
    move(std::uint32_t{}, 0);
    move(std::uint32_t{}, size - 4);
  } else if (size != 0) {
    to[0] = from[0];
    to[size / 2] = from[size / 2];
    to[size - 1] = from[size - 1];
  }
}

}  // namespace ripc
