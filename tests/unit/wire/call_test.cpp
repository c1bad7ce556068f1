// SPDX-License-Identifier: Apache-2.0
#include "wire/call.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ripc::internal::wire::call {
namespace {

std::vector<std::byte> encoded(const Header& header, std::size_t more = 0) {
  std::vector<std::byte> bytes(kHeaderSize + more);
  encode(header, bytes.data());
  return bytes;
}

ripc_status decode(std::span<const std::byte> bytes) {
  Header header;
  return decode(bytes, header);
}

std::vector<Header> one_of_each() {
  return {{.kind = Kind::open, .number = 5, .code = 256},
          {.kind = Kind::opened, .number = 5, .session = 7, .incarnation = 9, .code = 1},
          {.kind = Kind::request, .number = 8, .session = 7, .incarnation = 9, .code = 0xffffffff, .time = 1},
          {.kind = Kind::answer, .number = 8, .session = 7, .incarnation = 3, .code = 0xffffffff, .time = kLate},
          {.kind = Kind::cancel, .number = 8, .session = 7, .incarnation = 9},
          {.kind = Kind::ask, .number = 8, .session = 7, .incarnation = 9},
          {.kind = Kind::state, .state = State::running, .number = 8, .session = 7},
          {.kind = Kind::state, .state = State::not_run, .number = 8, .code = RIPC_LIMIT}};
}

TEST(CallHeader, ComesBackAsItWas) {
  for (const Header& header : one_of_each()) {
    Header decoded;
    ASSERT_EQ(decode(encoded(header), decoded), RIPC_OK) << static_cast<int>(header.kind);
    EXPECT_EQ(decoded, header);
  }
}

TEST(CallHeader, HasTheBytesOfTheSpecification) {
  const auto bytes = encoded({.kind = Kind::request,
                              .number = 0x04030201,
                              .session = 0x1817161514131211,
                              .incarnation = 0x2827262524232221,
                              .code = 0x34333231,
                              .time = 0x44434241});
  const unsigned char expected[] = {4,    3,    0,    0,    0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13,
                                    0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
                                    0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44};
  ASSERT_EQ(bytes.size(), sizeof expected);
  for (std::size_t index = 0; index < bytes.size(); ++index)
    EXPECT_EQ(bytes[index], std::byte{expected[index]}) << index;
}

TEST(CallHeader, OfAnotherVersionIsRefusedAsThat) {
  auto bytes = encoded(one_of_each().front());
  bytes[0] = std::byte{kVersion + 1};
  EXPECT_EQ(decode(bytes), RIPC_VERSION_MISMATCH);
}

TEST(CallHeader, ThatIsNoneIsRefused) {
  for (const Header& header : one_of_each()) {
    const auto bytes = encoded(header);
    EXPECT_EQ(decode(std::span(bytes).first(kHeaderSize - 1)), RIPC_CORRUPT);
  }
  const std::vector<Header> wrong = {
      {.kind = static_cast<Kind>(0), .number = 1},
      {.kind = static_cast<Kind>(8), .number = 1, .session = 1, .incarnation = 1},
      {.kind = Kind::open, .code = 0},
      {.kind = Kind::open, .code = 3},
      {.kind = Kind::open, .code = 512},
      {.kind = Kind::open, .session = 1, .code = 8},
      {.kind = Kind::opened, .incarnation = 1, .code = 8},
      {.kind = Kind::opened, .session = 1, .code = 8},
      {.kind = Kind::request, .incarnation = 1},
      {.kind = Kind::request, .session = 1},
      {.kind = Kind::request, .state = State::running, .session = 1, .incarnation = 1},
      {.kind = Kind::answer},
      {.kind = Kind::opened, .session = 1, .incarnation = 1, .code = 8, .time = 1},
      {.kind = Kind::answer, .session = 1, .time = kLate + 1},
      {.kind = Kind::cancel, .session = 1, .incarnation = 1, .code = 1},
      {.kind = Kind::ask, .session = 1},
      {.kind = Kind::state, .session = 1},
      {.kind = Kind::state, .state = static_cast<State>(6), .session = 1},
      {.kind = Kind::state, .state = State::running, .session = 1, .code = RIPC_TIMEOUT},
      {.kind = Kind::state, .state = State::not_run, .session = 1},
      {.kind = Kind::state, .state = State::not_run, .session = 1, .code = RIPC_SYSTEM + 1},
      {.kind = Kind::state, .state = State::not_run, .session = 1, .incarnation = 1, .code = RIPC_LIMIT}};
  for (std::size_t index = 0; index < wrong.size(); ++index)
    EXPECT_EQ(decode(encoded(wrong[index])), RIPC_CORRUPT) << index;
}

TEST(CallHeader, OfARequestOrAnAnswerIsFollowedByItsFirstItem) {
  for (const Header& header : one_of_each()) {
    const bool may_have_items = header.kind == Kind::request || header.kind == Kind::answer;
    EXPECT_EQ(decode(encoded(header, 1)) == RIPC_OK, may_have_items) << static_cast<int>(header.kind);
  }
}

TEST(CallHeader, TellsTimeThatIsNeverShorterThanItIs) {
  EXPECT_EQ(time_left(0), 0u);
  EXPECT_EQ(time_left(1), 1u);
  EXPECT_EQ(time_left(1000), 1u);
  EXPECT_EQ(time_left(1001), 2u);
  EXPECT_EQ(time_left(UINT64_MAX), kNoTimeLimit);
  EXPECT_EQ(to_nanoseconds(2), 2000u);
  EXPECT_EQ(to_nanoseconds(kNoTimeLimit), UINT64_MAX);
}

TEST(CallHeader, TellsWhichReturnBufferWasWritten) {
  std::array<std::byte, kReturnedSize> encoded;
  encode_returned({15, std::uint64_t{1} << 40, {}}, encoded.data());
  const Result<Returned> returned = decode_returned(encoded);
  ASSERT_TRUE(returned.ok());
  EXPECT_EQ(returned->index, 15u);
  EXPECT_EQ(returned->size, std::uint64_t{1} << 40);
  EXPECT_TRUE(returned->bytes.empty());
}

TEST(CallHeader, CarriesTheBytesForAReturnBufferOrNone) {
  const std::array bytes{std::byte{1}, std::byte{2}};
  std::array<std::byte, kReturnedSize + bytes.size()> encoded;
  encode_returned({0, bytes.size(), bytes}, encoded.data());
  const Result<Returned> returned = decode_returned(encoded);
  ASSERT_TRUE(returned.ok());
  EXPECT_TRUE(std::ranges::equal(returned->bytes, bytes));
  for (const std::size_t size : {std::size_t{0}, kReturnedSize - 1, kReturnedSize + 1})
    EXPECT_EQ(decode_returned(std::span(encoded).first(size)).status(), RIPC_CORRUPT) << size;
}

}  // namespace
}  // namespace ripc::internal::wire::call
