// SPDX-License-Identifier: Apache-2.0
// Short items that are given away with their message, together with the leased buffers that hold them.
#include <array>

#include "harness.hpp"

namespace conformance {
namespace {

class Given : public PairTest {
 protected:
  static constexpr std::size_t kSize = 700;  // more than any path copies into its work request

  // Leases a buffer; only the call that it is given to releases it.
  unsigned char* lease_to_give(unsigned seed, std::size_t size = kSize) {
    void* data = nullptr;
    EXPECT_EQ(ripc_buffer_lease(client_context_.get(), size, &data), RIPC_OK);
    fill_pattern(data, size, seed);
    return static_cast<unsigned char*>(data);
  }
  bool is_leased(const void* address) {
    void* data = nullptr;
    std::size_t size = 0;
    return ripc_buffer_find(client_context_.get(), address, &data, &size) == RIPC_OK;
  }
};
CONFORMANCE_SUITE(Given);

TEST_P(Given, AnItemArrivesAndItsLeaseHasEnded) {
  unsigned char* const data = lease_to_give(1);
  ASSERT_EQ(send(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_GIVEN)}, 7), RIPC_OK);
  EXPECT_FALSE(is_leased(data));
  EXPECT_EQ(ripc_buffer_release(client_context_.get(), data), RIPC_INVALID_ARGUMENT) << "it was released before";
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_SHORT, pattern(kSize, 1)));
  EXPECT_EQ(ripc_message_get_tag(message.get()), 7u);
  EXPECT_EQ(pool_statistics_of(client_context_).releases, 1u);
}

TEST_P(Given, NewLeasesDoNotOverwriteItemsUnderWay) {
  constexpr unsigned kCount = 100;
  for (unsigned index = 0; index < kCount; ++index) {
    unsigned char* const data = lease_to_give(index);
    ASSERT_EQ(send(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_GIVEN)}), RIPC_OK);
    if (index % 4 != 3) continue;
    for (unsigned back = 4; back-- > 0;)
      EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_SHORT, pattern(kSize, index - back))) << index;
  }
  EXPECT_EQ(pool_statistics_of(client_context_).releases, kCount);
}

TEST_P(Given, SeveralItemsMayLieInOneLeaseAmongOthersThatAreNotGiven) {
  unsigned char* const data = lease_to_give(2, 2 * kSize);
  const Bytes before = pattern(300, 3);
  const Bytes behind = pattern(9, 4);
  ASSERT_EQ(send(client_, server_id(),
                 {item(before, RIPC_ITEM_SHORT), item_at(data, kSize, RIPC_ITEM_GIVEN), item(behind, RIPC_ITEM_SHORT),
                  item_at(data + kSize, 0, RIPC_ITEM_GIVEN), item_at(data + kSize, kSize, RIPC_ITEM_GIVEN)}),
            RIPC_OK);
  const Bytes whole = pattern(2 * kSize, 2);
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_SHORT, before));
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_SHORT, std::span(whole).first(kSize)));
  EXPECT_TRUE(holds(view_of(message, 2), RIPC_VIEW_SHORT, behind));
  EXPECT_EQ(view_of(message, 3).size, 0u);
  EXPECT_TRUE(holds(view_of(message, 4), RIPC_VIEW_SHORT, std::span(whole).last(kSize)));
  EXPECT_FALSE(is_leased(data));
  EXPECT_EQ(pool_statistics_of(client_context_).releases, 1u);
}

