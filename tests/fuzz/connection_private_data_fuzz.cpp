// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of private data, which a stranger sends when it asks for an RDMA connection. Any words are refused
// or understood, and understood data is written back unchanged. Only the right key proves anything.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "require.hpp"
#include "transport/verbs/bulk/connection_private_data.hpp"

namespace {

using fuzz::require;
using ripc::internal::verbs::ConnectionPrivateData;
using ripc::internal::verbs::PrivateData;
using ripc::internal::verbs::Side;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The kernel hands over 56 bytes, however many the peer sent.
  PrivateData words{};
  std::transform(data, data + std::min(size, words.size()), words.begin(), [](auto byte) { return std::byte{byte}; });
  ConnectionPrivateData told;
  const ripc::internal::wire::session_control::Nonce nonce{};
  if (!ripc::internal::verbs::parse(words, told)) {
    const PrivateData valid = ripc::internal::verbs::make_private_data(nullptr, Side::dialing, nonce, {}, 0);
    require(!std::equal(words.begin(), words.begin() + 8, valid.begin()));
    return 0;
  }
  const bool is_proven = ripc::internal::verbs::is_proven(nullptr, Side::dialing, nonce, told);
  const bool has_proof =
      std::any_of(words.begin() + 24, words.end(), [](std::byte byte) { return byte != std::byte{}; });
  require(is_proven == !has_proof);
  const PrivateData again =
      ripc::internal::verbs::make_private_data(nullptr, Side::dialing, nonce, told.session, told.number);
  require(std::equal(again.begin(), again.begin() + 24, words.begin()));
  return 0;
}
