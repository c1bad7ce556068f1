// SPDX-License-Identifier: Apache-2.0
// Source and destination of a datagram, from the header that devices write in front of it.
#include "transport/verbs/datagram/grh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

namespace ripc::internal::verbs {
namespace {

using Header = std::array<std::byte, kGrhSize>;

void put(Header& header, std::size_t at, std::initializer_list<int> values) {
  std::transform(values.begin(), values.end(), header.begin() + static_cast<std::ptrdiff_t>(at),
                 [](int value) { return static_cast<std::byte>(value); });
}

// 10.77.0.1 to 239.255.82.73, a header as in RFC 791 with its checksum.
void put_ipv4(Header& header, bool with_checksum) {
  put(header, 20, {0x45, 0, 0, 60, 0, 0, 0x40, 0, 1, 17, 0, 0, 10, 77, 0, 1, 239, 255, 82, 73});
  std::uint32_t sum = 0;
  for (std::size_t at = 20; at < kGrhSize; at += 2)
    sum += std::to_integer<std::uint32_t>(header[at]) * 256 + std::to_integer<std::uint32_t>(header[at + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  if (with_checksum) put(header, 30, {static_cast<int>((~sum >> 8) & 0xff), static_cast<int>(~sum & 0xff)});
}

wire::session_control::Gid mapped(int a, int b, int c, int d) {
  wire::session_control::Gid gid{};
  gid[10] = gid[11] = std::byte{0xff};
  gid[12] = static_cast<std::byte>(a);
  gid[13] = static_cast<std::byte>(b);
  gid[14] = static_cast<std::byte>(c);
  gid[15] = static_cast<std::byte>(d);
  return gid;
}

TEST(Grh, AnIpv4HeaderIsReadWhateverLiesBeforeIt) {
  for (const int first : {0x00, 0x60, 0x45, 0xff}) {
    Header header;
    header.fill(static_cast<std::byte>(first));
    put_ipv4(header, true);
    const auto ends = read_grh(header);
    ASSERT_TRUE(ends) << first;
    EXPECT_EQ(ends->source, mapped(10, 77, 0, 1)) << first;
    EXPECT_EQ(ends->destination, mapped(239, 255, 82, 73)) << first;
  }
}

TEST(Grh, AnIpv4HeaderThatNeverLeftTheHostNeedsNoChecksum) {
  Header header{};
  put_ipv4(header, false);
  const auto ends = read_grh(header);
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->source, mapped(10, 77, 0, 1));
}

TEST(Grh, AGlobalHeaderIsRead) {
  Header header{};
  put(header, 0, {0x60});
  put(header, 8, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x45, 0, 0x45, 0x45, 0, 0, 1});
  put(header, 24, {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 0xff, 0x52, 0x49});
  const auto ends = read_grh(header);
  ASSERT_TRUE(ends);
  EXPECT_TRUE(std::equal(ends->source.begin(), ends->source.end(), header.begin() + 8));
  EXPECT_TRUE(std::equal(ends->destination.begin(), ends->destination.end(), header.begin() + 24));
}

TEST(Grh, AnythingElseIsRefused) {
  for (const int byte : {0x00, 0x11, 0x46, 0x50, 0x7f, 0xff}) {
    Header header;
    header.fill(static_cast<std::byte>(byte));
    EXPECT_FALSE(read_grh(header)) << byte;
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
