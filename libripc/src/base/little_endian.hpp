// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers in ranges of bytes, on any host, at any alignment.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ripc::internal {

template <typename T>
concept WireInteger = std::same_as<T, std::uint8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>;

// The same bytes in the opposite order.
template <WireInteger T>
constexpr T reverse_bytes(T value) noexcept {
  if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else if constexpr (sizeof(T) == 8) {
    return __builtin_bswap64(value);
  } else {
    return value;
  }
}

// Reads sizeof(T) bytes, unchecked. Name the type: load_le<std::uint32_t>(bytes).
template <WireInteger T>
T load_le(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) value = reverse_bytes(value);
  return value;
}

// The same from memory that another process may be changing: every use of the result sees the same value.
template <WireInteger T>
T load_once_le(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  // Without this the compiler might read again instead of keeping the value.
  asm volatile("" : "+r"(value));
  if constexpr (std::endian::native == std::endian::big) value = reverse_bytes(value);
  return value;
}

// Writes sizeof(T) bytes, unchecked. Name the type where the argument could be of another width than the field.
template <WireInteger T>
void store_le(std::byte* bytes, T value) noexcept {
  if constexpr (std::endian::native == std::endian::big) value = reverse_bytes(value);
  std::memcpy(bytes, &value, sizeof(T));
}

}  // namespace ripc::internal
