// SPDX-License-Identifier: Apache-2.0
// Short messages: items, limits, order. full_queue_test.cpp tests what happens when there is no room.
#include <array>
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "puppet.hpp"

namespace conformance {
namespace {

using ShortSend = PairTest;
CONFORMANCE_SUITE(ShortSend);

// ---- Items -------------------------------------------------------------------------------------------------------

TEST_P(ShortSend, AnEmptyMessageArrivesWithItsTagAndSource) {
  ASSERT_EQ(send(client_, server_id(), {}, 0xfedcba98u), RIPC_OK);
  const Message message = receive(server_);
  EXPECT_EQ(ripc_message_get_item_count(message.get()), 0u);
  EXPECT_EQ(ripc_message_get_tag(message.get()), 0xfedcba98u);
  EXPECT_EQ(ripc_message_get_source(message.get()), client_id());
  EXPECT_EQ(ripc_message_get_in_reply_to(message.get()), 0u);
  EXPECT_EQ(ripc_message_get_return_count(message.get()), 0u);
}

TEST_P(ShortSend, ItemsMayBeNullIfThereAreNone) {
  ripc_ticket* ticket = reinterpret_cast<ripc_ticket*>(1);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, nullptr, &ticket), RIPC_OK);
  EXPECT_EQ(ticket, nullptr) << "a message without long items sets *ticket to NULL";
  EXPECT_EQ(ripc_message_get_item_count(receive(server_).get()), 0u);
}

TEST_P(ShortSend, SixtyFourItemsArriveEachAtItsIndex) {
  std::array<std::uint32_t, RIPC_MAX_ITEMS> numbers{};
  std::array<ripc_item, RIPC_MAX_ITEMS> items{};
  for (std::uint32_t index = 0; index < RIPC_MAX_ITEMS; ++index) {
    numbers[index] = 1000 + index;
    items[index] = item_at(&numbers[index], sizeof numbers[index], RIPC_ITEM_SHORT);
  }
  ASSERT_EQ(ripc_send(client_.get(), server_id(), items.data(), items.size(), nullptr, nullptr), RIPC_OK);
  const Message message = receive(server_);
  ASSERT_EQ(ripc_message_get_item_count(message.get()), 64u);
  for (std::size_t index = 64; index-- > 0;) {
    const ripc_item_view view = view_of(message, index);
    EXPECT_EQ(view.kind, RIPC_VIEW_SHORT);
    EXPECT_EQ(view.status, RIPC_OK);
    ASSERT_EQ(view.size, sizeof numbers[0]);
    EXPECT_EQ(std::memcmp(view.data, &numbers[index], sizeof numbers[0]), 0) << "item " << index;
  }
  ripc_item_view view;
  EXPECT_EQ(ripc_message_get_item(message.get(), 64, &view), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_message_get_item(message.get(), SIZE_MAX, &view), RIPC_INVALID_ARGUMENT);
}

TEST_P(ShortSend, MoreThan64ItemsAreRefused) {
  const std::vector<ripc_item> items(RIPC_MAX_ITEMS + 1);
  EXPECT_EQ(ripc_send(client_.get(), server_id(), items.data(), items.size(), nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &message), RIPC_EMPTY);
}

TEST_P(ShortSend, ZeroLengthItemsKeepTheirPlace) {
  const std::string_view a = "a";
  const std::string_view b = "bb";
  ASSERT_EQ(send(client_, server_id(),
                 {item_at(nullptr, 0, RIPC_ITEM_AUTO), item(a), item_at(a.data(), 0, RIPC_ITEM_SHORT), item(b),
                  item_at(nullptr, 0, RIPC_ITEM_SHORT)}),
            RIPC_OK);
  const Message message = receive(server_);
  ASSERT_EQ(ripc_message_get_item_count(message.get()), 5u);
  for (const std::size_t index : {0u, 2u, 4u}) {
    EXPECT_EQ(view_of(message, index).size, 0u);
    EXPECT_EQ(view_of(message, index).status, RIPC_OK);
    EXPECT_EQ(view_of(message, index).kind, RIPC_VIEW_SHORT);
  }
  EXPECT_EQ(text_of(message, 1), "a");
  EXPECT_EQ(text_of(message, 3), "bb");
}

TEST_P(ShortSend, BrokenItemsAreRefusedAndNothingIsSent) {
  const std::string_view text = "text";
  EXPECT_EQ(send(client_, server_id(), {item(text), item_at(nullptr, 1, RIPC_ITEM_SHORT)}), RIPC_INVALID_ARGUMENT);
  ripc_item unknown_kind = item(text);
  unknown_kind.kind = 77;
  EXPECT_EQ(send(client_, server_id(), {unknown_kind}), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(send(client_, server_id(), {item(text, RIPC_ITEM_RETURN)}), RIPC_INVALID_ARGUMENT) << "replies only";
  EXPECT_EQ(send(client_, server_id(), {item_at(text.data(), SIZE_MAX, RIPC_ITEM_SHORT)}), RIPC_TOO_LARGE);
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &message), RIPC_EMPTY);
}

