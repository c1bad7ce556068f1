// SPDX-License-Identifier: Apache-2.0
// What a packet carries from the encoder to the decoder. packet_hostile_test.cpp tests what the decoder refuses.
#include "wire/packet.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <type_traits>
#include <variant>

#include "wire_helpers.hpp"

namespace ripc::internal::wire {
namespace {

using testing::Bytes;
using testing::flatten;
using testing::kSource;
using testing::text;
using testing::to_bytes;
using testing::to_hex;
using testing::to_string;

constexpr Descriptor kDescriptor{.key = 0x1111, .location = 0x2222'2222'2222, .length = 0x3333'3333'3333'3333};

TEST(PacketEncoder, TheShortExampleIsByteForByteAsSpecified) {
  Encoder encoder(PacketKind::message, 7, 0x8000'0000'0000'0101);
  ASSERT_TRUE(encoder.add_payload(text("ping")));
  ASSERT_TRUE(encoder.add_payload(text("42")));
  const Bytes bytes = flatten(encoder);
  EXPECT_EQ(bytes, to_bytes({3,    1,    0,    2,    7,    0,   0, 0,     // version, kind, flags, items, tag
                             1,    1,    0,    0,    0,    0,   0, 0x80,  // source
                             4,    0,    0,    0,    2,    0,   0, 0,     // table
                             0x70, 0x69, 0x6e, 0x67, 0x34, 0x32}));
}

#ifdef RIPC_SOURCE_DIR
TEST(PacketEncoder, TheExampleInTheSpecificationIsItsOutput) {
  std::ifstream file(RIPC_SOURCE_DIR "/docs/wire.md");
  const std::string specification{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(specification.empty());
  Encoder encoder(PacketKind::message, 7, 0x8000'0000'0000'0101);
  ASSERT_TRUE(encoder.add_payload(text("ping")));
  ASSERT_TRUE(encoder.add_payload(text("42")));
  const Bytes bytes = flatten(encoder);
  const std::span<const std::byte> all = bytes;
  const std::pair<std::size_t, std::size_t> fields[] = {{0, 4}, {4, 4}, {8, 8}, {16, 4}, {20, 4}, {24, 4}, {28, 2}};
  for (const auto& [offset, size] : fields) {
    char line[16];
    std::snprintf(line, sizeof(line), "\n%02zx  ", offset);
    const std::string expected = line + to_hex(all.subspan(offset, size)) + "  ";
    EXPECT_NE(specification.find(expected), std::string::npos) << "docs/wire.md has no line" << expected;
  }
}
#endif

TEST(PacketEncoder, EachItemTypeHasItsSpecifiedBody) {
  struct Case {
    const char* name;
    std::uint32_t entry;
    std::string body;
    bool (*add)(Encoder&);
  };
  const Case cases[] = {
      {"payload", 0x00000002, "61 62", [](Encoder& e) { return e.add_payload(text("ab")); }},
      {"descriptor", 0x10000018, "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00",
       [](Encoder& e) {
         return e.add(Descriptor{1, 2, 3});
       }},
      {"returned", 0x2000000c, "01 00 00 00 02 00 00 00 00 00 00 00",
       [](Encoder& e) {
         return e.add(Returned{1, 2});
       }},
      {"carried", 0x2000000e, "01 00 00 00 02 00 00 00 00 00 00 00 61 62",
       [](Encoder& e) { return e.add_carried(1, text("ab")); }},
      {"directed", 0x3000001c, "01 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00",
       [](Encoder& e) {
         return e.add(Directed{1, {2, 3, 4}});
       }},
      {"grant", 0x40000018, "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00",
       [](Encoder& e) {
         return e.add(Grant{1, 2, 3});
       }},
      {"request", 0x50000008, "08 07 06 05 04 03 02 01", [](Encoder& e) { return e.add_request(0x0102030405060708); }},
      {"reply", 0x60000008, "08 07 06 05 04 03 02 01", [](Encoder& e) { return e.add_reply(0x0102030405060708); }},
      {"handle", 0x70000008, "08 07 06 05 04 03 02 01", [](Encoder& e) { return e.add_handle(0x0102030405060708); }},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    Encoder encoder(PacketKind::message, 0, 1);
    ASSERT_TRUE(test.add(encoder));
    const Bytes bytes = flatten(encoder);
    ASSERT_GE(bytes.size(), 20u);
    EXPECT_EQ(encoder.size(), bytes.size());
    EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 16), test.entry);
    EXPECT_EQ(to_hex(std::span(bytes).subspan(20)), test.body);
  }
}

TEST(PacketEncoder, PayloadIsSentFromTheCallersMemory) {
  const std::string payload = "stays where it is";
  Encoder encoder(PacketKind::message, 0, kSource);
  ASSERT_TRUE(encoder.add_payload(text(payload)));
  const auto ranges = encoder.finish();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].size(), packet_size(1, 0));
  EXPECT_EQ(ranges[1].data(), text(payload).data());
  EXPECT_EQ(ranges[1].size(), payload.size());
}

TEST(PacketEncoder, AdjacentEncoderOwnedBytesAreOneRange) {
  Encoder leading(PacketKind::message, 0, kSource);
  ASSERT_TRUE(leading.add_reply(1) && leading.add_payload({}) && leading.add(kDescriptor));
  ASSERT_TRUE(leading.add_payload(text("x")));
  ASSERT_TRUE(leading.add(Returned{0, 1}) && leading.add_payload({}) && leading.add(kDescriptor));
  const auto ranges = leading.finish();
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].size(), packet_size(7, 8 + kDescriptorSize));
  EXPECT_EQ(ranges[1].size(), 1u);
  EXPECT_EQ(ranges[2].size(), kReturnedSize + kDescriptorSize);

