// SPDX-License-Identifier: Apache-2.0
// Receive windows: where the long items of a message land, and what becomes of those without a window.
#include <array>
#include <cstring>

#include "long_pair.hpp"

namespace conformance {
namespace {

class Windows : public LongPairTest {};
CONFORMANCE_SUITE(Windows);

TEST_P(Windows, EachItemLandsInItsOwnWindowInPostingOrder) {
  const Bytes first = pattern(100, 1);
  const Bytes second = pattern(100'000, 2);
  const Bytes third = pattern(1, 3);
  std::array<Bytes, 3> windows = {Bytes(100), Bytes(100'000), Bytes(50)};
  for (std::size_t index = 0; index < 3; ++index) post(windows[index], 70 + index);
  const Ticket ticket = send_long(
      client_, server_id(), {item(first, RIPC_ITEM_LONG), item(second, RIPC_ITEM_LONG), item(third, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  ASSERT_EQ(ripc_message_get_item_count(message.get()), 3u);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, first));
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_WINDOW, second));
  EXPECT_TRUE(holds(view_of(message, 2), RIPC_VIEW_WINDOW, third));
  for (std::size_t index = 0; index < 3; ++index) {
    EXPECT_EQ(view_of(message, index).data, windows[index].data());
    EXPECT_EQ(view_of(message, index).cookie, 70 + index);
  }
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Windows, AWindowMayBeAnyPartOfAnArrayAlignedOrNot) {
  const Bytes data = pattern(70'001, 4);
  for (const std::size_t offset : {0u, 1u, 3u, 8u, 63u, 4095u}) {
    Bytes array(data.size() + 2 * 4096, 0xee);
    post(array.data() + offset, data.size(), offset);
    const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data)) << offset;
    EXPECT_EQ(std::memcmp(array.data() + offset, data.data(), data.size()), 0);
    for (std::size_t index = 0; index < array.size(); ++index) {
      if (index >= offset && index < offset + data.size()) continue;
      ASSERT_EQ(array[index], 0xee) << "byte " << index << " around the window at " << offset << " was written";
    }
  }
}

TEST_P(Windows, AWindowLargerThanTheItemIsOnlyWrittenAsFarAsTheItem) {
  const Bytes data = pattern(5000, 5);
  Bytes window(8000, 0xee);
  post(window, 1);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, data));
  for (std::size_t index = data.size(); index < window.size(); ++index) ASSERT_EQ(window[index], 0xee) << index;
}

TEST_P(Windows, AdjacentWindowsReassembleItems) {
  const Bytes data = pattern(300'000, 6);
  Bytes array(data.size());
  post(array.data(), 100'001, 1);
  post(array.data() + 100'001, 99'999, 2);
  post(array.data() + 200'000, 100'000, 3);
  const Ticket ticket =
      send_long(client_, server_id(),
                {item_at(data.data(), 100'001, RIPC_ITEM_LONG), item_at(data.data() + 100'001, 99'999, RIPC_ITEM_LONG),
                 item_at(data.data() + 200'000, 100'000, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  EXPECT_EQ(array, data);
}

TEST_P(Windows, PoolMemoryIsAWindowLikeAnyOther) {
  const Bytes data = pattern(50'000, 7);
  const auto window = lease(server_context_, data.size());
  post(window.get(), data.size(), 1);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
}

TEST_P(Windows, AnItemWithoutAWindowIsDiscardedAndTheOthersArrive) {
  const Bytes first = pattern(3000, 8);
  const Bytes second = pattern(4000, 9);
  const std::string_view text = "short";
  Bytes window(3000);
  post(window, 1);
  const Ticket ticket = send_long(
      client_, server_id(), {item(first, RIPC_ITEM_LONG), item(second, RIPC_ITEM_LONG), item(text, RIPC_ITEM_SHORT)});
  const Message message = receive(server_);
  ASSERT_EQ(ripc_message_get_item_count(message.get()), 3u);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, first));
  EXPECT_TRUE(failed(view_of(message, 1), RIPC_NO_WINDOW, 4000));
  EXPECT_EQ(text_of(message, 2), "short");
  EXPECT_EQ(final_status(ticket), RIPC_NO_WINDOW);
  EXPECT_EQ(statistics_of(server_).items_discarded, 1u);
}

TEST_P(Windows, ATooSmallWindowFailsItsItemAndStaysPosted) {
  const Bytes first = pattern(3000, 10);
  const Bytes second = pattern(2500, 11);
  Bytes small(2999, 0xee);
  Bytes large(3000);
  post(small, 1);
  post(large, 2);
  const Ticket ticket = send_long(client_, server_id(), {item(first, RIPC_ITEM_LONG), item(second, RIPC_ITEM_LONG)});
  {
    const Message message = receive(server_);
    EXPECT_TRUE(failed(view_of(message, 0), RIPC_WINDOW_TOO_SMALL, 3000));
    EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_WINDOW, second));
    EXPECT_EQ(view_of(message, 1).cookie, 2u) << "item i goes to the i-th window";
  }
  EXPECT_EQ(final_status(ticket), RIPC_WINDOW_TOO_SMALL);
  EXPECT_EQ(small, Bytes(2999, 0xee)) << "the window that was too small is untouched";

  const Ticket fits = send_long(client_, server_id(), {item(second, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, second));
  EXPECT_EQ(view_of(message, 0).cookie, 1u) << "it stayed posted";
  EXPECT_EQ(final_status(fits), RIPC_OK);
}

TEST_P(Windows, WithSeveralFailuresTheTicketHasTheFirst) {
  const Bytes data = pattern(3000, 12);
  Bytes small(100);
  post(small, 1);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG), item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_TRUE(failed(view_of(message, 0), RIPC_WINDOW_TOO_SMALL, 3000));
  EXPECT_TRUE(failed(view_of(message, 1), RIPC_NO_WINDOW, 3000));
  EXPECT_EQ(final_status(ticket), RIPC_WINDOW_TOO_SMALL);
}

TEST_P(Windows, TheServicesWindowsComeBeforeThoseOfTheContext) {
  const Bytes data = pattern(2000, 13);
  std::array<Bytes, 3> windows = {Bytes(2000), Bytes(2000), Bytes(2000)};
  ASSERT_EQ(ripc_context_window_post(server_context_.get(), windows[0].data(), 2000, 30), RIPC_OK);
  post(windows[1], 31);
  post(windows[2], 32);
  const Ticket ticket = send_long(client_, server_id(),
                                  {item(data, RIPC_ITEM_LONG), item(data, RIPC_ITEM_LONG), item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_EQ(view_of(message, 0).cookie, 31u);
  EXPECT_EQ(view_of(message, 1).cookie, 32u);
  EXPECT_EQ(view_of(message, 2).cookie, 30u);
  for (std::size_t index = 0; index < 3; ++index) EXPECT_TRUE(holds(view_of(message, index), RIPC_VIEW_WINDOW, data));
}

TEST_P(Windows, AnyServiceOfTheContextMayUseItsWindows) {
  const Service other = make_service(server_context_);
  const Bytes data = pattern(2000, 14);
  std::array<Bytes, 2> windows = {Bytes(2000), Bytes(2000)};
  for (std::size_t index = 0; index < 2; ++index) {
    ASSERT_EQ(ripc_context_window_post(server_context_.get(), windows[index].data(), 2000, index), RIPC_OK);
  }
  const Ticket first = send_long(client_, id_of(other), {item(data, RIPC_ITEM_LONG)});
  const Message first_message = receive(other);
  const Ticket second = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  const Message second_message = receive(server_);
  EXPECT_TRUE(holds(view_of(first_message, 0), RIPC_VIEW_WINDOW, data));
  EXPECT_TRUE(holds(view_of(second_message, 0), RIPC_VIEW_WINDOW, data));
  EXPECT_NE(view_of(first_message, 0).cookie, view_of(second_message, 0).cookie);
}

TEST_P(Windows, AServicesWindowsAreItsOwn) {
  const Service other = make_service(server_context_);
  Bytes window(2000);
  post(window, 1);
  const Bytes data = pattern(2000, 15);
  const Ticket ticket = send_long(client_, id_of(other), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(failed(view_of(receive(other), 0), RIPC_NO_WINDOW, 2000));
}

TEST_P(Windows, WithdrawnWindowsAreNotUsed) {
  Bytes windows(4000, 0xee);
  post(windows.data(), 1000, 5);
  post(windows.data() + 1000, 1000, 6);
  post(windows.data() + 2000, 1000, 5);
  ASSERT_EQ(ripc_context_window_post(server_context_.get(), windows.data() + 3000, 1000, 5), RIPC_OK);
  std::size_t count = 99;
  EXPECT_EQ(ripc_window_withdraw(server_.get(), 5, &count), RIPC_OK);
  EXPECT_EQ(count, 2u) << "every window of this service with this cookie";
  EXPECT_EQ(ripc_window_withdraw(server_.get(), 5, &count), RIPC_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(ripc_context_window_withdraw(server_context_.get(), 5, nullptr), RIPC_OK) << "count may be NULL";

  const Bytes data = pattern(1000, 16);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG), item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_EQ(view_of(message, 0).cookie, 6u);
  EXPECT_TRUE(failed(view_of(message, 1), RIPC_NO_WINDOW, 1000));
  for (const std::size_t start : {0u, 2000u, 3000u}) {
    for (std::size_t index = start; index < start + 1000; ++index) ASSERT_EQ(windows[index], 0xee) << index;
  }
}

TEST_P(Windows, AUsedWindowIsNotThereAnyMore) {
  Bytes window(1000);
  post(window, 5);
  const Bytes data = pattern(1000, 17);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  std::size_t count = 99;
  EXPECT_EQ(ripc_window_withdraw(server_.get(), 5, &count), RIPC_OK);
  EXPECT_EQ(count, 0u);
}

TEST_P(Windows, WindowsAreBounded) {
  Bytes window(8);
  for (int count = 0; count < 65536; ++count) {
    ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK) << count;
  }
  EXPECT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_LIMIT);
  std::size_t count = 0;
  EXPECT_EQ(ripc_window_withdraw(server_.get(), 1, &count), RIPC_OK);
  EXPECT_EQ(count, 65536u);
  EXPECT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
}

}  // namespace
}  // namespace conformance
