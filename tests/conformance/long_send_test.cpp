// SPDX-License-Identifier: Apache-2.0
// Long messages into receive windows.
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

class LongSend : public PairTest {
 protected:
  void post(void* data, std::size_t size, std::uint64_t cookie = 0) {
    ASSERT_EQ(ripc_window_post(server_.get(), data, size, cookie), RIPC_OK);
  }
  void post(Bytes& window, std::uint64_t cookie = 0) { post(window.data(), window.size(), cookie); }
};
CONFORMANCE_SUITE(LongSend);

// ---- Windows -----------------------------------------------------------------------------------------------------

TEST_P(LongSend, EachItemLandsInItsOwnWindowInPostingOrder) {
  const Bytes first = pattern(100, 1);
  const Bytes second = pattern(100'000, 2);
  const Bytes third = pattern(1, 3);
  std::array<Bytes, 3> windows = {Bytes(100), Bytes(100'000), Bytes(50)};
  for (std::size_t index = 0; index < 3; ++index) post(windows[index], 70 + index);
  const Ticket ticket = send_long(
      client_, server_id(), {item(first, RIPC_ITEM_LONG), item(second, RIPC_ITEM_LONG), item(third, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  ASSERT_EQ(ripc_message_item_count(message.get()), 3u);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, first));
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_WINDOW, second));
  EXPECT_TRUE(holds(view_of(message, 2), RIPC_VIEW_WINDOW, third));
  for (std::size_t index = 0; index < 3; ++index) {
    EXPECT_EQ(view_of(message, index).data, windows[index].data());
    EXPECT_EQ(view_of(message, index).cookie, 70 + index);
  }
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(LongSend, AWindowMayBeAnyPartOfAnArrayAlignedOrNot) {
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

TEST_P(LongSend, AWindowLargerThanTheItemIsOnlyWrittenAsFarAsTheItem) {
  const Bytes data = pattern(5000, 5);
  Bytes window(8000, 0xee);
  post(window, 1);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, data));
  for (std::size_t index = data.size(); index < window.size(); ++index) ASSERT_EQ(window[index], 0xee) << index;
}

TEST_P(LongSend, AdjacentWindowsReassembleItems) {
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

TEST_P(LongSend, PoolMemoryIsAWindowLikeAnyOther) {
  const Bytes data = pattern(50'000, 7);
  const auto window = lease(server_context_, data.size());
  post(window.get(), data.size(), 1);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
}

TEST_P(LongSend, AnItemWithoutAWindowIsDiscardedAndTheOthersArrive) {
  const Bytes first = pattern(3000, 8);
  const Bytes second = pattern(4000, 9);
  const std::string_view text = "short";
  Bytes window(3000);
  post(window, 1);
  const Ticket ticket = send_long(
      client_, server_id(), {item(first, RIPC_ITEM_LONG), item(second, RIPC_ITEM_LONG), item(text, RIPC_ITEM_SHORT)});
  const Message message = receive(server_);
  ASSERT_EQ(ripc_message_item_count(message.get()), 3u);
  EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, first));
  EXPECT_TRUE(failed(view_of(message, 1), RIPC_NO_WINDOW, 4000));
  EXPECT_EQ(text_of(message, 2), "short");
  EXPECT_EQ(final_status(ticket), RIPC_NO_WINDOW);
  EXPECT_EQ(statistics_of(server_).items_discarded, 1u);
}

TEST_P(LongSend, ATooSmallWindowFailsItsItemAndStaysPosted) {
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

TEST_P(LongSend, WithSeveralFailuresTheTicketHasTheFirst) {
  const Bytes data = pattern(3000, 12);
  Bytes small(100);
  post(small, 1);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG), item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_TRUE(failed(view_of(message, 0), RIPC_WINDOW_TOO_SMALL, 3000));
  EXPECT_TRUE(failed(view_of(message, 1), RIPC_NO_WINDOW, 3000));
  EXPECT_EQ(final_status(ticket), RIPC_WINDOW_TOO_SMALL);
}

TEST_P(LongSend, TheServicesWindowsComeBeforeThoseOfTheContext) {
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

TEST_P(LongSend, AnyServiceOfTheContextMayUseItsWindows) {
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

TEST_P(LongSend, AServicesWindowsAreItsOwn) {
  const Service other = make_service(server_context_);
  Bytes window(2000);
  post(window, 1);
  const Bytes data = pattern(2000, 15);
  const Ticket ticket = send_long(client_, id_of(other), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(failed(view_of(receive(other), 0), RIPC_NO_WINDOW, 2000));
}

TEST_P(LongSend, WithdrawnWindowsAreNotUsed) {
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

TEST_P(LongSend, AUsedWindowIsNotThereAnyMore) {
  Bytes window(1000);
  post(window, 5);
  const Bytes data = pattern(1000, 17);
  const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  std::size_t count = 99;
  EXPECT_EQ(ripc_window_withdraw(server_.get(), 5, &count), RIPC_OK);
  EXPECT_EQ(count, 0u);
}

TEST_P(LongSend, WindowsAreBounded) {
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

// ---- What is sent ------------------------------------------------------------------------------------------------

TEST_P(LongSend, OneMessageMayCarryShortAndLongItems) {
  const std::string_view head = "head";
  const std::string_view tail = "tail";
  const Bytes data = pattern(9000, 18);
  Bytes window(9000);
  post(window);
  const Ticket ticket = send_long(
      client_, server_id(), {item(head, RIPC_ITEM_SHORT), item(data, RIPC_ITEM_LONG), item(tail, RIPC_ITEM_SHORT)});
  const Message message = receive(server_);
  EXPECT_EQ(view_of(message, 0).kind, RIPC_VIEW_SHORT);
  EXPECT_EQ(text_of(message, 0), "head");
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(text_of(message, 2), "tail");
}

TEST_P(LongSend, TheShortPartOfAMixedMessageHasTheShortLimit) {
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 2, &limit), RIPC_OK);
  const Bytes data = pattern(limit + 1, 19);
  ripc_ticket* ticket = nullptr;
  const std::array items = {item(data, RIPC_ITEM_SHORT), item(data, RIPC_ITEM_LONG)};
  EXPECT_EQ(ripc_send(client_.get(), server_id(), items.data(), 2, nullptr, &ticket), RIPC_TOO_LARGE);
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &message), RIPC_EMPTY);
}

TEST_P(LongSend, ATinyOrEmptyItemMayBeLongToo) {
  const Bytes tiny = pattern(1, 20);
  Bytes windows(2);
  post(windows.data(), 1, 1);
  post(windows.data() + 1, 1, 2);
  const Ticket ticket =
      send_long(client_, server_id(), {item_at(tiny.data(), 0, RIPC_ITEM_LONG), item(tiny, RIPC_ITEM_LONG)});
  const Message message = receive(server_);
  EXPECT_EQ(view_of(message, 0).status, RIPC_OK);
  EXPECT_EQ(view_of(message, 0).size, 0u);
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_WINDOW, tiny));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(LongSend, SixtyFourLongItemsArrive) {
  std::vector<Bytes> sent;
  std::vector<Bytes> windows(RIPC_MAX_ITEMS);
  std::vector<ripc_item> items;
  for (unsigned index = 0; index < RIPC_MAX_ITEMS; ++index) {
    sent.push_back(pattern(1 + 997 * index, index));
    windows[index].resize(sent[index].size());
    post(windows[index], index);
    items.push_back(item(sent[index], RIPC_ITEM_LONG));
  }
  ripc_ticket* handle = nullptr;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), items.data(), items.size(), nullptr, &handle), RIPC_OK);
  const Ticket ticket(handle);
  const Message message = receive(server_);
  for (unsigned index = 0; index < RIPC_MAX_ITEMS; ++index) {
    EXPECT_TRUE(holds(view_of(message, index), RIPC_VIEW_WINDOW, sent[index])) << index;
  }
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(LongSend, MemoryOfEveryKindCanBeSent) {
  constexpr std::size_t kSize = (std::size_t{1} << 20) + 13;
  const Bytes expected = pattern(kSize, 21);

  const auto pooled = lease(client_context_, kSize + 100);
  std::memcpy(pooled.get() + 100, expected.data(), kSize);  // the middle of a lease

  Bytes registered = expected;
  ASSERT_EQ(ripc_memory_register(client_context_.get(), registered.data(), kSize), RIPC_OK);

  Bytes unaligned(kSize + 7);
  std::memcpy(unaligned.data() + 7, expected.data(), kSize);

  void* constant = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(constant, MAP_FAILED);
  std::memcpy(constant, expected.data(), kSize);
  ASSERT_EQ(mprotect(constant, kSize, PROT_READ), 0);

  const std::array<const void*, 4> kinds = {pooled.get() + 100, registered.data(), unaligned.data() + 7, constant};
  for (std::size_t index = 0; index < kinds.size(); ++index) {
    Bytes window(kSize);
    post(window, index);
    const Ticket ticket = send_long(client_, server_id(), {item_at(kinds[index], kSize, RIPC_ITEM_LONG)});
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, expected)) << "kind " << index;
    EXPECT_EQ(final_status(ticket), RIPC_OK);
  }
  EXPECT_EQ(ripc_memory_unregister(client_context_.get(), registered.data()), RIPC_OK);
  munmap(constant, kSize);
}