TEST_P(ShortSend, TheMemoryMayBeReusedAtOnce) {
  for (int round = 0; round < 50; ++round) {
    std::string text = "round " + std::to_string(round);
    ASSERT_EQ(send_text(client_, server_id(), text), RIPC_OK);
    text.assign(text.size(), 'x');
  }
  for (int round = 0; round < 50; ++round) EXPECT_EQ(text_of(receive(server_)), "round " + std::to_string(round));
}

TEST_P(ShortSend, MessagesCanBeSentToOneselfAndWithinAContext) {
  const Service neighbour = make_service(client_context_);
  ASSERT_EQ(send_text(client_, client_id(), "to myself"), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(text_of(receive(client_)), "to myself");
  ASSERT_EQ(send_text(client_, id_of(neighbour), "next door"), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(text_of(receive(neighbour)), "next door");
}

TEST_P(ShortSend, AServiceAnswersEachSender) {
  ASSERT_EQ(send_text(client_, server_id(), "question", 5), RIPC_OK);
  const Message question = receive(server_);
  const std::string_view answer = "answer";
  const ripc_item one = item(answer);
  ASSERT_EQ(ripc_reply(server_.get(), question.get(), &one, 1, nullptr, nullptr), RIPC_OK);
  const Message reply = receive(client_);
  EXPECT_EQ(text_of(reply), "answer");
  EXPECT_EQ(ripc_message_get_source(reply.get()), server_id());
  EXPECT_EQ(ripc_message_get_in_reply_to(reply.get()), 0u) << "the question had no return buffers";
  EXPECT_EQ(text_of(question), "question") << "the message stays the caller's";
}

// ---- Limits ------------------------------------------------------------------------------------------------------

TEST_P(ShortSend, AMessageOfExactlyTheLimitFitsAndOneByteMoreDoesNot) {
  for (const std::size_t count : {1u, 2u, 7u, 64u}) {
    std::size_t limit = 0;
    ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), count, &limit), RIPC_OK);
    ASSERT_GT(limit, count);
    const Bytes data = pattern(limit + 1, static_cast<unsigned>(count));
    std::vector<ripc_item> items(count);
    for (std::size_t index = 0; index < count; ++index) items[index] = item_at(&data[index], 1, RIPC_ITEM_SHORT);
    items.back() = item_at(&data[count - 1], limit - (count - 1), RIPC_ITEM_SHORT);

    ASSERT_EQ(ripc_send(client_.get(), server_id(), items.data(), count, nullptr, nullptr), RIPC_OK) << count;
    const Message message = receive(server_);
    EXPECT_TRUE(
        holds(view_of(message, count - 1), RIPC_VIEW_SHORT, std::span(data).subspan(count - 1, limit - count + 1)));

    ++items.back().size;
    EXPECT_EQ(ripc_send(client_.get(), server_id(), items.data(), count, nullptr, nullptr), RIPC_TOO_LARGE) << count;
    ripc_message* none = nullptr;
    EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &none), RIPC_EMPTY) << "nothing was sent, not even a part";
  }
}

TEST_P(ShortSend, TheLimitIsThatOfThePeer) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_bytes = 1u << 20; });
  std::size_t limit = 0;
  std::size_t roomy_limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  ASSERT_EQ(ripc_short_limit(client_.get(), id_of(roomy), 1, &roomy_limit), RIPC_OK);
  EXPECT_GE(roomy_limit, limit);
  EXPECT_EQ(ripc_short_limit(client_.get(), 999999, 1, &limit), RIPC_NO_SERVICE);
  EXPECT_EQ(ripc_short_limit(client_.get(), server_id(), RIPC_MAX_ITEMS + 1, &limit), RIPC_INVALID_ARGUMENT);
}

TEST_P(ShortSend, WithoutAKindAMessageIsShortIfItFitsAndLongIfNot) {
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  const Bytes data = pattern(limit + 1, 3);
  Bytes window(limit + 1);
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 8), RIPC_OK);

  const ripc_item fits = item_at(data.data(), limit, RIPC_ITEM_AUTO);
  ripc_ticket* ticket = nullptr;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &fits, 1, nullptr, &ticket), RIPC_OK);
  EXPECT_EQ(ticket, nullptr);
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_SHORT, std::span(data).first(limit)));

  const Ticket completion = send_long(client_, server_id(), {item(data)});
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(final_status(completion), RIPC_OK);
}

// ---- Unknown and dead peers --------------------------------------------------------------------------------------

TEST_P(ShortSend, AnUnknownServiceIsReportedWithinTheResolveTimeout) {
  const Context context =
      make_context([](ripc_context_options& options) { options.resolve_timeout = 50 * kMillisecond; });
  const Service sender = make_service(context);
  const std::uint64_t start = now();
  EXPECT_EQ(send_text(sender, 987654321, "hello"), RIPC_NO_SERVICE);
  EXPECT_LT(now() - start, kLimit / 2);
  EXPECT_NE(std::string(ripc_last_error()), "");
}

