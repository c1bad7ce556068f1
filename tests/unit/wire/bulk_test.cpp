// SPDX-License-Identifier: Apache-2.0
#include "wire/bulk.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ripc::internal::wire::bulk {
namespace {

using Header = std::array<std::byte, kHeaderSize>;

Header bytes_of(const Frame& frame) {
  Header bytes;
  encode(frame, std::span(bytes));
  return bytes;
}

const std::vector<Frame>& frames() {
  static const std::vector<Frame> all{
      {.type = Type::pull_request, .length = 1 << 20, .id = 7, .key = 1, .location = 2, .offset = 3 << 20},
      {.type = Type::data, .length = kMaxPayload, .id = 7, .offset = 3 << 20},
      {.type = Type::data, .length = 0, .id = 7, .offset = 3 << 20},
      {.type = Type::finish, .key = 1, .location = 2, .value = RIPC_NO_WINDOW},
      {.type = Type::finished, .key = 1, .location = 2, .value = RIPC_REVOKED},
      {.type = Type::push, .length = 100, .id = 9, .key = 4, .location = 5, .offset = 900, .value = 1000},
      {.type = Type::push, .length = 0, .id = 9, .key = 4, .location = 5, .offset = 0, .value = 0},
      {.type = Type::pushed, .id = 9, .value = RIPC_OK},
  };
  return all;
}

TEST(BulkFrame, ComesBackAsItWas) {
  for (const Frame& frame : frames()) {
    const Header bytes = bytes_of(frame);
    const Result<Frame> again = decode(std::span(bytes));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, frame);
  }
}

TEST(BulkFrame, HasTheLayoutOfTheSpecification) {
  const Header bytes = bytes_of({.type = Type::pull_request,
                                 .length = 0x04030201,
                                 .id = 0x11,
                                 .key = 0x22,
                                 .location = 0x33,
                                 .offset = 0x0102030405060708,
                                 .value = 0x55});
  EXPECT_EQ(bytes[0], std::byte{1});
  EXPECT_EQ(bytes[1], std::byte{1});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(bytes[7], std::byte{4});
  EXPECT_EQ(bytes[8], std::byte{0x11});
  EXPECT_EQ(bytes[16], std::byte{0x22});
  EXPECT_EQ(bytes[24], std::byte{0x33});
  EXPECT_EQ(bytes[32], std::byte{8});
  EXPECT_EQ(bytes[39], std::byte{1});
  EXPECT_EQ(bytes[40], std::byte{0x55});
}

TEST(BulkFrame, AnotherVersionIsNamedAndNothingElseIsLookedAt) {
  Header bytes{};
  bytes[0] = std::byte{2};
  EXPECT_EQ(decode(std::span(bytes)).status(), RIPC_VERSION_MISMATCH);
}

TEST(BulkFrame, ThatDoesNotAddUpIsCorrupt) {
  const std::vector<Frame>& good = frames();
  std::vector<Frame> bad;
  const auto variant = [&](std::size_t index, auto&& change) {
    Frame frame = good[index];
    change(frame);
    bad.push_back(frame);
  };
  variant(0, [](Frame& frame) { frame.type = static_cast<Type>(0); });
  variant(0, [](Frame& frame) { frame.type = static_cast<Type>(7); });
  variant(0, [](Frame& frame) { frame.length = 0; });
  variant(0, [](Frame& frame) { frame.length = kMaxSegment + 1; });
  variant(0, [](Frame& frame) { frame.value = 1; });
  variant(0, [](Frame& frame) { frame.offset = UINT64_MAX; });
  variant(1, [](Frame& frame) { frame.length = kMaxPayload + 1; });
  variant(1, [](Frame& frame) { frame.key = 1; });
  variant(1, [](Frame& frame) { frame.location = 1; });
  variant(1, [](Frame& frame) { frame.value = 1; });
  variant(1, [](Frame& frame) { frame.offset = UINT64_MAX; });
  for (const std::size_t index : {std::size_t{3}, std::size_t{4}}) {
    variant(index, [](Frame& frame) { frame.length = 1; });
    variant(index, [](Frame& frame) { frame.id = 1; });
    variant(index, [](Frame& frame) { frame.offset = 1; });
  }
  variant(3, [](Frame& frame) { frame.value = RIPC_SYSTEM + 1; });
  variant(4, [](Frame& frame) { frame.value = RIPC_NO_WINDOW; });
  variant(5, [](Frame& frame) { frame.length = 101; });
  variant(5, [](Frame& frame) { frame.offset = 1001; });
  variant(5, [](Frame& frame) { frame.offset = UINT64_MAX; });
  variant(5, [](Frame& frame) {
    frame.value = UINT64_MAX;
    frame.length = kMaxPayload + 1;
  });
  variant(7, [](Frame& frame) { frame.length = 1; });
  variant(7, [](Frame& frame) { frame.key = 1; });
  variant(7, [](Frame& frame) { frame.location = 1; });
  variant(7, [](Frame& frame) { frame.offset = 1; });
  variant(7, [](Frame& frame) { frame.value = UINT64_MAX; });
  for (std::size_t index = 0; index < bad.size(); ++index) {
    const Header bytes = bytes_of(bad[index]);
    EXPECT_EQ(decode(std::span(bytes)).status(), RIPC_CORRUPT) << index;
  }
  Header bytes = bytes_of(good[0]);
  bytes[2] = std::byte{1};
  EXPECT_EQ(decode(std::span(bytes)).status(), RIPC_CORRUPT);
}

