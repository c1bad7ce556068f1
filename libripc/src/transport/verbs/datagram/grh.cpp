// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/grh.hpp"

#include <algorithm>
#include <cstdint>

namespace ripc::internal::verbs {

namespace {

constexpr std::size_t kIpv4Offset = 20;
constexpr std::size_t kIpv4Size = 20;

unsigned version_at(std::span<const std::byte> bytes) noexcept { return std::to_integer<unsigned>(bytes[0]) >> 4; }

bool has_right_checksum(std::span<const std::byte> ipv4) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < kIpv4Size; at += 2)
    sum += (std::to_integer<std::uint32_t>(ipv4[at]) << 8) + std::to_integer<std::uint32_t>(ipv4[at + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

wire::session_control::Gid mapped(std::span<const std::byte> ipv4_address) noexcept {
  wire::session_control::Gid gid{};
  gid[10] = gid[11] = std::byte{0xff};
  std::copy(ipv4_address.begin(), ipv4_address.end(), gid.begin() + 12);
  return gid;
}

wire::session_control::Gid gid_at(std::span<const std::byte> bytes) noexcept {
  wire::session_control::Gid gid;
  std::copy_n(bytes.begin(), gid.size(), gid.begin());
  return gid;
}

}  // namespace

std::optional<DatagramEnds> read_grh(std::span<const std::byte, kGrhSize> header) noexcept {
  constexpr std::byte kPlainIpv4{0x45};  // version 4, without options
  const std::span<const std::byte> ipv4 = header.subspan<kIpv4Offset>();
  const bool may_be_global = version_at(header) == 6;
  // Packets that a device loops back to its own host may have no checksum.
  if (ipv4[0] == kPlainIpv4 && (!may_be_global || has_right_checksum(ipv4)))
    return DatagramEnds{.source = mapped(ipv4.subspan(12, 4)), .destination = mapped(ipv4.subspan(16, 4))};
  if (!may_be_global) return std::nullopt;
  return DatagramEnds{.source = gid_at(header.subspan<8>()), .destination = gid_at(header.subspan<24>())};
}

}  // namespace ripc::internal::verbs
