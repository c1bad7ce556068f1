// SPDX-License-Identifier: Apache-2.0
// Several messages with one call: short ones. send_many_long_test.cpp has long ones.
#include <array>
#include <vector>

#include "puppet.hpp"

namespace conformance {
namespace {

// Messages of one item each, with their index as tag.
struct Batch {
  explicit Batch(const std::vector<std::size_t>& sizes) {
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      payloads.push_back(pattern(sizes[index], static_cast<std::uint32_t>(index)));
    }
    for (const Bytes& payload : payloads) items.push_back(item(payload, RIPC_ITEM_SHORT));
    for (std::size_t index = 0; index < items.size(); ++index)
      messages.push_back({&items[index], 1, static_cast<std::uint32_t>(index)});
  }
  std::vector<Bytes> payloads;
  std::vector<ripc_item> items;
  std::vector<ripc_outgoing> messages;
};

class SendMany : public PairTest {
 protected:
  ripc_status send_many(const Batch& batch, std::size_t& sent) {
    return ripc_send_many(client_.get(), server_id(), batch.messages.data(), batch.messages.size(), nullptr, nullptr,
                          &sent);
  }
  void expect_arrived(const Batch& batch, std::size_t count) {
    for (std::size_t index = 0; index < count; ++index) {
      const Message message = receive(server_);
      ASSERT_EQ(ripc_message_get_tag(message.get()), index);
      EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_SHORT, batch.payloads[index])) << index;
    }
    ripc_message* more = nullptr;
    EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &more), RIPC_EMPTY);
  }
};
CONFORMANCE_SUITE(SendMany);

TEST_P(SendMany, AllArriveWholeOnceAndInOrder) {
  const Batch batch(std::vector<std::size_t>(60, 48));
  std::size_t sent = 0;
  ASSERT_EQ(send_many(batch, sent), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(sent, 60u);
  expect_arrived(batch, 60);
  EXPECT_EQ(statistics_of(client_).messages_sent, 60u);
}

TEST_P(SendMany, TheirSizesMayDiffer) {
  const Batch batch({0, 1, 7, 7, 7, 500, 500, 64, 0, 0, 1000, 3});
  std::size_t sent = 0;
  ASSERT_EQ(send_many(batch, sent), RIPC_OK) << ripc_last_error();
  expect_arrived(batch, batch.messages.size());
}

TEST_P(SendMany, AMessageMayHaveManyItemsOrNone) {
  std::array<std::uint8_t, RIPC_MAX_ITEMS> bytes{};
  std::array<ripc_item, RIPC_MAX_ITEMS> items{};
  for (std::size_t index = 0; index < items.size(); ++index) items[index] = item_at(&bytes[index], 1, RIPC_ITEM_SHORT);
  const std::array<ripc_outgoing, 3> messages = {
      ripc_outgoing{nullptr, 0, 1}, {items.data(), RIPC_MAX_ITEMS, 2}, {items.data(), 2, 3}};
  ASSERT_EQ(ripc_send_many(client_.get(), server_id(), messages.data(), messages.size(), nullptr, nullptr, nullptr),
            RIPC_OK)
      << ripc_last_error();
  for (const ripc_outgoing& message : messages) {
    const Message received = receive(server_);
    EXPECT_EQ(ripc_message_get_tag(received.get()), message.tag);
    EXPECT_EQ(ripc_message_get_item_count(received.get()), message.count);
  }
}

TEST_P(SendMany, NoMessagesAreNoFailure) {
  std::size_t sent = 7;
  EXPECT_EQ(ripc_send_many(client_.get(), server_id(), nullptr, 0, nullptr, nullptr, &sent), RIPC_OK);
  EXPECT_EQ(sent, 0u);
}

TEST_P(SendMany, AFullQueueStopsItAndTheUnsentMessagesCanFollow) {
  const Batch batch(std::vector<std::size_t>(5000, 200));
  std::size_t sent = 0;
  ASSERT_EQ(send_many(batch, sent), RIPC_AGAIN);
  ASSERT_GT(sent, 0u);
  ASSERT_LT(sent, batch.messages.size());
  expect_arrived(batch, sent);
  ASSERT_EQ(ripc_wait_room(client_.get(), server_id(), kLimit), RIPC_OK);
  std::size_t then = 0;
  (void)ripc_send_many(client_.get(), server_id(), batch.messages.data() + sent, 1, nullptr, nullptr, &then);
  ASSERT_EQ(then, 1u);
  EXPECT_EQ(ripc_message_get_tag(receive(server_).get()), sent);
}

TEST_P(SendMany, AMessageThatCannotBeSentStopsIt) {
  Batch batch({8, 8, 8});
  batch.items[1].kind = RIPC_ITEM_RETURN;
  std::size_t sent = 0;
  EXPECT_EQ(send_many(batch, sent), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(sent, 1u);
  expect_arrived(batch, 1);

  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  Batch large({8, limit + 1, 8});
  EXPECT_EQ(send_many(large, sent), RIPC_TOO_LARGE);
  EXPECT_EQ(sent, 1u);
  expect_arrived(large, 1);

  Batch nothing({8, 8});
  nothing.messages[1].items = nullptr;
  EXPECT_EQ(send_many(nothing, sent), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(sent, 1u);
  expect_arrived(nothing, 1);
  EXPECT_EQ(ripc_send_many(client_.get(), server_id(), nullptr, 1, nullptr, nullptr, &sent), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_send_many(nullptr, server_id(), nothing.messages.data(), 1, nullptr, nullptr, &sent),
            RIPC_INVALID_ARGUMENT);
}

TEST_P(SendMany, AnUnknownServiceIsNoService) {
  const Batch batch({8});
  std::size_t sent = 7;
  EXPECT_EQ(ripc_send_many(client_.get(), 0x123456789, batch.messages.data(), 1, nullptr, nullptr, &sent),
            RIPC_NO_SERVICE);
  EXPECT_EQ(sent, 0u);
}

}  // namespace
}  // namespace conformance
