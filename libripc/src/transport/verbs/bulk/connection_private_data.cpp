// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/connection_private_data.hpp"

#include <algorithm>
#include <cstring>

#include "wire/bytes.hpp"

namespace ripc::internal::verbs {

namespace {

constexpr std::uint8_t kVersion = 4;
constexpr std::size_t kHead = 24;  // all but the proof
static_assert(kHead + ClusterKeys::kMacSize == std::tuple_size_v<PrivateData>);

std::string_view purpose(Side side) noexcept {
  return side == Side::dialing ? "ripc verbs connect 1" : "ripc verbs accept 1";
}

void write_head(PrivateData& data, std::uint64_t session, std::uint64_t number) noexcept {
  wire::store_le<std::uint64_t>(data.data(), kVersion);
  wire::store_le<std::uint64_t>(data.data() + 8, session);
  wire::store_le<std::uint64_t>(data.data() + 16, number);
}

ClusterKeys::Mac plain_proof(const wire::session_control::Nonce& nonce) noexcept {
  ClusterKeys::Mac proof{};
  std::memcpy(proof.data(), nonce.data(), nonce.size());
  return proof;
}

}  // namespace

PrivateData make_private_data(const ClusterKeys* keys, Side side, const wire::session_control::Nonce& nonce,
                              std::uint64_t session, std::uint64_t number, std::size_t key) {
  PrivateData data{};
  write_head(data, session, number);
  const ClusterKeys::Mac proof =
      keys == nullptr ? plain_proof(nonce) : keys->mac(purpose(side), {nonce, std::span(data).first<kHead>()}, key);
  std::memcpy(data.data() + kHead, proof.data(), proof.size());
  return data;
}

bool parse(const PrivateData& data, ConnectionPrivateData& told) {
  if (wire::load_le<std::uint64_t>(data.data()) != kVersion) return false;
  told.session = wire::load_le<std::uint64_t>(data.data() + 8);
  told.number = wire::load_le<std::uint64_t>(data.data() + 16);
  std::memcpy(told.proof.data(), data.data() + kHead, told.proof.size());
  return true;
}

bool is_proven(const ClusterKeys* keys, Side side, const wire::session_control::Nonce& nonce,
               const ConnectionPrivateData& told) {
  if (keys == nullptr) return told.proof == plain_proof(nonce);
  PrivateData data{};
  write_head(data, told.session, told.number);
  return keys->verify(purpose(side), {nonce, std::span(data).first<kHead>()}, told.proof);
}

}  // namespace ripc::internal::verbs
