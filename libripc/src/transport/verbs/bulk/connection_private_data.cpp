// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/connection_private_data.hpp"

#include <cstring>

#include "wire/bytes.hpp"

namespace ripc::internal::verbs {

namespace {

constexpr std::uint8_t kVersion = 5;
constexpr std::size_t kHead = 24;  // all but the proof
static_assert(kHead + security::Secret::kSize == std::tuple_size_v<PrivateData>);

std::string_view purpose(Side side) noexcept {
  return side == Side::dialing ? "ripc verbs connect" : "ripc verbs accept";
}

void write_head(PrivateData& data, std::uint64_t session, std::uint64_t number) noexcept {
  wire::store_le<std::uint64_t>(data.data(), kVersion);
  wire::store_le<std::uint64_t>(data.data() + 8, session);
  wire::store_le<std::uint64_t>(data.data() + 16, number);
}

security::Secret::Bytes plain_proof(const wire::session_control::Nonce& nonce) noexcept {
  security::Secret::Bytes proof{};
  std::memcpy(proof.data(), nonce.data(), nonce.size());
  return proof;
}

security::Secret::Bytes proof_of(const security::Secret* secret, Side side, const wire::session_control::Nonce& nonce,
                                 const PrivateData& data) noexcept {
  if (secret == nullptr) return plain_proof(nonce);
  return secret->derive(purpose(side), {nonce, std::span(data).first<kHead>()}).bytes();
}

}  // namespace

PrivateData make_private_data(const security::Secret* secret, Side side, const wire::session_control::Nonce& nonce,
                              std::uint64_t session, std::uint64_t number) {
  PrivateData data{};
  write_head(data, session, number);
  const security::Secret::Bytes proof = proof_of(secret, side, nonce, data);
  std::memcpy(data.data() + kHead, proof.data(), proof.size());
  return data;
}

bool parse(const PrivateData& data, ConnectionPrivateData& claim) {
  if (wire::load_le<std::uint64_t>(data.data()) != kVersion) return false;
  claim.session = wire::load_le<std::uint64_t>(data.data() + 8);
  claim.number = wire::load_le<std::uint64_t>(data.data() + 16);
  std::memcpy(claim.proof.data(), data.data() + kHead, claim.proof.size());
  return true;
}

bool is_proven(const security::Secret* secret, Side side, const wire::session_control::Nonce& nonce,
               const ConnectionPrivateData& claim) {
  PrivateData data{};
  write_head(data, claim.session, claim.number);
  const security::Secret::Bytes expected = proof_of(secret, side, nonce, data);
  return sodium_memcmp(expected.data(), claim.proof.data(), expected.size()) == 0;
}

}  // namespace ripc::internal::verbs
