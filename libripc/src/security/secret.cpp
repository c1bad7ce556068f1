// SPDX-License-Identifier: Apache-2.0
#include "security/secret.hpp"

namespace ripc::internal::security {

Secret Secret::derive(std::string_view purpose, Parts parts) const noexcept {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, data(), kSize);
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size());
  for (const std::span<const std::byte>& part : parts)
    crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  Secret derived;
  crypto_auth_hmacsha256_final(&state, derived.data());
  sodium_memzero(&state, sizeof state);
  return derived;
}

}  // namespace ripc::internal::security
