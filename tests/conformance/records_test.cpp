// SPDX-License-Identifier: Apache-2.0
// Receiving into the caller's memory: records.
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "puppet.hpp"

namespace conformance {
namespace {

class Records : public PairTest {
 protected:
  // One record, of which everything else is a view.
  struct Read {
    ripc_record head{};
    std::vector<ripc_item_view> views;
    std::vector<std::uint64_t> returns;
    Message message;  // if it was not given back
  };

  // Receives up to `capacity` messages; at least one has to come.
  std::vector<Read> receive_records(std::size_t capacity, std::size_t bytes, std::uint32_t flags = 0) {
    memory_.assign((capacity * RIPC_MAX_RECORD + bytes + 7) / 8, ~std::uint64_t{0});
    size_ = capacity * RIPC_MAX_RECORD + bytes;
    std::size_t count = 0;
    EXPECT_EQ(ripc_receive_records(server_.get(), flags, kLimit, memory_.data(), size_, capacity, &count), RIPC_OK)
        << ripc_last_error();
    EXPECT_GE(count, 1u);
    EXPECT_LE(count, capacity);
    std::vector<Read> records(count);
    const unsigned char* next = begin();
    for (Read& record : records) {
      std::memcpy(&record.head, next, sizeof record.head);
      record.views.resize(record.head.item_count);
      record.returns.resize(record.head.return_count);
      const std::size_t size_of_views = record.views.size() * sizeof(ripc_item_view);
      if (!record.views.empty()) std::memcpy(record.views.data(), next + sizeof record.head, size_of_views);
      if (!record.returns.empty())
        std::memcpy(record.returns.data(), next + sizeof record.head + size_of_views, record.returns.size() * 8);
      record.message.reset(record.head.message);
      EXPECT_EQ(record.head.record_size % 8, 0u);
      next += record.head.record_size;
      EXPECT_LE(next, begin() + size_);
    }
    return records;
  }

  const unsigned char* begin() const { return reinterpret_cast<const unsigned char*>(memory_.data()); }
  bool is_in_records(const ripc_item_view& view) const {
    const auto* data = static_cast<const unsigned char*>(view.data);
    return data >= begin() && data + view.size <= begin() + size_;
  }

  std::vector<std::uint64_t> memory_;
  std::size_t size_ = 0;
};
CONFORMANCE_SUITE(Records);

TEST_P(Records, AShortMessageIsWhollyInItsRecordAndGivenBack) {
  const Bytes first = pattern(100, 1);
  const Bytes second = pattern(7, 2);
  ASSERT_EQ(send(client_, server_id(), {item(first), item_at(nullptr, 0, RIPC_ITEM_SHORT), item(second)}, 9), RIPC_OK);
  const Read record = std::move(receive_records(4, 1000)[0]);
  EXPECT_EQ(record.message, nullptr);
  EXPECT_EQ(record.head.source, client_id());
  EXPECT_EQ(record.head.tag, 9u);
  EXPECT_EQ(record.head.in_reply_to, 0u);
  EXPECT_TRUE(record.returns.empty());
  ASSERT_EQ(record.views.size(), 3u);
  EXPECT_TRUE(holds(record.views[0], RIPC_VIEW_SHORT, first));
  EXPECT_EQ(record.views[1].size, 0u);
  EXPECT_TRUE(holds(record.views[2], RIPC_VIEW_SHORT, second));
  for (const ripc_item_view& view : record.views) EXPECT_TRUE(is_in_records(view));
}

TEST_P(Records, FollowEachOtherInTheOrderOfTheMessages) {
  for (std::uint32_t tag = 0; tag < 25; ++tag) {
    const Bytes bytes = pattern(tag, tag);
    ASSERT_EQ(send(client_, server_id(), {item(bytes)}, tag), RIPC_OK);
  }
  for (std::uint32_t expected = 0; expected < 25;) {
    for (const Read& record : receive_records(10, 1000)) {
      EXPECT_EQ(record.head.tag, expected);
      EXPECT_TRUE(holds(record.views[0], RIPC_VIEW_SHORT, pattern(expected, expected)));
      ++expected;
    }
  }
}

TEST_P(Records, AShortItemWithoutRoomIsReadInItsMessage) {
  // With as many items as possible, only the room for return buffers is left.
  const Bytes bytes = pattern(RIPC_MAX_RETURNS * sizeof(std::uint64_t), 3);
  const std::string_view text = "no room";
  std::vector<ripc_item> items(RIPC_MAX_ITEMS, item_at(nullptr, 0, RIPC_ITEM_SHORT));
  items[0] = item(bytes);
  items[1] = item(text);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), items.data(), items.size(), nullptr, nullptr), RIPC_OK);
  const Read record = std::move(receive_records(1, 0)[0]);
  ASSERT_EQ(record.views.size(), items.size());
  EXPECT_TRUE(holds(record.views[0], RIPC_VIEW_SHORT, bytes));
  EXPECT_TRUE(is_in_records(record.views[0]));
  EXPECT_EQ(text_of(record.views[1]), text);
  EXPECT_FALSE(is_in_records(record.views[1]));
  EXPECT_NE(record.message, nullptr);
}

