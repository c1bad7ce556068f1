// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/connection_private_data.hpp"

#include <algorithm>
#include <cstring>

#include "wire/bytes.hpp"

namespace ripc::internal::verbs {

namespace {

constexpr std::uint8_t kVersion = 3;
constexpr std::size_t kHead = 24;  // all but the MAC
static_assert(kHead + ClusterKeys::kMacSize == std::tuple_size_v<PrivateData>);

std::string_view purpose(Side side) noexcept {
  return side == Side::dialing ? "ripc verbs connect 1" : "ripc verbs accept 1";
}

void write_head(PrivateData& data, std::uint64_t session, std::uint64_t number) noexcept {
  wire::store_le<std::uint64_t>(data.data(), kVersion);
  wire::store_le<std::uint64_t>(data.data() + 8, session);
  wire::store_le<std::uint64_t>(data.data() + 16, number);
}

}  // namespace

PrivateData make_private_data(const ClusterKeys* keys, Side side, const wire::session_control::Nonce& nonce,
                              std::uint64_t session, std::uint64_t number, std::size_t key) {
  PrivateData data{};
  write_head(data, session, number);
  if (keys == nullptr) return data;
  const ClusterKeys::Mac mac = keys->mac(purpose(side), {nonce, std::span(data).first<kHead>()}, key);
  std::memcpy(data.data() + kHead, mac.data(), mac.size());
  return data;
}

bool parse(const PrivateData& data, ConnectionPrivateData& told) {
  if (wire::load_le<std::uint64_t>(data.data()) != kVersion) return false;
  told.session = wire::load_le<std::uint64_t>(data.data() + 8);
  told.number = wire::load_le<std::uint64_t>(data.data() + 16);
  std::memcpy(told.mac.data(), data.data() + kHead, told.mac.size());
  return true;
}

bool is_proven(const ClusterKeys* keys, Side side, const wire::session_control::Nonce& nonce,
               const ConnectionPrivateData& told) {
  if (keys == nullptr) return told.mac == ClusterKeys::Mac{};
  PrivateData data{};
  write_head(data, told.session, told.number);
  return keys->verify(purpose(side), {nonce, std::span(data).first<kHead>()}, told.mac);
}

}  // namespace ripc::internal::verbs
