// SPDX-License-Identifier: Apache-2.0
#include "remote/link/packet_assembly.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ripc::internal::remote {
namespace {

class Assembly : public testing::Test {
 protected:
  ripc_status add(std::uint32_t sequence, std::uint8_t before, std::uint8_t after, std::string_view text) {
    return assembly_.add({.before = before, .after = after, .sequence = sequence},
                         std::as_bytes(std::span(text.data(), text.size())));
  }
  std::string packet() const {
    const auto bytes = assembly_.packet();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  PacketAssembly assembly_;
};

TEST_F(Assembly, DatagramsMakeAPacketInTheirOrder) {
  EXPECT_EQ(add(UINT32_MAX, 0, 2, "one "), RIPC_PENDING);
  EXPECT_EQ(add(0, 1, 1, "two "), RIPC_PENDING) << "0 follows the last number";
  EXPECT_EQ(add(1, 2, 0, "three"), RIPC_OK);
  EXPECT_EQ(packet(), "one two three");
  EXPECT_EQ(add(2, 0, 1, "an"), RIPC_PENDING);
  EXPECT_EQ(add(3, 1, 0, "other"), RIPC_OK);
  EXPECT_EQ(packet(), "another");
}

TEST_F(Assembly, APacketOfWhichADatagramIsMissingIsDroppedAndTheNextIsNot) {
  EXPECT_EQ(add(2, 1, 1, "the first is missing"), RIPC_PENDING);
  EXPECT_EQ(add(3, 2, 0, "so there is none"), RIPC_PENDING);
  EXPECT_EQ(add(4, 0, 2, "the second"), RIPC_PENDING);
  EXPECT_EQ(add(6, 2, 0, "is missing"), RIPC_PENDING);
  EXPECT_EQ(add(7, 0, 1, "the last is missing"), RIPC_PENDING);
  EXPECT_EQ(add(9, 0, 1, "who"), RIPC_PENDING);
  EXPECT_EQ(add(10, 1, 0, "le"), RIPC_OK);
  EXPECT_EQ(packet(), "whole");
}

TEST_F(Assembly, ADatagramOfAnotherPacketDoesNotEndOne) {
  EXPECT_EQ(add(1, 0, 1, "one of two"), RIPC_PENDING);
  EXPECT_EQ(add(2, 2, 0, "the last of three"), RIPC_PENDING);
}

TEST_F(Assembly, TheLargestPacketFitsAndALargerOneIsRefused) {
  const std::string half(wire::datagram::kMaxPacket / 2, 'h');
  EXPECT_EQ(add(1, 0, 1, half), RIPC_PENDING);
  EXPECT_EQ(add(2, 1, 0, half), RIPC_OK);
  EXPECT_EQ(packet(), half + half);
  EXPECT_EQ(add(3, 0, 2, half), RIPC_PENDING);
  EXPECT_EQ(add(4, 1, 1, half + "x"), RIPC_CORRUPT);
  EXPECT_EQ(add(5, 2, 0, "its rest"), RIPC_PENDING) << "nothing of it is left";
}

}  // namespace
}  // namespace ripc::internal::remote
