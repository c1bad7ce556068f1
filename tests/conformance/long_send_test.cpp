// SPDX-License-Identifier: Apache-2.0
// Long messages: what they may consist of, when they are delivered and in which order. window_test.cpp tests windows;
// transfers_test.cpp tests how many messages may be under way.
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <thread>

#include "long_pair.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

class LongSend : public LongPairTest {};
CONFORMANCE_SUITE(LongSend);

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

TEST_P(LongSend, ATinyOrEmptyItemMayBeLong) {
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

// Large enough that each rail between two hosts carries some of the bytes.
TEST_P(LongSend, BothDirectionsBetweenProcesses) {
  constexpr std::size_t kSize = 12'000'000;
  const std::string size = std::to_string(kSize);
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  for (const char* memory : {"pool", "foreign"}) {
    const Bytes expected = pattern(kSize, 22);
    Bytes window(expected.size());
    post(window, 1);
    ASSERT_EQ(puppet.call("send_long " + std::to_string(server_id()) + " " + size + " 22 " + memory + " 0"), "RIPC_OK");
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, expected)) << memory;
    EXPECT_EQ(puppet.call("wait"), "RIPC_OK");

    ASSERT_EQ(puppet.call("post " + size + " 1"), "RIPC_OK");
    const Ticket ticket = send_long(server_, 77, {item(expected, RIPC_ITEM_LONG)});
    EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_WINDOW, expected));
    EXPECT_EQ(final_status(ticket), RIPC_OK);
    EXPECT_EQ(puppet.call("release"), "ok");
  }
}

TEST_P(LongSend, ALongItemTravelsWithinOneContext) {
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
    ASSERT_EQ(ripc_message_get_tag(message.get()), index);
    ASSERT_EQ(view_of(message, 0).kind, index % 3 != 0 ? RIPC_VIEW_WINDOW : RIPC_VIEW_SHORT);
  }
  sender.join();
  for (const Ticket& ticket : tickets) EXPECT_EQ(final_status(ticket), RIPC_OK);
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