TEST_P(Records, AMessageWithReturnBuffersIsKeptForItsReply) {
  Bytes first(1000);
  Bytes second(5);
  const std::array<ripc_return_buffer, 2> returns = {{{first.data(), 1000}, {second.data(), 5}}};
  ripc_send_options options = send_options();
  options.return_count = 2;
  options.returns = returns.data();
  std::uint64_t request = 0;
  options.request_id = &request;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK) << ripc_last_error();
  const Read record = std::move(receive_records(1, 0)[0]);
  EXPECT_EQ(record.returns, (std::vector<std::uint64_t>{1000, 5}));
  ASSERT_NE(record.message, nullptr);
  const Bytes answer = pattern(300, 4);
  const ripc_item reply = item(answer, RIPC_ITEM_RETURN, 0);
  ASSERT_EQ(ripc_reply(server_.get(), record.message.get(), &reply, 1, nullptr, nullptr), RIPC_OK);
  const Message answered = receive(client_);
  EXPECT_TRUE(holds(view_of(answered, 0), RIPC_VIEW_RETURNED, answer));
  EXPECT_EQ(ripc_message_get_in_reply_to(answered.get()), request);
}

TEST_P(Records, AnItemInAWindowNeedsNoMessageAndALentOneDoes) {
  const Bytes data = pattern(50'000, 5);
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 8), RIPC_OK);
  const Ticket landed_ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  const Read landed = std::move(receive_records(1, 0)[0]);
  EXPECT_EQ(landed.message, nullptr);
  EXPECT_TRUE(holds(landed.views[0], RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(landed.views[0].cookie, 8u);
  EXPECT_EQ(final_status(landed_ticket), RIPC_OK);
  const Ticket lent_ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  Read lent = std::move(receive_records(1, 0, RIPC_RECEIVE_LEND)[0]);
  EXPECT_NE(lent.message, nullptr);
  EXPECT_TRUE(holds(lent.views[0], RIPC_VIEW_LENT, data));
  lent.message.reset();
  EXPECT_EQ(final_status(lent_ticket), RIPC_OK);
}

TEST_P(Records, NoMessageIsReportedLikeByReceive) {
  alignas(8) std::array<unsigned char, RIPC_MAX_RECORD> memory;
  std::size_t count = 99;
  EXPECT_EQ(ripc_receive_records(server_.get(), 0, 0, memory.data(), memory.size(), 1, &count), RIPC_EMPTY);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(ripc_receive_records(server_.get(), 0, kMillisecond, memory.data(), memory.size(), 1, &count),
            RIPC_TIMEOUT);
  ASSERT_EQ(ripc_interrupt(server_.get()), RIPC_OK);
  EXPECT_EQ(ripc_receive_records(server_.get(), 0, kLimit, memory.data(), memory.size(), 1, &count), RIPC_INTERRUPTED);
}

}  // namespace
}  // namespace conformance