TEST_P(LongSend, SizesAroundPagesAndBeyondArrive) {
  for (const std::size_t size : {4095u, 4096u, 4097u, 65'536u, 2'097'152u, 2'097'153u, (64u << 20) + 1}) {
    const auto data = lease(client_context_, size);
    fill_pattern(data.get(), size, static_cast<unsigned>(size));
    Bytes window(size);
    post(window);
    const Ticket ticket = send_long(client_, server_id(), {item_at(data.get(), size, RIPC_ITEM_LONG)});
    const Message message = receive(server_);
    EXPECT_EQ(view_of(message, 0).status, RIPC_OK) << size;
    EXPECT_EQ(std::memcmp(window.data(), data.get(), size), 0) << size;
    EXPECT_EQ(final_status(ticket), RIPC_OK);
  }
}

TEST_P(LongSend, BothDirectionsBetweenProcesses) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  for (const char* memory : {"pool", "foreign"}) {
    const Bytes expected = pattern(3'000'000, 22);
    Bytes window(expected.size());
    post(window, 1);
    ASSERT_EQ(puppet.call("send_long " + std::to_string(server_id()) + " 3000000 22 " + memory + " 0"), "RIPC_OK");
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, expected)) << memory;
    EXPECT_EQ(puppet.call("wait"), "RIPC_OK");

    ASSERT_EQ(puppet.call("post 3000000 1"), "RIPC_OK");
    const Ticket ticket = send_long(server_, 77, {item(expected, RIPC_ITEM_LONG)});
    EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_WINDOW, expected));
    EXPECT_EQ(final_status(ticket), RIPC_OK);
    EXPECT_EQ(puppet.call("release"), "ok");
  }
}