TEST_P(ShortSend, ZeroIsNeverAService) {
  EXPECT_NE(send_text(client_, 0, "hello"), RIPC_OK);
  EXPECT_NE(ripc_wait_room(client_.get(), 0, 0), RIPC_OK);
}

TEST_P(ShortSend, ADeadPeerIsNoticed) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  ASSERT_EQ(send_text(client_, 77, "hello"), RIPC_OK);
  puppet.kill();
  EXPECT_TRUE(is_gone(client_, 77));
}

// ---- Order -------------------------------------------------------------------------------------------------------

// Sends, waiting for room.
void push(const Service& from, ripc_service_id to, Items items, std::uint32_t tag) {
  for (;;) {
    const ripc_status status = send(from, to, items, tag);
    if (status == RIPC_OK) return;
    ASSERT_EQ(status, RIPC_AGAIN) << ripc_last_error();
    const ripc_status room = ripc_wait_room(from.get(), to, kLimit);
    ASSERT_TRUE(room == RIPC_OK) << ripc_status_name(room);
  }
}

TEST_P(ShortSend, OneSenderOneReceiverKeepsOrderAndLosesNothing) {
  constexpr std::uint32_t kCount = 20000;
  const Bytes data = pattern(300, 9);
  std::jthread sender([&] {
    for (std::uint32_t index = 0; index < kCount; ++index) {
      push(client_, server_id(), {item_at(data.data(), index % 300, RIPC_ITEM_SHORT)}, index);
    }
  });
  for (std::uint32_t index = 0; index < kCount; ++index) {
    const Message message = receive(server_);
    ASSERT_EQ(ripc_message_get_tag(message.get()), index);
    ASSERT_TRUE(holds(view_of(message, 0), RIPC_VIEW_SHORT, std::span(data).first(index % 300)));
  }
  sender.join();
  EXPECT_EQ(statistics_of(server_).packets_lost, 0u);
}

TEST_P(ShortSend, SeveralThreadsOfOneServiceEachKeepTheirOrder) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kCount = 3000;
  std::vector<std::jthread> senders;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    senders.emplace_back([this, thread] {
      for (std::uint32_t index = 0; index < kCount; ++index) push(client_, server_id(), {}, thread << 24 | index);
    });
  }
  std::array<std::uint32_t, kThreads> expected{};
  for (std::uint32_t index = 0; index < kThreads * kCount; ++index) {
    const std::uint32_t tag = ripc_message_get_tag(receive(server_).get());
    ASSERT_LT(tag >> 24, kThreads);
    ASSERT_EQ(tag & 0xffffffu, expected[tag >> 24]++);
  }
}

TEST_P(ShortSend, SeveralSendersAllGetThrough) {
  constexpr std::uint32_t kSenders = 4;
  constexpr std::uint32_t kCount = 500;
  std::vector<Context> contexts;
  std::vector<Service> services;
  for (std::uint32_t index = 0; index < kSenders; ++index) {
    contexts.push_back(make_context());
    services.push_back(make_service(contexts.back()));
  }
  std::vector<std::jthread> threads;
  for (std::uint32_t sender = 0; sender < kSenders; ++sender) {
    threads.emplace_back([&, sender] {
      for (std::uint32_t index = 0; index < kCount; ++index) push(services[sender], server_id(), {}, index);
    });
  }
  std::array<std::uint32_t, kSenders> expected{};
  for (std::uint32_t index = 0; index < kSenders * kCount; ++index) {
    const Message message = receive(server_);
    std::size_t sender = 0;
    while (sender < kSenders && id_of(services[sender]) != ripc_message_get_source(message.get())) ++sender;
    ASSERT_LT(sender, kSenders);
    ASSERT_EQ(ripc_message_get_tag(message.get()), expected[sender]++);
  }
  threads.clear();
  services.clear();
}

TEST_P(ShortSend, AnotherProcessKeepsOrderAndLosesNothing) {
  constexpr std::uint32_t kCount = 5000;
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  puppet.tell("stream " + std::to_string(server_id()) + " " + std::to_string(kCount));
  for (std::uint32_t index = 0; index < kCount; ++index) {
    ASSERT_EQ(ripc_message_get_tag(receive(server_).get()), index);
  }
  EXPECT_EQ(puppet.answer(), "RIPC_OK");
}

TEST_P(ShortSend, ThreadsThatMeetAServiceAtTheSameTimeShareOneQueue) {
  constexpr int kThreads = 16;
  for (int round = 0; round < 10; ++round) {
    const Service fresh = make_service(server_context_);
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        EXPECT_EQ(send_text(client_, id_of(fresh), "hello"), RIPC_OK) << ripc_last_error();
      });
    }
    threads.clear();
    EXPECT_EQ(statistics_of(fresh).senders, 1u);
    for (int thread = 0; thread < kThreads; ++thread) EXPECT_EQ(text_of(receive(fresh)), "hello");
  }
}

}  // namespace
}  // namespace conformance
