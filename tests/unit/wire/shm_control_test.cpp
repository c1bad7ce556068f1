// SPDX-License-Identifier: Apache-2.0
#include "wire/shm_control.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "wire/bytes.hpp"
#include "wire_helpers.hpp"

namespace ripc::internal::wire::shm_control {
namespace {

using testing::Bytes;
using testing::text;
using testing::to_bytes;
using testing::to_hex;

// Decodes a copy of exact size. A Control's packet must lie inside the datagram.
ripc_status decode_status(std::span<const std::byte> datagram) {
  const testing::ExactBytes copy(datagram);
  const Result<Message> result = decode(copy.span());
  if (!result.ok()) return result.status().code();
  if (const auto* carried = std::get_if<Control>(&result.value())) {
    EXPECT_GE(carried->packet.data(), copy.span().data() + kPrefixSize + 16);
    EXPECT_EQ(carried->packet.data() + carried->packet.size(), copy.span().data() + copy.span().size());
  }
  return RIPC_OK;
}

struct Sample {
  const char* name;
  Message message;
  std::string fields;  // the bytes after the header
};

std::vector<Sample> samples() {
  return {
      {"hello", Hello{.context = 0x0102030405060708, .pid = 0x0a0b0c0d},
       "08 07 06 05 04 03 02 01 0d 0c 0b 0a 00 00 00 00"},
      {"hello_reply", HelloReply{.context = 1, .pid = 2, .status = RIPC_REFUSED},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 09 00 00 00"},
      {"open", Open{.request = 1, .service = 2, .link = 3},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"},
      {"opened",
       Opened{.request = 1, .link = 2, .incarnation = 3, .cells = 4, .data_bytes = 5, .state_slot = 6, .flags = 7},
       "01 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 05 00 00 00 "
       "06 00 00 00 07 00 00 00"},
      {"room", Room{.link = 1}, "01 00 00 00 00 00 00 00"},
      {"transfer_done", TransferDone{.link = 2}, "02 00 00 00 00 00 00 00"},
      {"close_link", CloseLink{.link = 3}, "03 00 00 00 00 00 00 00"},
      {"link_closed", LinkClosed{.link = 4}, "04 00 00 00 00 00 00 00"},
      {"arena", Arena{.id = 1, .flags = kArenaHugePages, .size = 0x0000'0001'0000'0000},
       "01 00 00 00 01 00 00 00 00 00 00 00 01 00 00 00"},
      {"arena_gone", ArenaGone{.id = 5}, "05 00 00 00"},
      {"bounce_request", BounceRequest{.link = 1, .key = 2, .offset = 3, .length = 4, .sequence = 5},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 05 00 00 00 "
       "00 00 00 00"},
      {"bounce_data", BounceData{.link = 1, .key = 2, .offset = 3, .status = RIPC_REVOKED, .sequence = 5, .length = 6},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 17 00 00 00 05 00 00 00 06 00 00 00 "
       "00 00 00 00"},
      {"control", Control{.link = 1, .destination = 2, .packet = text("xyz")},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 78 79 7a"},
      {"fence", Fence{.request = 1, .service = 2, .incarnation = 3},
       "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00"},
      {"fenced", Fenced{.request = 1, .status = RIPC_NO_SERVICE}, "01 00 00 00 00 00 00 00 07 00 00 00"},
      {"bye", Bye{}, ""},
  };
}

ripc_status encode_any(const Message& message, Bytes& out) {
  return std::visit([&](const auto& alternative) { return encode(alternative, out); }, message);
}

Bytes encoded(const Message& message) {
  Bytes bytes;
  EXPECT_EQ(encode_any(message, bytes), RIPC_OK);
  return bytes;
}

TEST(ControlCodec, TheSamplesHaveEveryTypeOnce) {
  const std::vector<Sample> all = samples();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (std::size_t index = 0; index < all.size(); ++index) EXPECT_EQ(all[index].message.index(), index);
}

TEST(ControlCodec, EachMessageIsByteForByteAsSpecified) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const Bytes bytes = encoded(sample.message);
    ASSERT_GE(bytes.size(), kPrefixSize);
    EXPECT_EQ(bytes[0], std::byte{kProtocolVersion});
    EXPECT_EQ(std::to_integer<std::size_t>(bytes[1]), sample.message.index() + 1);
    EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 2), 0u);
    EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 4), bytes.size());
    EXPECT_EQ(to_hex(std::span(bytes).subspan(kPrefixSize)), sample.fields);
  }
}

