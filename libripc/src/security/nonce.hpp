// SPDX-License-Identifier: Apache-2.0
// The nonces that ciphers take: those of AES-GCM and ChaCha20-Poly1305 are four zeros and a number.
#pragma once

#include <array>
#include <cstdint>

namespace ripc::internal::security {

inline std::array<unsigned char, 12> nonce_of(std::uint64_t number) noexcept {
  std::array<unsigned char, 12> nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) nonce[4 + i] = static_cast<unsigned char>(number >> (8 * i));
  return nonce;
}

}  // namespace ripc::internal::security