TEST_P(Given, ALongItemBesideItIsReadBeforeItsMemoryReturns) {
  unsigned char* const given = lease_to_give(5);
  const auto bulk = lease(client_context_, 100'000);
  fill_pattern(bulk.get(), 100'000, 6);
  Bytes window(100'000);
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  const Ticket ticket =
      send_long(client_, server_id(),
                {item_at(given, kSize, RIPC_ITEM_GIVEN), item_at(bulk.get(), window.size(), RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_SHORT, pattern(kSize, 5)));
  EXPECT_EQ(window, pattern(window.size(), 6));
  EXPECT_FALSE(is_leased(given));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Given, AMessageThatIsNotSentLeavesItsBufferLeased) {
  unsigned char* const data = lease_to_give(7, 4 << 20);
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  ASSERT_LT(limit, std::size_t{4} << 20);
  EXPECT_EQ(send(client_, server_id(), {item_at(data, limit + 1, RIPC_ITEM_GIVEN)}), RIPC_TOO_LARGE);
  EXPECT_EQ(send(client_, RIPC_WELL_KNOWN_MAX, {item_at(data, kSize, RIPC_ITEM_GIVEN)}), RIPC_NO_SERVICE);
  send_until_full([&] { return send(client_, server_id(), {}); });
  EXPECT_EQ(send(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_GIVEN)}), RIPC_AGAIN);
  EXPECT_TRUE(is_leased(data));
  EXPECT_EQ(ripc_buffer_release(client_context_.get(), data), RIPC_OK);
}

TEST_P(Given, OnlyWhatLiesInALeaseCanBeGiven) {
  const Bytes own = pattern(kSize, 8);
  EXPECT_EQ(send(client_, server_id(), {item(own, RIPC_ITEM_GIVEN)}), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(send(client_, server_id(), {item_at(nullptr, 0, RIPC_ITEM_GIVEN)}), RIPC_INVALID_ARGUMENT);
  unsigned char* const data = lease_to_give(9);
  EXPECT_EQ(send(client_, server_id(), {item_at(data, kSize + 1, RIPC_ITEM_GIVEN)}), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(send(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_GIVEN), item(own, RIPC_ITEM_GIVEN)}),
            RIPC_INVALID_ARGUMENT);
  const std::array<ripc_item, 2> items{item_at(data, kSize, RIPC_ITEM_GIVEN), item(own, RIPC_ITEM_GIVEN)};
  const ripc_outgoing message{items.data(), items.size(), 0};
  EXPECT_EQ(ripc_send_many(client_.get(), server_id(), &message, 1, nullptr, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_buffer_release(client_context_.get(), data), RIPC_OK) << "none of these has taken it";
}

TEST_P(Given, SeveralMessagesGiveTheirBuffersAwayAndThoseThatAreNotSentKeepThem) {
  const Bytes own = pattern(kSize, 20);
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  const std::array<unsigned char*, 4> given{lease_to_give(21), lease_to_give(22), lease_to_give(23, limit + 1),
                                            lease_to_give(24)};
  const std::array<ripc_item, 5> items{
      item_at(given[0], kSize, RIPC_ITEM_GIVEN), item(own, RIPC_ITEM_SHORT), item_at(given[1], kSize, RIPC_ITEM_GIVEN),
      item_at(given[2], limit + 1, RIPC_ITEM_GIVEN), item_at(given[3], kSize, RIPC_ITEM_GIVEN)};
  // Given items come in one message, alone, and between messages that give nothing.
  const std::array<ripc_outgoing, 5> messages{
      ripc_outgoing{&items[1], 1, 1}, {&items[0], 2, 2}, {&items[2], 1, 3}, {&items[3], 1, 4}, {&items[4], 1, 5}};
  std::size_t sent = 0;
  EXPECT_EQ(ripc_send_many(client_.get(), server_id(), messages.data(), messages.size(), nullptr, nullptr, &sent),
            RIPC_TOO_LARGE);
  ASSERT_EQ(sent, 3u);
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_SHORT, own));
  const Message second = receive(server_);
  EXPECT_TRUE(holds(view_of(second, 0), RIPC_VIEW_SHORT, pattern(kSize, 21)));
  EXPECT_TRUE(holds(view_of(second, 1), RIPC_VIEW_SHORT, own));
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_SHORT, pattern(kSize, 22)));
  for (std::size_t index = 0; index < given.size(); ++index) {
    EXPECT_EQ(is_leased(given[index]), index >= 2) << index;
    if (index >= 2) {
      EXPECT_EQ(ripc_buffer_release(client_context_.get(), given[index]), RIPC_OK);
    }
  }
}

TEST_P(Given, AGroupTakesAGivenItem) {
  ripc_service_id group = RIPC_GROUP_ID(77);
  ASSERT_EQ(ripc_group_join(server_.get(), group), RIPC_OK);
  unsigned char* const data = lease_to_give(10);
  ASSERT_EQ(send(client_, group, {item_at(data, kSize, RIPC_ITEM_GIVEN)}), RIPC_OK);
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_SHORT, pattern(kSize, 10)));
  EXPECT_FALSE(is_leased(data));
}

}  // namespace
}  // namespace conformance