  Encoder only(PacketKind::message, 0, kSource);
  EXPECT_EQ(only.finish().size(), 1u);
}

TEST(PacketEncoder, FinishMayBeAskedAgain) {
  Encoder encoder(PacketKind::message, 3, kSource);
  for (std::size_t index = 0; index < kMaxPacketItems; ++index) ASSERT_TRUE(encoder.add(Descriptor{index, 1, 2}));
  const Bytes first = flatten(encoder);
  EXPECT_EQ(flatten(encoder), first);
  EXPECT_EQ(encoder.size(), first.size());
}

TEST(PacketEncoder, TheSizeFollowsEveryItem) {
  Encoder encoder(PacketKind::message, 0, kSource);
  EXPECT_EQ(encoder.size(), kHeaderSize);
  ASSERT_TRUE(encoder.add_payload(text("abc")));
  EXPECT_EQ(encoder.size(), packet_size(1, 3));
  ASSERT_TRUE(encoder.add(kDescriptor));
  EXPECT_EQ(encoder.size(), packet_size(2, 27));
}

TEST(PacketEncoder, RefusesMoreItemsThanAPacketHoldsAndStaysAsItWas) {
  Encoder encoder(PacketKind::message, 0, kSource);
  for (std::size_t index = 0; index < kMaxPacketItems; ++index) ASSERT_TRUE(encoder.add_payload(text("x")));
  const std::size_t size = encoder.size();
  EXPECT_FALSE(encoder.add_payload(text("x")));
  EXPECT_FALSE(encoder.add(kDescriptor));
  EXPECT_FALSE(encoder.add(Grant{}));
  EXPECT_FALSE(encoder.add(Returned{}));
  EXPECT_FALSE(encoder.add_carried(0, text("x")));
  EXPECT_FALSE(encoder.add(Directed{}));
  EXPECT_FALSE(encoder.add_request(1));
  EXPECT_FALSE(encoder.add_reply(1));
  EXPECT_FALSE(encoder.add_handle(1));
  EXPECT_EQ(encoder.size(), size);
  EXPECT_EQ(encoder.finish().size(), kMaxPacketItems + 1);
}

TEST(PacketEncoder, CarriesBytesForAsManyReturnBuffersAsThereMayBe) {
  Encoder encoder(PacketKind::message, 0, kSource);
  for (std::size_t index = 0; index < RIPC_MAX_ITEMS - RIPC_MAX_RETURNS; ++index)
    ASSERT_TRUE(encoder.add_payload(text("x")));
  for (std::uint32_t index = 0; index < RIPC_MAX_RETURNS; ++index) ASSERT_TRUE(encoder.add_carried(index, text("yz")));
  ASSERT_TRUE(encoder.add_reply(1) && encoder.add_request(2));
  for (std::size_t index = 0; index < RIPC_MAX_RETURNS; ++index) ASSERT_TRUE(encoder.add(Grant{}));
  const Bytes bytes = flatten(encoder);
  EXPECT_EQ(encoder.size(), bytes.size());
  Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  const auto& last = packet.items()[RIPC_MAX_ITEMS - 1];
  EXPECT_EQ(packet.returned(last), (Returned{RIPC_MAX_RETURNS - 1, 2}));
  EXPECT_EQ(to_string(packet.carried(last)), "yz");
}

TEST(PacketEncoder, CarriesNoMoreThanItHasRoomFor) {
  const std::byte byte{};
  Encoder encoder(PacketKind::message, 0, kSource);
  EXPECT_FALSE(encoder.add_carried(0, {&byte, kMaxItemBody - kReturnedSize + 1}));
  EXPECT_EQ(encoder.size(), kHeaderSize);
  ASSERT_TRUE(encoder.add_payload(text("first")));  // what comes before any payload takes no range of its own
  std::size_t carried = 0;
  while (encoder.add_carried(0, text("x"))) ++carried;
  EXPECT_EQ(carried, std::size_t{RIPC_MAX_RETURNS});
  while (encoder.add_payload(text("y"))) ++carried;
  EXPECT_EQ(carried, kMaxPacketItems - 1);
  EXPECT_EQ(flatten(encoder).size(), encoder.size());
}