TEST(ControlCodec, EachMessageArrivesAsItWasSent) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const Bytes bytes = encoded(sample.message);
    const Result<Message> result = decode(bytes);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result.value(), sample.message);
  }
}

TEST(ControlCodec, EncodeReplacesWhatTheVectorHeldAndKeepsItsMemory) {
  Bytes bytes(1000, std::byte{0xff});
  const std::byte* memory = bytes.data();
  ASSERT_EQ(encode(Room{.link = 1}, bytes), RIPC_OK);
  EXPECT_EQ(bytes.size(), 16u);
  EXPECT_EQ(bytes.data(), memory);
  EXPECT_EQ(decode(bytes).value(), Message(Room{.link = 1}));
}

TEST(ControlCodec, TheLargestPacketFitsADatagramAndOneByteMoreIsTooLarge) {
  const Bytes packet(kMaxControlPacket + 1, std::byte{0x5a});
  Bytes bytes;
  Control message{.link = 1, .destination = 2, .packet = std::span(packet).first(kMaxControlPacket)};
  ASSERT_EQ(encode(message, bytes), RIPC_OK);
  EXPECT_EQ(bytes.size(), kMaxSize);
  EXPECT_EQ(decode(bytes).value(), Message(message));
  message.packet = packet;
  EXPECT_EQ(encode(message, bytes), RIPC_TOO_LARGE);
  EXPECT_TRUE(bytes.empty());
}

TEST(ControlCodec, EncodeRefusesWhatDecodeWouldRefuse) {
  const Message refused[] = {
      Hello{.flags = 5},
      HelloReply{.flags = 5},
      HelloReply{.status = static_cast<ripc_status>(RIPC_SYSTEM + 1)},
      Open{.link = 0},
      Open{.link = 1, .reserved = 1},
      Open{.link = 1, .reserved2 = 1},
      Opened{.status = RIPC_REFUSED, .incarnation = 1},
      Arena{.id = 0, .size = 1},
      Arena{.id = 1, .size = 0},
      Arena{.id = 1, .flags = 2, .size = 1},
      BounceRequest{.length = 0},
      BounceRequest{.length = 1, .reserved = 1},
      BounceData{.status = static_cast<ripc_status>(RIPC_SYSTEM + 1)},
      Control{},
      Fenced{.status = static_cast<ripc_status>(RIPC_SYSTEM + 1)},
  };
  for (const Message& message : refused) {
    Bytes bytes(3);
    EXPECT_EQ(encode_any(message, bytes), RIPC_INVALID_ARGUMENT) << message.index();
    EXPECT_TRUE(bytes.empty());
  }
}

TEST(ControlCodec, ARefusedOpenEchoesItsRequestAndLink) {
  const Message message = Opened{.request = 8, .status = RIPC_NO_SERVICE, .link = 9};
  EXPECT_EQ(decode(encoded(message)).value(), message);
}

TEST(ControlCodec, EveryStatusOfThePublicHeaderTravels) {
  for (std::uint32_t code = RIPC_OK; code <= RIPC_SYSTEM; ++code) {
    const Message message = Fenced{.request = 1, .status = static_cast<ripc_status>(code)};
    EXPECT_EQ(decode(encoded(message)).value(), message);
  }
}