TEST_P(LongSend, WithinOneContextToo) {
  const Service neighbour = make_service(server_context_);
  const Bytes data = pattern(200'000, 23);
  Bytes window(data.size());
  post(window);
  const Ticket ticket = send_long(neighbour, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

// ---- Delivery ----------------------------------------------------------------------------------------------------

TEST_P(LongSend, AMessageIsDeliveredWhenItsLastByteIsThereNeverBefore) {
  constexpr std::size_t kSize = std::size_t{4} << 20;
  Bytes window(kSize);
  for (unsigned round = 0; round < 5; ++round) {
    const Bytes data = pattern(kSize, round);
    window.assign(kSize, 0);
    post(window);
    const Ticket ticket = send_long(client_, server_id(), {item(data, RIPC_ITEM_LONG)});
    ripc_message* handle = nullptr;
    ASSERT_TRUE(eventually([&] { return ripc_receive(server_.get(), 0, 0, &handle) != RIPC_EMPTY; }));
    const Message message(handle);
    ASSERT_NE(message, nullptr);
    ASSERT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, data));
  }
}

TEST_P(LongSend, ShortAndLongMessagesKeepTheirOrder) {
  constexpr std::uint32_t kCount = 200;
  std::vector<Bytes> windows(kCount, Bytes(60'000));
  for (Bytes& window : windows) post(window);
  const Bytes data = pattern(60'000, 24);
  std::vector<Ticket> tickets;
  std::jthread sender([&] {
    for (std::uint32_t index = 0; index < kCount; ++index) {
      ripc_send_options options = send_options();
      options.tag = index;
      const bool is_long = index % 3 != 0;
      const ripc_item one =
          item_at(data.data(), is_long ? data.size() : 10, is_long ? RIPC_ITEM_LONG : RIPC_ITEM_SHORT);
      ripc_ticket* ticket = nullptr;
      ripc_status status = RIPC_OK;
      while ((status = ripc_send(client_.get(), server_id(), &one, 1, &options, &ticket)) == RIPC_AGAIN) {
        ASSERT_EQ(ripc_wait_room(client_.get(), server_id(), kLimit), RIPC_OK);
      }
      ASSERT_EQ(status, RIPC_OK);
      if (ticket != nullptr) tickets.emplace_back(ticket);
    }
  });
  for (std::uint32_t index = 0; index < kCount; ++index) {
    const Message message = receive(server_);
    ASSERT_EQ(ripc_message_tag(message.get()), index);
    ASSERT_EQ(view_of(message, 0).kind, index % 3 != 0 ? RIPC_VIEW_WINDOW : RIPC_VIEW_SHORT);
  }
  sender.join();
  for (const Ticket& ticket : tickets) EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(LongSend, ManyTransfersMayBeUnderWay) {
  constexpr unsigned kCount = 100;
  std::vector<Bytes> data;
  std::vector<Ticket> tickets;
  for (unsigned index = 0; index < kCount; ++index) {
    data.push_back(pattern(5000, index));
    tickets.push_back(send_long(client_, server_id(), {item(data[index], RIPC_ITEM_LONG)}));
    EXPECT_EQ(ripc_ticket_poll(tickets[index].get()), RIPC_PENDING);
  }
  for (unsigned index = 0; index < kCount; ++index) {
    Bytes window(5000);
    post(window);
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data[index])) << index;
    EXPECT_EQ(final_status(tickets[index]), RIPC_OK);
  }
}

TEST_P(LongSend, TooManyTransfersUnderWayAreAgainAndTheRoomComesBack) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  const Bytes data = pattern(3000, 5);
  const ripc_item one = item(data, RIPC_ITEM_LONG);
  // Thousands take their time on a slow machine.
  ripc_send_options patient = send_options();
  patient.timeout = 10 * kLimit;
  std::vector<Ticket> tickets;
  ripc_status status = RIPC_OK;
  while (tickets.size() < 20'000) {
    ripc_ticket* ticket = nullptr;
    status = ripc_send(client_.get(), id_of(roomy), &one, 1, &patient, &ticket);
    if (status != RIPC_OK) break;
    tickets.emplace_back(ticket);
  }
  ASSERT_EQ(status, RIPC_AGAIN);
  EXPECT_GE(tickets.size(), 128u);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), 20 * kMillisecond), RIPC_TIMEOUT);
  // Elsewhere a receiver may give room back in larger pieces.
  const std::uint64_t patience = traits().exact_queue ? kLimit : kMillisecond;
  std::size_t received = 0;
  do {
    receive(roomy, RIPC_RECEIVE_LEND);
    ++received;
    status = ripc_wait_room(client_.get(), id_of(roomy), patience);
  } while (status == RIPC_TIMEOUT && received < tickets.size());
  ASSERT_EQ(status, RIPC_OK);
  if (traits().exact_queue) {
    EXPECT_EQ(received, 1u);
  }
  tickets.push_back(send_long(client_, id_of(roomy), {one}, &patient));
  for (; received < tickets.size(); ++received) {
    ASSERT_TRUE(holds(view_of(receive(roomy, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data));
  }
  for (const Ticket& ticket : tickets) ASSERT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(LongSend, WhoseTransfersAreAllUnderWayIsToldByTheDescriptorWhenOneHasEnded) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  const Bytes data = pattern(3000, 5);
  const ripc_item one = item(data, RIPC_ITEM_LONG);
  ripc_send_options patient = send_options();
  patient.timeout = 10 * kLimit;
  int fd = -1;
  ASSERT_EQ(ripc_service_get_fd(client_.get(), &fd), RIPC_OK);
  const auto readable = [&](std::uint64_t patience) {
    pollfd descriptor{fd, POLLIN, 0};
    return ::poll(&descriptor, 1, static_cast<int>(patience / kMillisecond)) == 1;
  };
  std::vector<Ticket> tickets;
  const auto fill = [&] {
    ripc_status status = RIPC_OK;
    while (status == RIPC_OK && tickets.size() < 20'000) {
      ripc_ticket* ticket = nullptr;
      status = ripc_send(client_.get(), id_of(roomy), &one, 1, &patient, &ticket);
      if (status == RIPC_OK) tickets.emplace_back(ticket);
    }
    EXPECT_EQ(status, RIPC_AGAIN);
  };
  const auto quiet = [&] {
    ripc_message* message = nullptr;
    EXPECT_EQ(ripc_receive(client_.get(), 0, 0, &message), RIPC_EMPTY);
  };
  fill();
  quiet();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ripc_request_room_event(client_.get(), id_of(roomy)), RIPC_OK);
    if (traits().exact_queue) {
      EXPECT_FALSE(readable(20 * kMillisecond)) << "nothing has ended";
    }
    std::size_t received = 0;
    do {
      receive(roomy, RIPC_RECEIVE_LEND);
      ++received;
    } while (!readable(traits().exact_queue ? kLimit : kMillisecond) && received < tickets.size());
    quiet();
    const std::size_t before = tickets.size();
    fill();
    EXPECT_GT(tickets.size(), before);
    quiet();
  }
}

