// SPDX-License-Identifier: Apache-2.0
#include "base/sodium_calls.hpp"

#include <sodium.h>

#include <array>
#include <cstdint>

#include "base/little_endian.hpp"

namespace ripc::internal {

Status start_sodium() {
  if (::sodium_init() >= 0) return {};
  return Status(RIPC_SYSTEM, "The cryptographic library libsodium does not start: reinstall the package libsodium23.");
}

void hash_parts(std::span<const std::byte> key, std::string_view purpose,
                std::initializer_list<std::span<const std::byte>> parts, std::span<std::byte> hash) noexcept {
  crypto_generichash_blake2b_state state;
  const auto add = [&state](std::span<const std::byte> bytes) {
    std::array<std::byte, sizeof(std::uint64_t)> length;
    store_le<std::uint64_t>(length.data(), bytes.size());
    crypto_generichash_blake2b_update(&state, reinterpret_cast<const unsigned char*>(length.data()), length.size());
    crypto_generichash_blake2b_update(&state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  };
  crypto_generichash_blake2b_init(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.size());
  add(std::as_bytes(std::span(purpose)));
  for (const std::span<const std::byte>& part : parts) add(part);
  crypto_generichash_blake2b_final(&state, reinterpret_cast<unsigned char*>(hash.data()), hash.size());
  sodium_memzero(&state, sizeof state);
}

}  // namespace ripc::internal