TEST(ControlCodec, RandomFieldValuesArriveAsTheyWereSent) {
  std::mt19937_64 random = testing::fixed_random(20240602);
  const auto u32 = [&] { return static_cast<std::uint32_t>(random()); };
  const auto status = [&] { return static_cast<ripc_status>(random() % (RIPC_SYSTEM + 1)); };
  for (int round = 0; round < 500; ++round) {
    Bytes packet(1 + random() % 300);
    for (std::byte& byte : packet) byte = static_cast<std::byte>(random());
    const Message messages[] = {
        Hello{.context = random(), .pid = u32()},
        HelloReply{.context = random(), .pid = u32(), .status = status()},
        Open{.request = random(), .service = random(), .link = random() | 1},
        Opened{.request = random(),
               .link = random(),
               .incarnation = random(),
               .cells = u32(),
               .data_bytes = u32(),
               .state_slot = u32(),
               .flags = u32()},
        Room{.link = random()},
        TransferDone{.link = random()},
        CloseLink{.link = random()},
        LinkClosed{.link = random()},
        Arena{.id = u32() | 1, .flags = u32() & 1, .size = random() | 1},
        ArenaGone{.id = u32()},
        BounceRequest{.link = random(), .key = random(), .offset = random(), .length = random() | 1, .sequence = u32()},
        BounceData{.link = random(),
                   .key = random(),
                   .offset = random(),
                   .status = status(),
                   .sequence = u32(),
                   .length = random()},
        Control{.link = random(), .destination = random(), .packet = packet},
        Fence{.request = random(), .service = random(), .incarnation = random()},
        Fenced{.request = random(), .status = status()},
    };
    for (const Message& message : messages) {
      const Bytes bytes = encoded(message);
      const Result<Message> result = decode(bytes);
      ASSERT_TRUE(result.ok()) << message.index();
      ASSERT_EQ(result.value(), message) << message.index();
    }
  }
}

// ---- Hostile bytes -------------------------------------------------------------------------------------------

// A valid datagram with one number overwritten.
template <typename T>
Bytes changed(const Message& message, std::size_t offset, T value) {
  Bytes bytes = encoded(message);
  store_le<T>(bytes.data() + offset, value);
  return bytes;
}

TEST(ControlHostile, EachRejectionReasonIsRecognised) {
  constexpr std::uint32_t kUnknownStatus = RIPC_SYSTEM + 1;
  const Message hello = Hello{}, hello_reply = HelloReply{}, open = Open{.link = 1};
  const Message opened = Opened{.status = RIPC_REFUSED, .link = 1};
  const Message arena = Arena{.id = 1, .size = 1}, bounce_request = BounceRequest{.length = 1};
  const Message bounce_data = BounceData{}, fenced = Fenced{}, bye = Bye{}, room = Room{};
  struct Case {
    const char* reason;
    Bytes datagram;
    ripc_status status;
  };
  const Case cases[] = {
      {"older version", changed<std::uint8_t>(bye, 0, kProtocolVersion - 1), RIPC_VERSION_MISMATCH},
      {"newer version", changed<std::uint8_t>(bye, 0, kProtocolVersion + 1), RIPC_VERSION_MISMATCH},
      {"newer version, cut off", to_bytes({kProtocolVersion + 1}), RIPC_VERSION_MISMATCH},
      {"empty", {}, RIPC_CORRUPT},
      {"header cut off", to_bytes({kProtocolVersion, 16, 0, 0, 7, 0, 0}), RIPC_CORRUPT},
      {"type 0", changed<std::uint8_t>(bye, 1, 0), RIPC_CORRUPT},
      {"type 17", changed<std::uint8_t>(bye, 1, 17), RIPC_CORRUPT},
      {"type 255", changed<std::uint8_t>(bye, 1, 255), RIPC_CORRUPT},
      {"zero field", changed<std::uint16_t>(bye, 2, 0x0100), RIPC_CORRUPT},
      {"size too small", changed<std::uint32_t>(room, 4, 15), RIPC_CORRUPT},
      {"size too large", changed<std::uint32_t>(room, 4, 17), RIPC_CORRUPT},
      {"a field missing", to_bytes({kProtocolVersion, 5, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0}), RIPC_CORRUPT},
      {"all fields missing", to_bytes({kProtocolVersion, 5, 0, 0, 8, 0, 0, 0}), RIPC_CORRUPT},
      {"bytes left over", to_bytes({kProtocolVersion, 16, 0, 0, 9, 0, 0, 0, 0}), RIPC_CORRUPT},
      {"hello flags", changed<std::uint32_t>(hello, 20, 5), RIPC_CORRUPT},
      {"hello_reply flags", changed<std::uint32_t>(hello_reply, 20, 5), RIPC_CORRUPT},
      {"hello_reply status", changed<std::uint32_t>(hello_reply, 24, kUnknownStatus), RIPC_CORRUPT},
      {"open link 0", changed<std::uint64_t>(open, 24, 0), RIPC_CORRUPT},
      {"open reserved", changed<std::uint32_t>(open, 32, 1), RIPC_CORRUPT},
      {"open reserved2", changed<std::uint32_t>(open, 36, 1), RIPC_CORRUPT},
      {"opened status", changed<std::uint32_t>(opened, 16, kUnknownStatus), RIPC_CORRUPT},
      {"opened status of all ones", changed<std::uint32_t>(opened, 16, UINT32_MAX), RIPC_CORRUPT},
      {"refused with incarnation", changed<std::uint64_t>(opened, 28, 1), RIPC_CORRUPT},
      {"refused with cells", changed<std::uint32_t>(opened, 36, 1), RIPC_CORRUPT},
      {"refused with data_bytes", changed<std::uint32_t>(opened, 40, 1), RIPC_CORRUPT},
      {"refused with state_slot", changed<std::uint32_t>(opened, 44, 1), RIPC_CORRUPT},
      {"refused with flags", changed<std::uint32_t>(opened, 48, 1), RIPC_CORRUPT},
      {"arena id 0", changed<std::uint32_t>(arena, 8, 0), RIPC_CORRUPT},
      {"arena flags", changed<std::uint32_t>(arena, 12, 2), RIPC_CORRUPT},
      {"arena size 0", changed<std::uint64_t>(arena, 16, 0), RIPC_CORRUPT},
      {"bounce_request length 0", changed<std::uint64_t>(bounce_request, 32, 0), RIPC_CORRUPT},
      {"bounce_request reserved", changed<std::uint32_t>(bounce_request, 44, 1), RIPC_CORRUPT},
      {"bounce_data status", changed<std::uint32_t>(bounce_data, 32, kUnknownStatus), RIPC_CORRUPT},
      {"control without packet",
       to_bytes({kProtocolVersion, 13, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}),
       RIPC_CORRUPT},
      {"fenced status", changed<std::uint32_t>(fenced, 16, kUnknownStatus), RIPC_CORRUPT},
  };
  for (const Case& test : cases) EXPECT_EQ(decode_status(test.datagram), test.status) << test.reason;
}

