// SPDX-License-Identifier: Apache-2.0
#include "wire/session_control.hpp"

#include <gtest/gtest.h>

#include <string>

#include "wire/bytes.hpp"
#include "wire/datagram.hpp"
#include "wire_helpers.hpp"

namespace ripc::internal::wire::session_control {
namespace {

using testing::Bytes;
using testing::text;
using testing::to_hex;

struct Sample {
  const char* name;
  Frame frame;
  std::string fields;  // the bytes after the header
};

Nonce nonce() {
  Nonce bytes;
  for (std::size_t index = 0; index < bytes.size(); ++index) bytes[index] = static_cast<std::byte>(index);
  return bytes;
}
constexpr const char* kNonce = "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f";

const Bytes& offers() {
  static const Bytes bytes(2 * HandshakeOffer::kSize, std::byte{0xab});
  return bytes;
}
std::string offers_text() {
  std::string result;
  for (std::size_t index = 0; index < offers().size(); ++index) result += " ab";
  return result;
}

std::vector<Sample> samples() {
  return {
      {"hello",
       Hello{.context = 0x0102030405060708,
             .session = 2,
             .number = 3,
             .time = 9,
             .role = 4,
             .port = 5,
             .abilities = 6,
             .offers = offers()},
       "08 07 06 05 04 03 02 01 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 "
       "09 00 00 00 00 00 00 00 04 00 00 00 05 00 00 00 06 00 00 00" +
           offers_text()},
      {"hello_reply",
       HelloReply{.context = 1, .received = 2, .status = RIPC_OK, .abilities = 3, .choice = 4, .message = text("xyz")},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 03 00 00 00 04 00 00 00 78 79 7a"},
      {"confirm", Confirm{.message = text("xyz")}, "78 79 7a"},
      {"open", Open{.request = 1, .service = 2, .token = 3, .link = 4, .port = 5},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 05 00 00 00"},
      {"opened",
       Opened{
           .request = 1, .status = RIPC_OK, .link = 2, .incarnation = 3, .port = 4, .packet_limit = 133, .credit = 6},
       "01 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 85 00 00 00 06 00 00 00"},
      {"close_link", CloseLink{.link = 1, .sequence = 2}, "01 00 00 00 02 00 00 00"},
      {"link_closed", LinkClosed{.link = 1, .status = RIPC_NO_SERVICE}, "01 00 00 00 07 00 00 00"},
      {"control", Control{.link = 1, .destination = 2, .packet = text("xyz")},
       "01 00 00 00 02 00 00 00 00 00 00 00 78 79 7a"},
      {"fence", Fence{.request = 1, .service = 2, .incarnation = 3},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00"},
      {"fenced", Fenced{.request = 1, .status = RIPC_OK}, "01 00 00 00 00 00 00 00 00 00 00 00"},
      {"heartbeat", Heartbeat{.received = 1}, "01 00 00 00 00 00 00 00"},
      {"want_bulk", WantBulk{}, ""},
      {"bye", Bye{.status = RIPC_REFUSED}, "09 00 00 00"},
      {"bulk_port", BulkPort{.port = 5, .nonce = nonce(), .address = nonce()},
       std::string("05 00 00 00 ") + kNonce + ' ' + kNonce},
      {"open_datagram",
       OpenDatagram{.request = 1,
                    .service = 2,
                    .token = 3,
                    .link = 4,
                    .gid = nonce(),
                    .lid = 5,
                    .queue_pair = 6,
                    .queue_key = 7,
                    .mtu = 264},
       std::string("01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 ") + kNonce +
           " 05 00 00 00 06 00 00 00 07 00 00 00 08 01 00 00"},
      {"datagram_opened",
       DatagramOpened{.request = 1,
                      .status = RIPC_OK,
                      .link = 2,
                      .incarnation = 3,
                      .gid = nonce(),
                      .lid = 4,
                      .queue_pair = 5,
                      .queue_key = 6,
                      .packet_limit = 135,
                      .credit = 8,
                      .greeted_pair = 9,
                      .greeted_key = 10},
       std::string("01 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 03 00 00 00 00 00 00 00 ") + kNonce +
           " 04 00 00 00 05 00 00 00 06 00 00 00 87 00 00 00 08 00 00 00 09 00 00 00 0a 00 00 00"},
      {"join_group", JoinGroup{.link = 1, .token = 2, .group = ripc_service_id{1} << 62},
       "01 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 40"},
      {"group_joined", GroupJoined{.link = 1, .token = 2}, "01 00 00 00 02 00 00 00 00 00 00 00"},
      {"leave_group", LeaveGroup{.link = 1, .token = 2}, "01 00 00 00 02 00 00 00 00 00 00 00"},
      {"prove", Prove{.link = 1}, "01 00 00 00"},
      {"proved", Proved{.link = 1, .arrived = 1}, "01 00 00 00 01 00 00 00"},
      {"streamed", Streamed{.link = 1, .datagram = text("xyz")}, "01 00 00 00 78 79 7a"},
      {"want_stream", WantStream{.link = 7}, "07 00 00 00"},
  };
}

ripc_status encode_any(const Frame& frame, Bytes& out) {
  return std::visit([&](const auto& alternative) { return encode(alternative, out); }, frame);
}

Bytes encoded(const Frame& frame) {
  Bytes bytes;
  EXPECT_EQ(encode_any(frame, bytes), RIPC_OK);
  return bytes;
}

ripc_status decode_status(std::span<const std::byte> bytes) {
  const testing::ExactBytes copy(bytes);
  return decode(copy.span()).status().code();
}

// Whether a frame of this type is complete if it ends after `size` bytes of fields.
bool may_end_after(const Frame& frame, std::size_t size) {
  constexpr std::size_t kHello = 44;
  if (std::holds_alternative<Control>(frame)) return size > 12;
  if (std::holds_alternative<Streamed>(frame)) return size > 4;
  if (std::holds_alternative<Hello>(frame)) return size >= kHello && (size - kHello) % HandshakeOffer::kSize == 0;
  if (std::holds_alternative<HelloReply>(frame)) return size >= 28;
  return std::holds_alternative<Confirm>(frame);
}

TEST(SessionFrame, EveryTypeHasASample) { EXPECT_EQ(samples().size(), std::variant_size_v<Frame>); }

TEST(SessionFrame, FieldsLieWhereTheSpecificationSays) {
  for (const Sample& sample : samples()) {
    const Bytes bytes = encoded(sample.frame);
    ASSERT_GE(bytes.size(), kPrefixSize);
    EXPECT_EQ(load_le<std::uint32_t>(bytes.data()), bytes.size()) << sample.name;
    EXPECT_EQ(bytes[4], std::byte{kProtocolVersion}) << sample.name;
    EXPECT_EQ(std::to_integer<std::size_t>(bytes[5]), sample.frame.index() + 1) << sample.name;
    EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 6), 0u) << sample.name;
    EXPECT_EQ(to_hex(std::span(bytes).subspan(kPrefixSize)), sample.fields) << sample.name;
  }
}

TEST(SessionFrame, EveryFrameIsReadAsItWasWritten) {
  for (const Sample& sample : samples()) {
    const Bytes bytes = encoded(sample.frame);
    const Result<std::size_t> size = frame_size(std::span(bytes).first(kPrefixSize));
    ASSERT_TRUE(size.ok()) << sample.name;
    EXPECT_EQ(*size, bytes.size()) << sample.name;
    const Result<Frame> read = decode(bytes);
    ASSERT_TRUE(read.ok()) << sample.name;
    EXPECT_EQ(*read, sample.frame) << sample.name;
  }
}

TEST(SessionFrame, HandshakeFramesAreSmall) {
  for (const Sample& sample : samples()) {
    if (sample.frame.index() >= 3) continue;
    EXPECT_LE(encoded(sample.frame).size(), kMaxHandshakeSize) << sample.name;
  }
}

TEST(SessionFrame, MissingAndSurplusBytesAreRefused) {
  for (const Sample& sample : samples()) {
    const Bytes whole = encoded(sample.frame);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      Bytes shorter(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(decode_status(shorter), RIPC_CORRUPT) << sample.name << ' ' << size;
      // If the size field agrees, a shorter frame is valid only where it ends within bytes of variable length.
      if (size < kPrefixSize) continue;
      store_le<std::uint32_t>(shorter.data(), static_cast<std::uint32_t>(size));
      const bool is_whole = may_end_after(sample.frame, size - kPrefixSize);
      EXPECT_EQ(decode_status(shorter), is_whole ? RIPC_OK : RIPC_CORRUPT) << sample.name << ' ' << size;
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    if (may_end_after(sample.frame, longer.size() - kPrefixSize)) continue;
    store_le<std::uint32_t>(longer.data(), static_cast<std::uint32_t>(longer.size()));
    EXPECT_EQ(decode_status(longer), RIPC_CORRUPT) << sample.name;
  }
}

TEST(SessionFrame, AnotherVersionIsDistinguishedFromNonsense) {
  Bytes bytes = encoded(Bye{});
  bytes[4] = std::byte{1};
  EXPECT_EQ(decode_status(bytes), RIPC_VERSION_MISMATCH);
  EXPECT_EQ(frame_size(bytes).status().code(), RIPC_VERSION_MISMATCH);
}

TEST(SessionFrame, SizesBeyondTheLimitAreRefusedBeforeAnythingIsRead) {
  Bytes bytes = encoded(Bye{});
  for (const std::uint32_t size : {0u, 7u, 65537u, UINT32_MAX}) {
    store_le<std::uint32_t>(bytes.data(), size);
    EXPECT_EQ(frame_size(bytes).status().code(), RIPC_CORRUPT) << size;
  }
}

TEST(SessionFrame, UnknownTypesAndZerosThatAreNoneAreRefused) {
  Bytes bytes = encoded(Bye{});
  for (const int type : {0, 14, 255}) {
    bytes[5] = static_cast<std::byte>(type);
    EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT) << type;
  }
  bytes = encoded(Bye{});
  bytes[6] = std::byte{1};
  EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT);
}

TEST(SessionFrame, ValuesThatTheirCommentsExcludeAreNeitherWrittenNorRead) {
  const Hello hello{.context = 1, .session = 1, .number = 0, .role = 1, .port = 1};
  const Bytes many((HandshakeOffer::kMost + 1) * HandshakeOffer::kSize);
  const auto changed = [](auto frame, auto change) {
    change(frame);
    return Frame(frame);
  };
  const Opened opened{.request = 1,
                      .status = RIPC_OK,
                      .link = 1,
                      .incarnation = 1,
                      .port = 1,
                      .packet_limit = kMinPacketLimit,
                      .credit = 1};
  const DatagramOpened datagram_opened{
      .request = 1, .link = 1, .queue_pair = 1, .packet_limit = kMinPacketLimit, .greeted_pair = 1};
  const OpenDatagram open_datagram{
      .request = 1, .service = 1, .token = 1, .link = 1, .queue_pair = 1, .mtu = kMinDatagramMtu};
  const Open open{.request = 1, .service = 1, .token = 1, .link = 1, .port = 1};
  const std::vector<Frame> excluded{
      changed(hello, [](Hello& frame) { frame.context = 0; }),
      changed(hello, [](Hello& frame) { frame.session = 0; }),
      changed(hello, [](Hello& frame) { frame.role = 0; }),
      changed(hello, [](Hello& frame) { frame.role = 7; }),
      changed(hello, [](Hello& frame) { frame.port = 0; }),
      changed(hello, [](Hello& frame) { frame.port = 65536; }),
      changed(hello, [](Hello& frame) { frame.abilities = kAllAbilities + 1; }),
      changed(hello, [&](Hello& frame) { frame.offers = std::span(many).first(HandshakeOffer::kSize - 1); }),
      changed(hello, [&](Hello& frame) { frame.offers = many; }),
      Frame(HelloReply{.context = 1, .abilities = kAllAbilities + 1}),
      Frame(HelloReply{.context = 1, .choice = HandshakeOffer::kMost + 1}),
      Frame(HelloReply{.context = 1, .message = std::span(many).first(1)}),
      changed(open, [](Open& frame) { frame.link = 0; }),
      changed(open, [](Open& frame) { frame.port = 0; }),
      changed(opened, [](Opened& frame) { frame.port = 0; }),
      changed(opened, [](Opened& frame) { --frame.packet_limit; }),
      changed(opened, [](Opened& frame) { frame.packet_limit = datagram::kMaxRecordPacket + 1; }),
      changed(datagram_opened, [](DatagramOpened& frame) { --frame.packet_limit; }),
      changed(open_datagram, [](OpenDatagram& frame) { --frame.mtu; }),
      changed(BulkPort{}, [](BulkPort& frame) { frame.port = 65536; }),
      changed(opened, [](Opened& frame) { frame.status = RIPC_NO_SERVICE; }),
      Frame(Control{.link = 1, .destination = 1, .packet = {}}),
      Frame(JoinGroup{.link = 1, .token = 0, .group = ripc_service_id{1} << 62}),
      Frame(JoinGroup{.link = 1, .token = 1, .group = 1}),
      Frame(GroupJoined{.link = 1, .token = 0}),
      Frame(LeaveGroup{.link = 1, .token = 0}),
      Frame(Proved{.link = 1, .arrived = 2}),
      Frame(Bye{.status = RIPC_PEER_DEAD}),
      Frame(Streamed{.link = 1, .datagram = {}}),
  };
  for (const Frame& frame : {Frame(opened), Frame(datagram_opened), Frame(open_datagram)}) (void)encoded(frame);
  for (const Frame& frame : excluded) {
    Bytes bytes;
    EXPECT_EQ(encode_any(frame, bytes), RIPC_INVALID_ARGUMENT) << frame.index();
    EXPECT_TRUE(bytes.empty());
  }
  Bytes bytes = encoded(Fenced{.request = 1, .status = RIPC_OK});
  store_le<std::uint32_t>(bytes.data() + bytes.size() - 4, RIPC_SYSTEM + 1);
  EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT);
}

TEST(SessionFrame, TheLargestStreamedDatagramFitsAndOneByteMoreDoesNot) {
  Bytes datagram(kMaxStreamed + 1);
  Bytes bytes;
  EXPECT_EQ(encode(Streamed{.link = 1, .datagram = datagram}, bytes), RIPC_TOO_LARGE);
  datagram.pop_back();
  EXPECT_EQ(encode(Streamed{.link = 1, .datagram = datagram}, bytes), RIPC_OK);
  EXPECT_EQ(bytes.size(), kMaxSize);
  EXPECT_EQ(decode_status(bytes), RIPC_OK);
}

TEST(SessionFrame, TheLargestControlPacketFitsAndOneByteMoreDoesNot) {
  Bytes packet(kMaxControlPacket + 1);
  Bytes bytes;
  EXPECT_EQ(encode(Control{.link = 1, .destination = 1, .packet = packet}, bytes), RIPC_TOO_LARGE);
  packet.pop_back();
  EXPECT_EQ(encode(Control{.link = 1, .destination = 1, .packet = packet}, bytes), RIPC_OK);
  EXPECT_EQ(bytes.size(), kMaxSize);
  EXPECT_EQ(decode_status(bytes), RIPC_OK);
}

}  // namespace
}  // namespace ripc::internal::wire::session_control
