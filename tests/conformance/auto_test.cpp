// SPDX-License-Identifier: Apache-2.0
// Items without a kind: which of them travel as long items, and where and for how long their copies lie. Also what
// lending memory requires instead. natural_test.cpp has the programs that need this.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>

#include "long_pair.hpp"

namespace conformance {
namespace {

constexpr std::size_t kLongEverywhere = 1'100'000;

class AutoItems : public LongPairTest {
 protected:
  std::size_t short_limit(std::size_t items) {
    std::size_t limit = 0;
    EXPECT_EQ(ripc_short_limit(client_.get(), server_id(), items, &limit), RIPC_OK);
    return limit;
  }
  std::uint64_t leased() { return pool_statistics_of(client_context_).leased; }
  std::uint64_t copies() { return statistics_of(client_).payload_copies; }
};
CONFORMANCE_SUITE(AutoItems);

// ---- Which travel long -------------------------------------------------------------------------------------------

TEST_P(AutoItems, TheLargestTravelLongUntilTheOthersFit) {
  const std::size_t limit = short_limit(4);
  struct Case {
    std::vector<std::size_t> sizes;
    std::vector<bool> is_long;
  };
  const std::array<Case, 5> cases = {{
      {{16, limit}, {false, true}},
      {{limit, 16, limit / 2}, {true, false, false}},
      {{limit / 2, limit / 4, limit / 2, 16}, {false, false, true, false}},  // the last of equal ones
      {{limit, limit / 3, limit, limit / 3}, {true, false, true, false}},
      {{0, limit / 3, limit / 3, 10}, {false, false, false, false}},
  }};
  for (std::size_t number = 0; number < cases.size(); ++number) {
    const auto& [sizes, is_long] = cases[number];
    std::vector<Bytes> data;
    std::vector<ripc_item> items;
    for (std::size_t index = 0; index < sizes.size(); ++index)
      data.push_back(pattern(sizes[index], static_cast<unsigned>(index)));
    for (const Bytes& bytes : data) items.push_back(item(bytes));
    ASSERT_EQ(ripc_send(client_.get(), server_id(), items.data(), items.size(), nullptr, nullptr), RIPC_OK);
    const Message message = receive(server_, RIPC_RECEIVE_LEND);
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      EXPECT_TRUE(holds(view_of(message, index), is_long[index] ? RIPC_VIEW_LENT : RIPC_VIEW_SHORT, data[index]))
          << "item " << index << " of case " << number;
    }
  }
}

TEST_P(AutoItems, SmallOnesStayShortBesideLongItems) {
  const std::string_view head = "head";
  const Bytes lent = pattern(kLongEverywhere, 1);
  const Bytes copied = pattern(kLongEverywhere, 2);
  const Ticket ticket = send_long(client_, server_id(), {item(head), item(lent, RIPC_ITEM_LONG), item(copied)});
  const Message message = receive(server_, RIPC_RECEIVE_LEND);
  EXPECT_EQ(view_of(message, 0).kind, RIPC_VIEW_SHORT);
  EXPECT_EQ(text_of(message, 0), "head");
  EXPECT_TRUE(holds(view_of(message, 1), RIPC_VIEW_LENT, lent));
  EXPECT_TRUE(holds(view_of(message, 2), RIPC_VIEW_LENT, copied));
}

TEST_P(AutoItems, ThatTravelLongNeedAWindowAndTheTicketSaysWhatToDoWithout) {
  const Bytes data = pattern(kLongEverywhere, 9);
  const Ticket ticket = send_long(client_, server_id(), {item(data)});
  const Message message = receive(server_);
  EXPECT_EQ(view_of(message, 0).kind, RIPC_VIEW_FAILED);
  EXPECT_EQ(final_status(ticket), RIPC_NO_WINDOW);
  const std::string text = ripc_last_error();
  for (const char* words : {"AUTO item", "post windows", "RIPC_RECEIVE_LEND", "ripc_short_limit()"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " in: " << text;
}

// ---- The copies --------------------------------------------------------------------------------------------------

TEST_P(AutoItems, ACopyIsLeasedAsLongAsItTravels) {
  const Bytes data = pattern(kLongEverywhere, 3);
  ASSERT_EQ(send(client_, server_id(), {item(data)}), RIPC_OK);
  EXPECT_EQ(leased(), kLongEverywhere);
  EXPECT_EQ(copies(), 1u);
  receive(server_, RIPC_RECEIVE_LEND);
  EXPECT_TRUE(eventually([&] { return leased() == 0; }));

  const Ticket ticket = send_long(client_, server_id(), {item(data)});
  EXPECT_EQ(leased(), kLongEverywhere);
  EXPECT_EQ(ripc_ticket_cancel(ticket.get()), RIPC_CANCELLED);
  EXPECT_TRUE(eventually([&] { return leased() == 0; }));
}

TEST_P(AutoItems, ThatAreRefusedAreNotCopiedAgainBeforeThereIsRoom) {
  // The queue takes hundreds of these messages, and slow devices move them one by one. So they are as small as possible
  // and have no time limit.
  const Bytes data = pattern(2 * short_limit(1), 4);
  ripc_send_options patient = send_options();
  patient.timeout = RIPC_FOREVER;
  const ripc_item one = item(data);
  const auto send_one = [&] { return ripc_send(client_.get(), server_id(), &one, 1, &patient, nullptr); };
  const std::size_t sent = send_until_full(send_one);
  const std::uint64_t copied = copies();
  const std::uint64_t held = leased();
  for (int count = 0; count < 10; ++count) EXPECT_EQ(send_one(), RIPC_AGAIN);
  EXPECT_EQ(copies(), copied);
  EXPECT_EQ(leased(), held) << "what was refused keeps no memory";
  for (std::size_t count = 0; count < sent; ++count)
    ASSERT_TRUE(holds(view_of(receive(server_, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data));
  // Between hosts, repeated announcements take room until the receiver looks again, so this receives while it waits.
  ASSERT_TRUE(eventually([&] {
    ripc_message* more = nullptr;
    (void)ripc_receive(server_.get(), 0, 0, &more);
    EXPECT_EQ(Message(more), nullptr) << "one came twice";
    return send_one() == RIPC_OK;
  })) << ripc_last_error();
  EXPECT_TRUE(holds(view_of(receive(server_, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data));
  EXPECT_TRUE(eventually([&] { return leased() == 0; }));
}

TEST_P(AutoItems, WithoutPoolMemoryNothingIsSentAndLendingStillWorks) {
  const Context context = make_context([](ripc_context_options& options) { options.pool_limit = 1 << 20; });
  const Service poor = make_service(context);
  const Bytes data = pattern(std::size_t{3} << 20, 5);
  EXPECT_EQ(send(poor, server_id(), {item(data)}), RIPC_NO_MEMORY);
  EXPECT_NE(std::string(ripc_last_error()).find("RIPC_ITEM_LONG"), std::string::npos) << ripc_last_error();
  EXPECT_EQ(pool_statistics_of(context).leased, 0u);
  ASSERT_EQ(send_text(poor, server_id(), "the next"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "the next");

  Bytes window(data.size());
  post(window);
  const Ticket ticket = send_long(poor, server_id(), {item(data, RIPC_ITEM_LONG)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

// Copies that have arrived make room for others, although no one looks at a ticket.
TEST_P(AutoItems, TheirMemoryIsUsedAgainWithoutALookAtATicket) {
  const Context context = make_context([](ripc_context_options& options) { options.pool_limit = 4 << 20; });
  const Service poor = make_service(context);
  const Bytes data = pattern(1'200'000, 6);
  Bytes window(data.size());
  for (int count = 0; count < 30; ++count) {
    post(window);
    // Between hosts, it takes time until the receiver confirms that it has the bytes.
    const auto sent = [&] { return send(poor, server_id(), {item(data)}) == RIPC_OK; };
    ASSERT_TRUE(traits().exact_queue ? sent() : eventually(sent)) << ripc_last_error();
    ASSERT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data)) << count;
  }
}

TEST_P(AutoItems, AMessageFromMemoryThatIsUnmappedAtOnceArrives) {
  void* data = mmap(nullptr, kLongEverywhere, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  fill_pattern(data, kLongEverywhere, 7);
  const Ticket ticket = send_long(client_, server_id(), {item_at(data, kLongEverywhere, RIPC_ITEM_AUTO)});
  ASSERT_EQ(munmap(data, kLongEverywhere), 0);
  EXPECT_TRUE(holds(view_of(receive(server_, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, pattern(kLongEverywhere, 7)));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

// ---- Lending -----------------------------------------------------------------------------------------------------

TEST_P(AutoItems, LentMemoryNeedsSomethingThatTellsTheEndOfTheLoan) {
  Bytes data = pattern(kLongEverywhere, 8);
  const ripc_item lent = item(data, RIPC_ITEM_LONG);
  EXPECT_EQ(ripc_send(client_.get(), server_id(), &lent, 1, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  const ripc_outgoing message{&lent, 1, 0};
  EXPECT_EQ(ripc_send_many(client_.get(), server_id(), &message, 1, nullptr, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  // The end of a registration tells the end of the loan only for memory that lies inside it.
  ASSERT_EQ(ripc_memory_register(client_context_.get(), data.data(), data.size() - 1), RIPC_OK);
  EXPECT_EQ(ripc_send(client_.get(), server_id(), &lent, 1, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  ASSERT_EQ(ripc_memory_unregister(client_context_.get(), data.data()), RIPC_OK);
  expect_nothing_more(server_);
  const std::uint64_t copied = copies();

  // A ticket, a callback, a registration or a lease tells the end of the loan.
  const Ticket ticket = send_long(client_, server_id(), {lent});
  std::atomic<int> ended{0};
  ripc_send_options options = send_options();
  options.callback = [](void* user, ripc_status) { ++*static_cast<std::atomic<int>*>(user); };
  options.user = &ended;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &lent, 1, &options, nullptr), RIPC_OK);
  ASSERT_EQ(ripc_memory_register(client_context_.get(), data.data(), data.size()), RIPC_OK);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &lent, 1, nullptr, nullptr), RIPC_OK);
  void* leased = nullptr;
  ASSERT_EQ(ripc_buffer_lease(client_context_.get(), kLongEverywhere, &leased), RIPC_OK);
  std::memcpy(leased, data.data(), kLongEverywhere);
  const ripc_item pooled = item_at(leased, kLongEverywhere, RIPC_ITEM_LONG);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &pooled, 1, nullptr, nullptr), RIPC_OK);
  ASSERT_EQ(ripc_buffer_release(client_context_.get(), leased), RIPC_OK);
  for (int count = 0; count < 4; ++count)
    EXPECT_TRUE(holds(view_of(receive(server_, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return ended == 1; }));
  EXPECT_EQ(copies(), copied) << "what is lent is not copied by the sender";
  EXPECT_EQ(ripc_memory_unregister(client_context_.get(), data.data()), RIPC_OK);
}

}  // namespace
}  // namespace conformance
