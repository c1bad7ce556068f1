// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of the headers that a device writes before a datagram. The addresses that it returns are exactly
// those in the header.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "require.hpp"
#include "transport/verbs/datagram/grh.hpp"

namespace {

using fuzz::require;
using ripc::internal::verbs::kGrhSize;

bool lies_at(const ripc::internal::wire::session_control::Gid& gid, std::span<const std::byte, kGrhSize> header,
             std::size_t offset) {
  return std::equal(gid.begin(), gid.end(), header.begin() + static_cast<std::ptrdiff_t>(offset));
}

bool is_mapped(const ripc::internal::wire::session_control::Gid& gid, std::span<const std::byte, kGrhSize> header,
               std::size_t offset) {
  constexpr std::array kPrefix{std::byte{0xff}, std::byte{0xff}};
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::byte byte) { return byte == std::byte{}; }) &&
         std::equal(kPrefix.begin(), kPrefix.end(), gid.begin() + 10) &&
         std::equal(gid.begin() + 12, gid.end(), header.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::byte, kGrhSize> header{};
  std::transform(data, data + std::min(size, header.size()), header.begin(), [](auto byte) { return std::byte{byte}; });
  const auto ends = ripc::internal::verbs::read_grh(header);
  const bool is_ipv6 = (header[0] & std::byte{0xf0}) == std::byte{0x60};
  const bool is_ipv4 = header[20] == std::byte{0x45};
  require(ends.has_value() == (is_ipv6 || is_ipv4));
  if (!ends) return 0;
  const bool as_ipv6 = is_ipv6 && lies_at(ends->source, header, 8) && lies_at(ends->destination, header, 24);
  const bool as_ipv4 = is_ipv4 && is_mapped(ends->source, header, 32) && is_mapped(ends->destination, header, 36);
  require(as_ipv6 || as_ipv4);
  return 0;
}