TEST(ControlHostile, ADatagramOverTheLimitIsCorrupt) {
  const Bytes packet(kMaxControlPacket, std::byte{1});
  Bytes bytes = encoded(Control{.link = 1, .destination = 2, .packet = packet});
  bytes.push_back(std::byte{1});
  store_le<std::uint32_t>(bytes.data() + 4, static_cast<std::uint32_t>(bytes.size()));
  EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT);
}

TEST(ControlHostile, EveryTruncationAndEveryExtensionIsCorrupt) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    Bytes bytes = encoded(sample.message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decode_status(std::span(bytes).first(size)), RIPC_CORRUPT) << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT);
  }
}

TEST(ControlHostile, ATruncationThatAlsoLiesAboutItsSizeIsCorrupt) {
  for (const Sample& sample : samples()) {
    if (std::holds_alternative<Control>(sample.message)) continue;  // its packet may have any length
    SCOPED_TRACE(sample.name);
    Bytes bytes = encoded(sample.message);
    while (bytes.size() > kPrefixSize) {
      bytes.pop_back();
      store_le<std::uint32_t>(bytes.data() + 4, static_cast<std::uint32_t>(bytes.size()));
      EXPECT_EQ(decode_status(bytes), RIPC_CORRUPT) << bytes.size();
    }
  }
}

TEST(ControlHostile, EverySingleByteChangeIsRefusedOrUnderstoodExactly) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const Bytes original = encoded(sample.message);
    for (std::size_t at = 0; at < original.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        Bytes bytes = original;
        bytes[at] = static_cast<std::byte>(value);
        const ripc_status status = decode_status(bytes);
        if (at == 0 && value != kProtocolVersion) {
          ASSERT_EQ(status, RIPC_VERSION_MISMATCH);
        } else if (status == RIPC_OK) {
          ASSERT_EQ(encoded(decode(bytes).value()), bytes) << at << " " << value;
        } else {
          ASSERT_EQ(status, RIPC_CORRUPT) << at << " " << value;
        }
      }
    }
  }
}

TEST(ControlHostile, AFailureHasASentence) { EXPECT_FALSE(decode({}).status().text().empty()); }

}  // namespace
}  // namespace ripc::internal::wire::shm_control
