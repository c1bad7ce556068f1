// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of introductions, which a stranger hands over when it asks for an RDMA connection: any words are
// refused or understood, what is understood is written the same again, and nothing is proven but with the right key.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "require.hpp"
#include "transport/verbs/introduction.hpp"

namespace {

using fuzz::require;
using ripc::verbs::Introduction;
using ripc::verbs::PrivateData;
using ripc::verbs::Side;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The kernel hands over 56 bytes, whatever came.
  PrivateData words{};
  std::transform(data, data + std::min(size, words.size()), words.begin(), [](auto byte) { return std::byte{byte}; });
  Introduction introduction;
  const ripc::wire::session::Nonce nonce{};
  if (!ripc::verbs::parse(words, introduction)) {
    const PrivateData valid = ripc::verbs::introduce(nullptr, Side::dialing, nonce, {}, 0);
    require(!std::equal(words.begin(), words.begin() + 8, valid.begin()));
    return 0;
  }
  const bool is_proven = ripc::verbs::is_proven(nullptr, Side::dialing, nonce, introduction);
  const bool has_mac = std::any_of(words.begin() + 24, words.end(), [](std::byte byte) { return byte != std::byte{}; });
  require(is_proven == !has_mac);
  const PrivateData again =
      ripc::verbs::introduce(nullptr, Side::dialing, nonce, introduction.session, introduction.number);
  require(std::equal(again.begin(), again.begin() + 24, words.begin()));
  return 0;
}
