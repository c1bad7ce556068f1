// SPDX-License-Identifier: Apache-2.0
#include "wire/datagram.hpp"

#include <gtest/gtest.h>

#include "wire_helpers.hpp"

namespace ripc::internal::wire::datagram {
namespace {

using testing::Bytes;
using testing::to_hex;

constexpr Header kSample{.kind = Kind::data,
                         .before = 0x51,
                         .after = 0x61,
                         .sequence = 0x01020304,
                         .token = 0x1112131415161718,
                         .spent = 0x21222324,
                         .credit_link = 0x31323334,
                         .credit = 0x41424344};
constexpr const char* kSampleHex =
    "01 01 51 61 04 03 02 01 18 17 16 15 14 13 12 11 24 23 22 21 34 33 32 31 44 43 42 41";

Bytes encoded(const Header& header, std::size_t packet = 0) {
  HeaderBytes bytes;
  encode(header, bytes);
  Bytes whole(bytes.begin(), bytes.end());
  whole.resize(whole.size() + packet, std::byte{0x55});
  return whole;
}

ripc_status decode_status(const Bytes& bytes) {
  const testing::ExactBytes copy(bytes);
  Header header;
  return decode(copy.span(), header);
}

TEST(Datagram, FieldsLieWhereTheSpecificationSays) { EXPECT_EQ(to_hex(encoded(kSample)), kSampleHex); }

TEST(Datagram, EveryKindIsReadAsItWasWritten) {
  for (const Kind kind : {Kind::data, Kind::credit, Kind::probe, Kind::multicast, Kind::greeting}) {
    Header header = kSample;
    header.kind = kind;
    if (kind != Kind::data) header.before = header.after = 0;
    Header read;
    EXPECT_EQ(decode(encoded(header, kind == Kind::data ? 1 : 0), read), RIPC_OK);
    EXPECT_EQ(read, header);
  }
}

TEST(Datagram, AnotherVersionIsDistinguishedFromNonsense) {
  Bytes bytes = encoded(kSample, 1);
  bytes[0] = std::byte{2};
  EXPECT_EQ(decode_status(bytes), RIPC_VERSION_MISMATCH);
  EXPECT_EQ(decode_status({std::byte{2}}), RIPC_VERSION_MISMATCH);
}

TEST(Datagram, ShorterThanAHeaderIsRefused) {
  const Bytes whole = encoded(kSample);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(decode_status(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), RIPC_CORRUPT);
}

TEST(Datagram, UnknownKindsAreRefused) {
  for (const int kind : {0, 6, 255}) {
    Bytes bytes = encoded({}, 1);
    bytes[1] = static_cast<std::byte>(kind);
    EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT) << kind;
  }
}

TEST(Datagram, OnlyDataIsAPartOfAPacket) {
  for (const Kind kind : {Kind::credit, Kind::probe, Kind::multicast, Kind::greeting}) {
    for (const std::size_t count : {2u, 3u}) {
      Bytes bytes = encoded({.kind = kind, .credit_link = 1});
      EXPECT_EQ(decode_status(bytes), RIPC_OK);
      bytes[count] = std::byte{1};
      EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT) << count;
    }
  }
}

TEST(Datagram, DataHasAPacketMulticastMayHaveOneAndNothingElseHas) {
  Header header{.credit_link = 1};
  EXPECT_EQ(decode_status(encoded(header)), RIPC_CORRUPT);
  for (const Kind kind : {Kind::credit, Kind::probe}) {
    header.kind = kind;
    EXPECT_EQ(decode_status(encoded(header, 1)), RIPC_CORRUPT);
  }
  header.kind = Kind::multicast;
  EXPECT_EQ(decode_status(encoded(header)), RIPC_OK) << "a greeting";
  EXPECT_EQ(decode_status(encoded(header, 1)), RIPC_OK);
}

TEST(Datagram, ACreditForNoLinkIsRefused) {
  const Header header{.kind = Kind::credit};
  EXPECT_EQ(decode_status(encoded(header)), RIPC_CORRUPT);
}

}  // namespace
}  // namespace ripc::internal::wire::datagram
