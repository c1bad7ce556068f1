// SPDX-License-Identifier: Apache-2.0
// Several messages with one call, long ones among them.
#include <array>
#include <atomic>
#include <vector>

#include "long_pair.hpp"

namespace conformance {
namespace {

constexpr std::size_t kItemBytes = 100'000;

class SendManyLong : public LongPairTest {
 protected:
  // Messages of one item each, with their index as tag.
  void fill(std::size_t count, ripc_item_kind kind = RIPC_ITEM_LONG, std::size_t size = kItemBytes) {
    for (std::size_t index = 0; index < count; ++index)
      payloads_.push_back(pattern(size, static_cast<std::uint32_t>(index)));
    for (const Bytes& payload : payloads_) items_.push_back(item(payload, kind));
    for (std::size_t index = 0; index < count; ++index)
      messages_.push_back({&items_[index], 1, static_cast<std::uint32_t>(index)});
    tickets_.resize(count);
  }
  ripc_status send_many(const ripc_send_options* options = nullptr) {
    std::vector<ripc_ticket*> handles(messages_.size(), reinterpret_cast<ripc_ticket*>(1));
    const ripc_status status =
        ripc_send_many(client_.get(), server_id(), messages_.data(), messages_.size(), options, handles.data(), &sent_);
    for (std::size_t index = 0; index < handles.size(); ++index) tickets_[index].reset(handles[index]);
    return status;
  }
  void post_all() {
    windows_.assign(messages_.size(), Bytes(kItemBytes));
    for (Bytes& window : windows_) post(window);
  }

  std::vector<Bytes> payloads_;
  std::vector<ripc_item> items_;
  std::vector<ripc_outgoing> messages_;
  std::vector<Ticket> tickets_;
  std::vector<Bytes> windows_;
  std::size_t sent_ = 0;
};
CONFORMANCE_SUITE(SendManyLong);

TEST_P(SendManyLong, AllArriveInTheirOrderAndEachHasATicket) {
  fill(12);
  // Twice: before the first round there may be no connection for long items.
  for (int round = 0; round < 2; ++round) {
    post_all();
    ASSERT_EQ(send_many(), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(sent_, 12u);
    for (std::size_t index = 0; index < 12; ++index) {
      const Message message = receive(server_);
      ASSERT_EQ(ripc_message_get_tag(message.get()), index);
      EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, payloads_[index])) << index;
      ASSERT_TRUE(tickets_[index]);
      EXPECT_EQ(ripc_ticket_wait(tickets_[index].get(), kLimit), RIPC_OK);
    }
  }
  EXPECT_EQ(statistics_of(client_).long_items_sent, 24u);
}

TEST_P(SendManyLong, ShortOnesBetweenThemKeepTheirPlaceAndHaveNoTicket) {
  fill(9);
  const Bytes small = pattern(64, 77);
  const ripc_item short_item = item(small, RIPC_ITEM_SHORT);
  for (const std::size_t index : {0u, 3u, 4u, 8u}) messages_[index].items = &short_item;
  post_all();
  ASSERT_EQ(send_many(), RIPC_OK) << ripc_last_error();
  for (std::size_t index = 0; index < 9; ++index) {
    const bool is_short = messages_[index].items == &short_item;
    const Message message = receive(server_);
    ASSERT_EQ(ripc_message_get_tag(message.get()), index);
    EXPECT_TRUE(
        holds(view_of(message, 0), is_short ? RIPC_VIEW_SHORT : RIPC_VIEW_WINDOW, is_short ? small : payloads_[index]))
        << index;
    EXPECT_EQ(tickets_[index] == nullptr, is_short) << index;
  }
}

TEST_P(SendManyLong, ItemsThatDoNotFitTravelLong) {
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  fill(3, RIPC_ITEM_AUTO, limit + 1);
  windows_.assign(3, Bytes(limit + 1));
  for (Bytes& window : windows_) post(window);
  ASSERT_EQ(send_many(), RIPC_OK) << ripc_last_error();
  for (std::size_t index = 0; index < 3; ++index) {
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, payloads_[index])) << index;
    EXPECT_TRUE(tickets_[index]);
  }
}

TEST_P(SendManyLong, AnInvalidMessageStopsItAndTheOnesBeforeGo) {
  fill(4);
  items_[2].kind = RIPC_ITEM_RETURN;
  post_all();
  EXPECT_EQ(send_many(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(sent_, 2u);
  for (std::size_t index = 0; index < 2; ++index) {
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, payloads_[index])) << index;
    EXPECT_EQ(ripc_ticket_wait(tickets_[index].get(), kLimit), RIPC_OK);
  }
  EXPECT_FALSE(tickets_[2]);
  EXPECT_FALSE(tickets_[3]);
}

TEST_P(SendManyLong, TheOptionsAreForEachOfThem) {
  fill(3);
  std::atomic<int> calls{0};
  ripc_send_options options = initialized(ripc_send_options_init);
  options.timeout = 1'000'000;
  options.callback = [](void* user, ripc_status status) {
    EXPECT_EQ(status, RIPC_TIMEOUT);
    ++*static_cast<std::atomic<int>*>(user);
  };
  options.user = &calls;
  // No one receives.
  ASSERT_EQ(send_many(&options), RIPC_OK) << ripc_last_error();
  for (const Ticket& ticket : tickets_) EXPECT_EQ(ripc_ticket_wait(ticket.get(), kLimit), RIPC_TIMEOUT);
  EXPECT_TRUE(eventually([&] { return calls == 3; }));
}

TEST_P(SendManyLong, OptionsThatAreOfOneMessageAreRefused) {
  fill(1);
  std::uint64_t request = 0;
  ripc_group_outcome outcome{};
  std::array<std::uint8_t, 8> memory{};
  const ripc_return_buffer buffer{memory.data(), memory.size()};
  ripc_send_options options;
  const auto is_refused = [&](auto set) {
    ripc_send_options_init(&options);
    set();
    EXPECT_EQ(send_many(&options), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(sent_, 0u);
    EXPECT_FALSE(tickets_[0]);
  };
  is_refused([&] { options.tag = 1; });
  is_refused([&] { options.request_id = &request; });
  is_refused([&] { options.outcome = &outcome; });
  is_refused([&] {
    options.returns = &buffer;
    options.return_count = 1;
  });
  is_refused([&] { options.size = 1; });
}

TEST_P(SendManyLong, TicketsNeedNotBeAskedForWhereTheLoanEndsOtherwise) {
  fill(2);
  post_all();
  for (Bytes& payload : payloads_)
    ASSERT_EQ(ripc_memory_register(client_context_.get(), payload.data(), payload.size()), RIPC_OK);
  ASSERT_EQ(ripc_send_many(client_.get(), server_id(), messages_.data(), messages_.size(), nullptr, nullptr, nullptr),
            RIPC_OK);
  for (std::size_t index = 0; index < 2; ++index)
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, payloads_[index])) << index;
}

TEST_P(SendManyLong, ATicketThatIsCancelledMeanwhileTakesItsMessageAlone) {
  fill(3);
  ASSERT_EQ(send_many(), RIPC_OK) << ripc_last_error();
  // No one has received so far.
  EXPECT_EQ(ripc_ticket_cancel(tickets_[1].get()), RIPC_CANCELLED);
  post_all();
  for (const std::size_t index : {0u, 2u}) {
    const Message message = receive(server_);
    EXPECT_EQ(ripc_message_get_tag(message.get()), index);
    EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, payloads_[index]));
    EXPECT_EQ(ripc_ticket_wait(tickets_[index].get(), kLimit), RIPC_OK);
  }
}

}  // namespace
}  // namespace conformance
