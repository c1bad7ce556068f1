// SPDX-License-Identifier: Apache-2.0
// The choice of a protocol for each item that is sent.
#include "core/protocol/outgoing.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ripc::internal::core {
namespace {

constexpr std::size_t kLimit = 1000;

ripc_item item(std::size_t size, std::uint32_t kind) {
  static std::array<std::byte, 4096> memory{};
  return {memory.data(), size, kind, 0};
}

std::vector<std::byte> flattened(wire::Encoder& encoder) {
  std::vector<std::byte> bytes;
  for (const spi::Bytes range : encoder.finish()) bytes.insert(bytes.end(), range.begin(), range.end());
  return bytes;
}

// How each item travels, as the packet shows it.
std::vector<Protocol> shown(const ItemPlan& plan, const std::vector<ripc_item>& items) {
  const std::array<wire::Descriptor, RIPC_MAX_ITEMS> descriptors{};
  wire::Encoder encoder(wire::PacketKind::message, 0, 7);
  EXPECT_TRUE(plan.encode(items, descriptors, encoder).ok);
  const std::vector<std::byte> bytes = flattened(encoder);
  wire::Packet packet;
  EXPECT_TRUE(packet.decode(bytes).ok());
  std::vector<Protocol> protocols;
  for (const wire::DecodedItem& decoded : packet.items()) {
    const bool is_carried = decoded.length > wire::kReturnedSize;
    protocols.push_back(decoded.type == wire::ItemType::payload      ? Protocol::payload
                        : decoded.type == wire::ItemType::descriptor ? Protocol::exposed
                        : decoded.type == wire::ItemType::directed   ? Protocol::directed
                        : is_carried                                 ? Protocol::carried
                                                                     : Protocol::returned);
  }
  return protocols;
}

// How each item travels with packets of at most kLimit bytes; empty: the items are too large.
std::vector<Protocol> chosen(const std::vector<ripc_item>& items, std::size_t returns = 0,
                             std::size_t auto_limit = kLimit) {
  ItemPlan plan;
  const Status status = plan.choose(items, returns, kLimit, auto_limit, 700);
  if (status.ok()) return shown(plan, items);
  EXPECT_EQ(status.code(), RIPC_TOO_LARGE);
  return {};
}

using Protocols = std::vector<Protocol>;

TEST(ItemPlan, SendsShortItemsInThePacketAndLongOnesApart) {
  const auto payload = Protocol::payload;
  const auto exposed = Protocol::exposed;
  EXPECT_EQ(chosen({item(1, RIPC_ITEM_SHORT), item(1, RIPC_ITEM_LONG), item(1, RIPC_ITEM_AUTO)}),
            (Protocols{payload, exposed, payload}));
}

TEST(ItemPlan, TakesTheLargestAutoItemsOutUntilTheRestFits) {
  const auto payload = Protocol::payload;
  const auto exposed = Protocol::exposed;
  EXPECT_EQ(chosen({item(300, RIPC_ITEM_AUTO), item(500, RIPC_ITEM_AUTO), item(400, RIPC_ITEM_AUTO)}),
            (Protocols{payload, exposed, payload}));
  EXPECT_EQ(chosen({item(300, RIPC_ITEM_SHORT), item(200, RIPC_ITEM_AUTO), item(kLimit + 1, RIPC_ITEM_AUTO)}),
            (Protocols{payload, payload, exposed}));
}

TEST(ItemPlan, AutoItemsLeaveAPacketThatIsLargerThanTheirLimitAndShortOnesStay) {
  const auto payload = Protocol::payload;
  const auto exposed = Protocol::exposed;
  EXPECT_EQ(chosen({item(600, RIPC_ITEM_SHORT), item(150, RIPC_ITEM_AUTO)}, 0, 500), (Protocols{payload, exposed}));
  EXPECT_EQ(chosen({item(300, RIPC_ITEM_AUTO), item(100, RIPC_ITEM_AUTO)}, 0, 300), (Protocols{exposed, payload}));
  EXPECT_TRUE(chosen({item(1'100, RIPC_ITEM_SHORT), item(150, RIPC_ITEM_AUTO)}, 0, 500).empty());
}

TEST(ItemPlan, LeavesRoomForReturnBuffers) {
  const std::vector<ripc_item> items{item(900, RIPC_ITEM_AUTO)};
  EXPECT_EQ(chosen(items), (Protocols{Protocol::payload}));
  EXPECT_EQ(chosen(items, RIPC_MAX_RETURNS), (Protocols{Protocol::exposed}));
}

TEST(ItemPlan, NeverTakesGivenItemsOut) {
  EXPECT_EQ(chosen({item(600, RIPC_ITEM_GIVEN), item(500, RIPC_ITEM_AUTO)}),
            (Protocols{Protocol::payload, Protocol::exposed}));
  EXPECT_TRUE(chosen({item(1'100, RIPC_ITEM_GIVEN), item(1, RIPC_ITEM_LONG)}).empty());
}

TEST(ItemPlan, SaysWhenShortItemsDoNotFit) {
  EXPECT_TRUE(chosen({item(600, RIPC_ITEM_SHORT), item(600, RIPC_ITEM_SHORT)}).empty());
}

TEST(ItemPlan, SaysSoAlsoWhereTheSumOfTheSizesWrapsAround) {
  EXPECT_TRUE(chosen({item(SIZE_MAX, RIPC_ITEM_SHORT), item(600, RIPC_ITEM_SHORT)}).empty());
  EXPECT_TRUE(chosen({item(SIZE_MAX - 500, RIPC_ITEM_SHORT), item(600, RIPC_ITEM_AUTO)}).empty());
}

TEST(ItemPlan, ExposesReturnedItemsWhereNothingMayBeWritten) {
  const std::vector<ripc_item> items{item(kLimit, RIPC_ITEM_RETURN), item(8, RIPC_ITEM_SHORT),
                                     item(8, RIPC_ITEM_RETURN)};
  ItemPlan plan;
  ASSERT_TRUE(plan.choose(items, 0, kLimit, kLimit, kLimit).ok());
  plan.choose_returns(items, Message{}, false);
  EXPECT_EQ(shown(plan, items), (Protocols{Protocol::exposed, Protocol::payload, Protocol::payload}))
      << "the packet has the last one";
}

TEST(ItemPlan, CarriesWhatItReturnsWhileThePacketHasRoom) {
  const auto carried = Protocol::carried;
  const auto directed = Protocol::directed;
  EXPECT_EQ(chosen({item(600, RIPC_ITEM_RETURN), item(300, RIPC_ITEM_RETURN)}), (Protocols{carried, carried}));
  EXPECT_EQ(chosen({item(600, RIPC_ITEM_RETURN), item(500, RIPC_ITEM_RETURN)}), (Protocols{directed, carried}));
  EXPECT_EQ(chosen({item(600, RIPC_ITEM_RETURN), item(700, RIPC_ITEM_AUTO)}), (Protocols{carried, Protocol::exposed}));
  EXPECT_EQ(chosen({item(600, RIPC_ITEM_RETURN)}, 0, 500), (Protocols{directed}));
  EXPECT_EQ(chosen({item(700, RIPC_ITEM_RETURN)}), (Protocols{carried}));
  EXPECT_EQ(chosen({item(701, RIPC_ITEM_RETURN)}), (Protocols{directed})) << "more than the path carries";
}

TEST(ItemPlan, EncodesWhatItChose) {
  const std::vector<ripc_item> items{item(10, RIPC_ITEM_SHORT), item(20, RIPC_ITEM_LONG), item(30, RIPC_ITEM_LONG)};
  ItemPlan plan;
  ASSERT_TRUE(plan.choose(items, 0, kLimit, kLimit, kLimit).ok());
  const std::array<wire::Descriptor, 2> descriptors{wire::Descriptor{1, 0, 20}, wire::Descriptor{2, 0, 30}};
  wire::Encoder encoder(wire::PacketKind::message, 5, 7);
  const ItemPlan::Encoded encoded = plan.encode(items, descriptors, encoder);
  EXPECT_TRUE(encoded.ok);
  EXPECT_EQ(encoded.short_bytes, 10u);
  EXPECT_EQ(encoded.pulled, 2u);
  EXPECT_EQ(encoded.returned, 0u);

  const std::vector<std::byte> bytes = flattened(encoder);
  wire::Packet packet;
  ASSERT_TRUE(packet.decode(bytes).ok());
  ASSERT_EQ(packet.items().size(), 3u);
  EXPECT_EQ(packet.items()[0].type, wire::ItemType::payload);
  EXPECT_EQ(packet.descriptor(packet.items()[1]).key, 1u);
  EXPECT_EQ(packet.descriptor(packet.items()[2]).key, 2u);
}

TEST(Outgoing, PlainMessagesHaveShortItemsOnly) {
  const std::vector<ripc_item> plain{item(1, RIPC_ITEM_SHORT), item(2, RIPC_ITEM_AUTO)};
  std::size_t bytes = 0;
  EXPECT_TRUE(is_plain(plain, bytes));
  EXPECT_EQ(bytes, 3u);
  const std::vector<ripc_item> with_long{item(1, RIPC_ITEM_SHORT), item(2, RIPC_ITEM_LONG)};
  EXPECT_FALSE(is_plain(with_long, bytes));
  const std::vector<ripc_item> too_many(RIPC_MAX_ITEMS + 1, item(1, RIPC_ITEM_SHORT));
  EXPECT_FALSE(is_plain(too_many, bytes));
}

TEST(Outgoing, AReplyToARequestIsNoPlainMessage) {
  SendArguments arguments;
  Message request;
  arguments.reply_to = &request;
  EXPECT_TRUE(prefers_plain(arguments)) << "it asked for no reply";
  request.request = 1;
  EXPECT_FALSE(prefers_plain(arguments));
}

}  // namespace
}  // namespace ripc::internal::core
