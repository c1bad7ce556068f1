// SPDX-License-Identifier: Apache-2.0
// Numbers as bytes: of headers, and the nonces that ciphers take. Little-endian.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ripc::internal::security {

template <std::unsigned_integral T>
void store_number(std::byte* bytes, T value) noexcept {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
}
template <std::unsigned_integral T>
T load_number(const std::byte* bytes) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= std::to_integer<T>(bytes[i]) << (8 * i);
  return value;
}

// Of AES-GCM and ChaCha20-Poly1305: four zeros before the number.
inline std::array<unsigned char, 12> nonce_of(std::uint64_t number) noexcept {
  std::array<unsigned char, 12> nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) nonce[4 + i] = static_cast<unsigned char>(number >> (8 * i));
  return nonce;
}

}  // namespace ripc::internal::security