TEST(PacketEncoder, RefusesAnItemLargerThanATableEntryCanSay) {
  const std::byte byte{};
  Encoder encoder(PacketKind::message, 0, kSource);
  // Only the sizes matter: the encoder does not touch payload.
  EXPECT_FALSE(encoder.add_payload({&byte, std::size_t{kMaxItemBody} + 1}));
  EXPECT_EQ(encoder.size(), kHeaderSize);
  EXPECT_TRUE(encoder.add_payload({&byte, kMaxItemBody}));
  EXPECT_EQ(encoder.size(), packet_size(1, kMaxItemBody));
  EXPECT_EQ(load_le<std::uint32_t>(encoder.finish()[0].data() + kHeaderSize), kMaxItemBody);
}

TEST(PacketEncoder, CannotBeCopiedBecauseItsRangesPointIntoIt) {
  EXPECT_FALSE(std::is_copy_constructible_v<Encoder>);
  EXPECT_FALSE(std::is_copy_assignable_v<Encoder>);
}

TEST(PacketDecoder, AnEmptyMessageHasNoItems) {
  Encoder encoder(PacketKind::message, 0xffff'ffff, kSource);
  const Bytes bytes = flatten(encoder);
  EXPECT_EQ(bytes.size(), kHeaderSize);
  Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  EXPECT_EQ(packet.kind(), PacketKind::message);
  EXPECT_EQ(packet.tag(), 0xffff'ffffu);
  EXPECT_EQ(packet.source(), kSource);
  EXPECT_TRUE(packet.items().empty());
}

TEST(PacketDecoder, EmptyItemsKeepTheirPlaces) {
  Encoder encoder(PacketKind::message, 0, kSource);
  ASSERT_TRUE(encoder.add_payload({}) && encoder.add_payload(text("middle")) && encoder.add_payload({}));
  const Bytes bytes = flatten(encoder);
  Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  ASSERT_EQ(packet.items().size(), 3u);
  EXPECT_EQ(packet.items()[0].length, 0u);
  EXPECT_EQ(to_string(packet.body(packet.items()[1])), "middle");
  EXPECT_EQ(packet.items()[2].length, 0u);
  EXPECT_TRUE(packet.body(packet.items()[2]).empty());
}

TEST(PacketDecoder, ItemsAreViewsOfThePacketsBytes) {
  Encoder encoder(PacketKind::message, 0, kSource);
  ASSERT_TRUE(encoder.add_payload(text("here")));
  const Bytes bytes = flatten(encoder);
  Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  EXPECT_EQ(packet.body(packet.items()[0]).data(), bytes.data() + packet_size(1, 0));
}

TEST(PacketDecoder, TheLargestMessageIsAReplyWithAllItemsAndAllReturnBuffers) {
  Encoder encoder(PacketKind::message, 0, kSource);
  ASSERT_TRUE(encoder.add_reply(1) && encoder.add_request(2));
  for (std::uint64_t index = 0; index < RIPC_MAX_RETURNS; ++index) ASSERT_TRUE(encoder.add(Grant{index, 0, 1}));
  for (std::uint64_t index = 0; index < RIPC_MAX_ITEMS; ++index) ASSERT_TRUE(encoder.add(Descriptor{index, 0, 1}));
  const Bytes bytes = flatten(encoder);
  Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  ASSERT_EQ(packet.items().size(), kMaxPacketItems);
  EXPECT_EQ(packet.grant(packet.items()[2 + 15]).key, 15u);
  EXPECT_EQ(packet.descriptor(packet.items()[kMaxPacketItems - 1]).key, 63u);
}

TEST(PacketDecoder, ANotificationCarriesAHandleAndUpToAllItems) {
  Encoder encoder(PacketKind::notification, 0, kSource);
  ASSERT_TRUE(encoder.add_handle(77));
  for (std::size_t index = 0; index < RIPC_MAX_ITEMS; ++index) ASSERT_TRUE(encoder.add_payload(text("a")));
  const Bytes bytes = flatten(encoder);
  Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  EXPECT_EQ(packet.kind(), PacketKind::notification);
  EXPECT_EQ(packet.items().size(), RIPC_MAX_ITEMS + 1u);
  EXPECT_EQ(packet.number(packet.items()[0]), 77u);
}

TEST(PacketDecoder, ARequestMayComeAfterItsGrantsOrWithoutAny) {
  Encoder after(PacketKind::message, 0, kSource);
  ASSERT_TRUE(after.add(Grant{1, 2, 3}) && after.add_request(4));
  Packet packet;
  const Bytes with_grant = flatten(after);
  EXPECT_TRUE(packet.decode(with_grant).ok());
  Encoder alone(PacketKind::message, 0, kSource);
  ASSERT_TRUE(alone.add_request(4));
  const Bytes without = flatten(alone);
  EXPECT_TRUE(packet.decode(without).ok());
}

TEST(PacketDecoder, APacketObjectMayDecodeAgain) {
  Encoder first(PacketKind::message, 1, 10);
  ASSERT_TRUE(first.add_payload(text("first")) && first.add_payload(text("x")));
  Encoder second(PacketKind::notification, 2, 20);
  ASSERT_TRUE(second.add_handle(3));
  const Bytes first_bytes = flatten(first);
  const Bytes second_bytes = flatten(second);
  Packet packet;
  ASSERT_TRUE(packet.decode(first_bytes).ok());
  ASSERT_TRUE(packet.decode(second_bytes).ok());
  EXPECT_EQ(packet.kind(), PacketKind::notification);
  EXPECT_EQ(packet.tag(), 2u);
  EXPECT_EQ(packet.source(), 20u);
  ASSERT_EQ(packet.items().size(), 1u);
  EXPECT_EQ(packet.number(packet.items()[0]), 3u);
}

// ---- Round trips of made-up packets --------------------------------------------------------------------------

using Item = std::variant<std::string, Descriptor, Returned, Directed, Grant>;

Item random_item(std::mt19937_64& random, bool grants) {
  switch (random() % (grants ? 6 : 4)) {
    case 0:
      return Descriptor{random(), random(), random()};
    case 1:
      return Returned{static_cast<std::uint32_t>(random()), random()};
    case 2:
      return Directed{static_cast<std::uint32_t>(random()), {random(), random(), random()}};
    case 3:
      return std::string(random() % 200, static_cast<char>(random()));
    default:
      return Grant{random(), random(), random()};
  }
}

bool add(Encoder& encoder, const Item& item) {
  if (const auto* payload = std::get_if<std::string>(&item)) return encoder.add_payload(text(*payload));
  if (const auto* descriptor = std::get_if<Descriptor>(&item)) return encoder.add(*descriptor);
  if (const auto* returned = std::get_if<Returned>(&item)) return encoder.add(*returned);
  if (const auto* directed = std::get_if<Directed>(&item)) return encoder.add(*directed);
  return encoder.add(std::get<Grant>(item));
}

Item get(const Packet& packet, const DecodedItem& item) {
  switch (item.type) {
    case ItemType::descriptor:
      return packet.descriptor(item);
    case ItemType::returned:
      return packet.returned(item);
    case ItemType::directed:
      return packet.directed(item);
    case ItemType::grant:
      return packet.grant(item);
    default:
      return to_string(packet.body(item));
  }
}

TEST(PacketRoundTrip, EveryMessageArrivesAsItWasSent) {
  std::mt19937_64 random = testing::fixed_random(20240601);
  for (int round = 0; round < 2000; ++round) {
    const bool is_request = random() % 2 == 0;
    const bool is_reply = random() % 2 == 0;
    const auto tag = static_cast<std::uint32_t>(random());
    const std::uint64_t source = random() | std::uint64_t{1} << 63;  // not a group
    std::vector<Item> sent;
    for (std::size_t left = random() % 17; left > 0; --left) sent.push_back(random_item(random, is_request));

    Encoder encoder(PacketKind::message, tag, source);
    if (is_reply) {
      ASSERT_TRUE(encoder.add_reply(tag));
    }
    for (const Item& item : sent) ASSERT_TRUE(add(encoder, item));
    if (is_request) {
      ASSERT_TRUE(encoder.add_request(source));
    }
    const testing::ExactBytes bytes(flatten(encoder));
    ASSERT_EQ(bytes.span().size(), encoder.size());

    Packet packet;
    ASSERT_TRUE(packet.decode(bytes.span()).ok());
    EXPECT_EQ(packet.tag(), tag);
    EXPECT_EQ(packet.source(), source);
    auto items = packet.items();
    ASSERT_EQ(items.size(), sent.size() + is_reply + is_request);
    if (is_reply) {
      EXPECT_EQ(items.front().type, ItemType::reply);
      EXPECT_EQ(packet.number(items.front()), tag);
      items = items.subspan(1);
    }
    if (is_request) {
      EXPECT_EQ(items.back().type, ItemType::request);
      EXPECT_EQ(packet.number(items.back()), source);
    }
    for (std::size_t index = 0; index < sent.size(); ++index) {
      ASSERT_EQ(get(packet, items[index]), sent[index]) << "round " << round << " item " << index;
    }
  }
}

}  // namespace
}  // namespace ripc::internal::wire