TEST(BulkFrame, OfRdmaConnectionsComesBackAndIsRefusedOnStreams) {
  const std::vector<Frame> only_rdma{
      {.type = Type::ask_read, .id = 2, .key = 1, .location = 2},
      {.type = Type::ask_write, .id = 3, .key = 1, .location = 2, .value = 1000},
      {.type = Type::remote_key, .id = 2, .key = UINT32_MAX, .location = UINT64_MAX, .value = RIPC_OK},
      {.type = Type::remote_key, .id = 2, .key = 1, .location = 2, .offset = 1, .value = RIPC_OK},
      {.type = Type::remote_key, .id = 2, .value = RIPC_REVOKED},
      {.type = Type::finish, .id = UINT32_MAX, .key = 1, .location = 2, .value = RIPC_OK},
      {.type = Type::written, .id = 3, .key = 1, .location = 2, .value = 0},
      {.type = Type::offer, .id = UINT32_MAX, .key = 1, .location = 2, .value = UINT64_MAX},
      {.type = Type::offer, .id = 7, .key = 1, .location = 2, .offset = 1, .value = 5},
      {.type = Type::offer, .key = 1, .location = 2},
  };
  for (const Frame& frame : only_rdma) {
    const Header bytes = bytes_of(frame);
    const Result<Frame> again = decode(std::span(bytes), Carrier::rdma);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, frame);
    EXPECT_EQ(decode(std::span(bytes), Carrier::stream).status(), RIPC_CORRUPT);
  }
  for (const Frame& frame : frames()) {
    const Header bytes = bytes_of(frame);
    const bool shared = frame.type == Type::finish || frame.type == Type::finished || frame.type == Type::pushed;
    EXPECT_EQ(decode(std::span(bytes), Carrier::rdma).ok(), shared);
  }
}

TEST(BulkFrame, OfRdmaConnectionsThatDoesNotAddUpIsCorrupt) {
  const std::vector<Frame> bad{
      {.type = Type::ask_read, .id = 2, .key = 1, .location = 2, .value = 1},
      {.type = Type::ask_read, .length = 1, .id = 2, .key = 1, .location = 2},
      {.type = Type::ask_write, .id = 3, .key = 1, .location = 2, .value = 0},
      {.type = Type::ask_write, .id = 3, .key = 1, .location = 2, .offset = 1, .value = 5},
      {.type = Type::remote_key, .id = 2, .key = std::uint64_t{1} << 32},
      {.type = Type::remote_key, .id = 2, .key = 1, .value = RIPC_REVOKED},
      {.type = Type::remote_key, .id = 2, .value = RIPC_SYSTEM + 1},
      {.type = Type::remote_key, .id = 2, .key = 1, .location = 2, .offset = 2, .value = RIPC_OK},
      {.type = Type::remote_key, .id = 2, .offset = 1, .value = RIPC_REVOKED},
      {.type = Type::finish, .id = std::uint64_t{1} << 32, .key = 1, .location = 2, .value = RIPC_OK},
      {.type = Type::written, .length = 1, .id = 3, .key = 1, .location = 2, .value = 5},
      {.type = Type::offer, .length = 1, .id = 7, .key = 1, .location = 2, .value = 5},
      {.type = Type::offer, .id = 7, .key = 1, .location = 2, .offset = 2, .value = 5},
      {.type = Type::offer, .key = 1, .location = 2, .offset = 1},
      {.type = Type::offer, .id = std::uint64_t{1} << 32, .key = 1, .location = 2, .value = 5},
      {.type = Type::offer, .id = 7, .key = 1, .location = 2, .value = 0},
      {.type = static_cast<Type>(12)},
  };
  for (const Frame& frame : bad) {
    const Header bytes = bytes_of(frame);
    EXPECT_EQ(decode(std::span(bytes), Carrier::rdma).status(), RIPC_CORRUPT) << static_cast<int>(frame.type);
  }
}

TEST(BulkTrailer, ComesBackOrIsRefused) {
  for (const ripc_status status : {RIPC_OK, RIPC_REVOKED, RIPC_SYSTEM}) {
    const std::array<std::byte, kTrailerSize> bytes = encode_trailer(status);
    EXPECT_EQ(decode_trailer(std::span(bytes)), status);
  }
  std::array<std::byte, kTrailerSize> bytes = encode_trailer(static_cast<ripc_status>(RIPC_SYSTEM + 1));
  EXPECT_EQ(decode_trailer(std::span(bytes)), std::nullopt);
  bytes = encode_trailer(RIPC_OK);
  bytes[4] = std::byte{1};
  EXPECT_EQ(decode_trailer(std::span(bytes)), std::nullopt);
}

}  // namespace
}  // namespace ripc::internal::wire::bulk