TEST_P(LongSend, WhoSendsShortOnesDoesNotWaitForTheTransfersOfAnother) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 1024; });
  const Bytes data = pattern(3000, 5);
  const ripc_item one = item(data, RIPC_ITEM_LONG);
  std::vector<Ticket> tickets;
  const auto fill_with_long_ones = [&] {
    for (ripc_ticket* ticket = nullptr; ripc_send(client_.get(), id_of(roomy), &one, 1, nullptr, &ticket) == RIPC_OK;) {
      tickets.emplace_back(ticket);
    }
  };
  fill_with_long_ones();
  std::uint32_t sent = 0;
  while (send(client_, id_of(roomy), {}) == RIPC_OK) ++sent;
  std::jthread(fill_with_long_ones).join();
  std::jthread receiver([&] {
    // Long ones stay with the receiver.
    std::vector<Message> kept;
    for (std::size_t count = 0; count < tickets.size() + sent; ++count)
      kept.push_back(receive(roomy, RIPC_RECEIVE_LEND));
    EXPECT_EQ(text_of(receive(roomy)), "short");
  });
  ASSERT_EQ(ripc_wait_room(client_.get(), id_of(roomy), kLimit), RIPC_OK);
  EXPECT_EQ(send_text(client_, id_of(roomy), "short"), RIPC_OK);
}

TEST_P(LongSend, TwoPeersMaySendToEachOtherAtTheSameTime) {
  const Bytes data = pattern(1'000'000, 25);
  Bytes client_window(data.size());
  Bytes server_window(data.size());
  ASSERT_EQ(ripc_window_post(client_.get(), client_window.data(), client_window.size(), 0), RIPC_OK);
  post(server_window);
  const auto exchange = [&](const Service& self, ripc_service_id other) {
    const Ticket ticket = send_long(self, other, {item(data, RIPC_ITEM_LONG)});
    EXPECT_TRUE(holds(view_of(receive(self), 0), RIPC_VIEW_WINDOW, data));
    EXPECT_EQ(final_status(ticket), RIPC_OK);
  };
  std::jthread client([&] { exchange(client_, server_id()); });
  exchange(server_, client_id());
}

}  // namespace
}  // namespace conformance
