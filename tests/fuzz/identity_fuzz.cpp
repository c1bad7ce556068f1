// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of identity files: any text is refused or understood. An understood identity verifies its own
// signatures and refuses changed ones.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "require.hpp"
#include "security/identity.hpp"

namespace security = ripc::internal::security;

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  security::PublicKey key{};
  if (security::read_public_key(text, key)) require(security::public_key_text(key).size() == text.size());
  const auto identity = security::Identity::parse(text, "FILE");
  if (!identity.ok()) {
    require(identity.status() == RIPC_INVALID_ARGUMENT);
    return 0;
  }
  if (!fuzz::is_one_in(64, {data, size})) return 0;  // a signature takes as long as some hundred texts
  const std::array bytes{std::byte{1}, std::byte{2}};
  security::Signature signature = (*identity)->sign("fuzz", {bytes});
  require(security::Identity::verify((*identity)->public_key(), "fuzz", {bytes}, signature));
  signature[0] ^= std::byte{1};
  require(!security::Identity::verify((*identity)->public_key(), "fuzz", {bytes}, signature));
  return 0;
}
