// SPDX-License-Identifier: Apache-2.0
// Return buffers: memory that a request offers for its reply.
#include <array>
#include <cstring>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

class ReturnBuffers : public PairTest {
 protected:
  // Sends a request with these return buffers; returns its id.
  std::uint64_t request(std::span<const ripc_return_buffer> returns, Items items = {}, ripc_service_id to = 0,
                        Ticket* ticket = nullptr) {
    std::uint64_t id = 0;
    ripc_send_options options = send_options();
    options.return_count = static_cast<std::uint32_t>(returns.size());
    options.returns = returns.data();
    options.request_id = &id;
    ripc_ticket* handle = nullptr;
    EXPECT_EQ(ripc_send(client_.get(), to == 0 ? server_id() : to, std::data(items), items.size(), &options, &handle),
              RIPC_OK)
        << ripc_last_error();
    if (ticket != nullptr) {
      ticket->reset(handle);
    } else {
      EXPECT_EQ(handle, nullptr) << "return buffers alone make no ticket";
    }
    EXPECT_NE(id, 0u);
    return id;
  }
  std::uint64_t request(Bytes& buffer) {
    const ripc_return_buffer one{buffer.data(), buffer.size()};
    return request(std::span(&one, 1));
  }

  // Replies; items that had to travel as long items have a ticket.
  Ticket reply(const Message& message, Items items) {
    ripc_ticket* ticket = nullptr;
    EXPECT_EQ(ripc_reply(server_.get(), message.get(), std::data(items), items.size(), nullptr, &ticket), RIPC_OK)
        << ripc_last_error();
    return Ticket(ticket);
  }

  void post(Bytes& window, std::uint64_t cookie) {
    ASSERT_EQ(ripc_window_post(client_.get(), window.data(), window.size(), cookie), RIPC_OK);
  }
};
CONFORMANCE_SUITE(ReturnBuffers);

testing::AssertionResult returned(const ripc_item_view& view, std::uint32_t index, const Bytes& buffer,
                                  const Bytes& bytes) {
  if (view.return_index != index) return testing::AssertionFailure() << "return index " << view.return_index;
  if (view.data != buffer.data()) return testing::AssertionFailure() << "not in the return buffer";
  return holds(view, RIPC_VIEW_RETURNED, bytes);
}

// ---- Filling -----------------------------------------------------------------------------------------------------

TEST_P(ReturnBuffers, TheReplierSeesWhatIsOffered) {
  Bytes first(1000);
  Bytes second(5);
  const std::array<ripc_return_buffer, 2> returns = {{{first.data(), 1000}, {second.data(), 5}}};
  const std::string_view question = "question";
  request(returns, {item(question)});
  const Message message = receive(server_);
  EXPECT_EQ(ripc_message_item_count(message.get()), 1u) << "return buffers are not items";
  EXPECT_EQ(text_of(message), "question");
  ASSERT_EQ(ripc_message_return_count(message.get()), 2u);
  EXPECT_EQ(ripc_message_return_size(message.get(), 0), 1000u);
  EXPECT_EQ(ripc_message_return_size(message.get(), 1), 5u);
  EXPECT_EQ(ripc_message_return_size(message.get(), 2), 0u);
}

TEST_P(ReturnBuffers, AReplyMayFillAllOfThem) {
  Bytes first(1000);
  Bytes second(300'000);
  const std::array<ripc_return_buffer, 2> returns = {{{first.data(), first.size()}, {second.data(), second.size()}}};
  const std::uint64_t id = request(returns);
  const Message question = receive(server_);
  const Bytes full = pattern(300'000, 1);
  const Bytes part = pattern(10, 2);
  const std::string_view text = "done";
  reply(question, {item(full, RIPC_ITEM_RETURN, 1), item(text), item(part, RIPC_ITEM_RETURN, 0)});
  const Message answer = receive(client_);
  EXPECT_EQ(ripc_message_in_reply_to(answer.get()), id);
  ASSERT_EQ(ripc_message_item_count(answer.get()), 3u);
  EXPECT_TRUE(returned(view_of(answer, 0), 1, second, full));
  EXPECT_EQ(text_of(answer, 1), "done");
  EXPECT_TRUE(returned(view_of(answer, 2), 0, first, part)) << "filled as far as its size says";
}

TEST_P(ReturnBuffers, AReplyMayFillSomeOrNoneAndTheRestComeBackUntouched) {
  Bytes first(100, 0xee);
  Bytes second(100, 0xee);
  const std::array<ripc_return_buffer, 2> returns = {{{first.data(), 100}, {second.data(), 100}}};
  const Bytes data = pattern(40, 3);
  const std::uint64_t some = request(returns);
  reply(receive(server_), {item(data, RIPC_ITEM_RETURN, 1)});
  {
    const Message answer = receive(client_);
    EXPECT_EQ(ripc_message_in_reply_to(answer.get()), some);
    EXPECT_TRUE(returned(view_of(answer, 0), 1, second, data));
  }
  EXPECT_EQ(first, Bytes(100, 0xee));
  for (std::size_t index = 40; index < 100; ++index) EXPECT_EQ(second[index], 0xee);

  const std::uint64_t none = request(returns);
  EXPECT_NE(none, some);
  reply(receive(server_), {});
  const Message answer = receive(client_);
  EXPECT_EQ(ripc_message_in_reply_to(answer.get()), none) << "a reply without items answers too";
  EXPECT_EQ(first, Bytes(100, 0xee));
}

TEST_P(ReturnBuffers, SixteenMayBeAttachedAndNoMore) {
  std::vector<Bytes> buffers(RIPC_MAX_RETURNS + 1, Bytes(500));
  std::vector<ripc_return_buffer> returns;
  for (Bytes& buffer : buffers) returns.push_back({buffer.data(), buffer.size()});
  ripc_send_options options = send_options();
  options.returns = returns.data();
  options.return_count = RIPC_MAX_RETURNS + 1;
  EXPECT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_INVALID_ARGUMENT);

  request(std::span(returns).first(RIPC_MAX_RETURNS));
  const Message question = receive(server_);
  EXPECT_EQ(ripc_message_return_count(question.get()), 16u);
  std::vector<Bytes> sent;
  std::vector<ripc_item> items;
  for (unsigned index = 0; index < RIPC_MAX_RETURNS; ++index) sent.push_back(pattern(500 - index, index));
  for (unsigned index = 0; index < RIPC_MAX_RETURNS; ++index)
    items.push_back(item(sent[index], RIPC_ITEM_RETURN, index));
  ASSERT_EQ(ripc_reply(server_.get(), question.get(), items.data(), items.size(), nullptr, nullptr), RIPC_OK);
  const Message answer = receive(client_);
  for (unsigned index = 0; index < RIPC_MAX_RETURNS; ++index) {
    EXPECT_TRUE(returned(view_of(answer, index), index, buffers[index], sent[index])) << index;
  }
}

TEST_P(ReturnBuffers, TheyGoWithLongMessagesToo) {
  const Bytes data = pattern(50'000, 4);
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 1), RIPC_OK);
  Bytes buffer(data.size());
  const ripc_return_buffer one{buffer.data(), buffer.size()};
  Ticket ticket;
  const std::uint64_t id = request(std::span(&one, 1), {item(data, RIPC_ITEM_LONG)}, 0, &ticket);
  const Message question = receive(server_);
  EXPECT_TRUE(holds(view_of(question, 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  reply(question, {item(window, RIPC_ITEM_RETURN, 0)});
  const Message answer = receive(client_);
  EXPECT_EQ(ripc_message_in_reply_to(answer.get()), id);
  EXPECT_TRUE(returned(view_of(answer, 0), 0, buffer, data));
}

TEST_P(ReturnBuffers, AnyMemoryMayBeOfferedAndReturned) {
  const Bytes data = pattern(2'000'001, 5);
  const auto pooled = lease(client_context_, data.size() + 5);
  Bytes foreign(data.size() + 5);
  const auto sent = lease(server_context_, data.size());
  std::memcpy(sent.get(), data.data(), data.size());
  for (void* buffer : {static_cast<void*>(pooled.get() + 3), static_cast<void*>(foreign.data() + 1)}) {
    const ripc_return_buffer one{buffer, data.size()};
    request(std::span(&one, 1));
    reply(receive(server_), {item_at(sent.get(), data.size(), RIPC_ITEM_RETURN)});
    const Message answer = receive(client_);
    EXPECT_EQ(view_of(answer, 0).data, buffer);
    EXPECT_TRUE(holds(view_of(answer, 0), RIPC_VIEW_RETURNED, data));
  }
}

TEST_P(ReturnBuffers, AnEmptyReturnItemSaysThatItIsEmpty) {
  Bytes buffer(10, 0xee);
  request(buffer);
  reply(receive(server_), {item_at(nullptr, 0, RIPC_ITEM_RETURN)});
  const Message answer = receive(client_);
  EXPECT_EQ(view_of(answer, 0).status, RIPC_OK);
  EXPECT_EQ(view_of(answer, 0).kind, RIPC_VIEW_RETURNED);
  EXPECT_EQ(view_of(answer, 0).size, 0u);
  EXPECT_EQ(buffer, Bytes(10, 0xee));
}

TEST_P(ReturnBuffers, WithoutThemThereIsNoRequest) {
  std::uint64_t id = 99;
  ripc_send_options options = send_options();
  options.request_id = &id;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
  EXPECT_EQ(id, 0u);
}

TEST_P(ReturnBuffers, BrokenOnesAreRefused) {
  const ripc_return_buffer broken{nullptr, 10};
  ripc_send_options options = send_options();
  options.return_count = 1;
  options.returns = &broken;
  EXPECT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_INVALID_ARGUMENT);
  options.returns = nullptr;
  EXPECT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_INVALID_ARGUMENT);
}

// ---- The pull path -----------------------------------------------------------------------------------------------

TEST_P(ReturnBuffers, WhatDoesNotFitTravelsAsALongItem) {
  Bytes buffer(1000, 0xee);
  const Bytes data = pattern(1001, 6);
  Bytes window(2000);
  post(window, 9);
  const std::uint64_t id = request(buffer);
  const Ticket ticket = reply(receive(server_), {item(data, RIPC_ITEM_RETURN, 0)});
  const Message answer = receive(client_);
  EXPECT_EQ(ripc_message_in_reply_to(answer.get()), id);
  EXPECT_TRUE(holds(view_of(answer, 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(view_of(answer, 0).cookie, 9u);
  ASSERT_NE(ticket, nullptr);
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  EXPECT_EQ(buffer, Bytes(1000, 0xee));
}

TEST_P(ReturnBuffers, ASecondItemForTheSameBufferTravelsAsALongItem) {
  Bytes buffer(1000);
  const Bytes first = pattern(500, 7);
  const Bytes second = pattern(600, 8);
  Bytes window(1000);
  post(window, 9);
  request(buffer);
  const Ticket ticket = reply(receive(server_), {item(first, RIPC_ITEM_RETURN, 0), item(second, RIPC_ITEM_RETURN, 0)});
  const Message answer = receive(client_);
  EXPECT_TRUE(returned(view_of(answer, 0), 0, buffer, first));
  EXPECT_TRUE(holds(view_of(answer, 1), RIPC_VIEW_WINDOW, second));
}

TEST_P(ReturnBuffers, TheRightToWriteEndsWithTheFirstReply) {
  Bytes buffer(1000, 0xee);
  const Bytes data = pattern(1000, 9);
  Bytes window(1000);
  post(window, 9);
  request(buffer);
  const Message question = receive(server_);
  reply(question, {});
  receive(client_);
  const Ticket ticket = reply(question, {item(data, RIPC_ITEM_RETURN, 0)});
  EXPECT_TRUE(holds(view_of(receive(client_), 0), RIPC_VIEW_WINDOW, data)) << "nothing is lost";
  EXPECT_EQ(buffer, Bytes(1000, 0xee));
}

TEST_P(ReturnBuffers, AReplyMayMixAllKinds) {
  Bytes buffer(10'000);
  const Bytes filled = pattern(10'000, 10);
  const Bytes pulled = pattern(20'000, 11);
  const std::string_view text = "short";
  Bytes window(20'000);
  post(window, 9);
  request(buffer);
  const Ticket ticket = reply(
      receive(server_), {item(pulled, RIPC_ITEM_LONG), item(text, RIPC_ITEM_SHORT), item(filled, RIPC_ITEM_RETURN, 0)});
  const Message answer = receive(client_);
  EXPECT_TRUE(holds(view_of(answer, 0), RIPC_VIEW_WINDOW, pulled));
  EXPECT_EQ(text_of(answer, 1), "short");
  EXPECT_TRUE(returned(view_of(answer, 2), 0, buffer, filled));
}

// ---- Cancel ------------------------------------------------------------------------------------------------------

TEST_P(ReturnBuffers, AfterCancelNoReplyWritesToThem) {
  Bytes buffer(1000, 0xee);
  const Bytes data = pattern(1000, 12);
  Bytes window(1000);
  post(window, 9);
  const std::uint64_t id = request(buffer);
  const Message question = receive(server_);
  EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
  const Ticket ticket = reply(question, {item(data, RIPC_ITEM_RETURN, 0)});
  EXPECT_TRUE(holds(view_of(receive(client_), 0), RIPC_VIEW_WINDOW, data)) << "nothing is lost";
  EXPECT_EQ(buffer, Bytes(1000, 0xee));
}

TEST_P(ReturnBuffers, CancelOfAnUnknownOrAnsweredRequestIsRefused) {
  EXPECT_EQ(ripc_request_cancel(client_.get(), 0), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_request_cancel(client_.get(), 12345), RIPC_INVALID_ARGUMENT);
  Bytes buffer(10);
  const std::uint64_t cancelled = request(buffer);
  EXPECT_EQ(ripc_request_cancel(client_.get(), cancelled), RIPC_OK);
  EXPECT_EQ(ripc_request_cancel(client_.get(), cancelled), RIPC_INVALID_ARGUMENT);
  receive(server_);

  const std::uint64_t answered = request(buffer);
  reply(receive(server_), {});
  receive(client_);
  EXPECT_EQ(ripc_request_cancel(client_.get(), answered), RIPC_INVALID_ARGUMENT);
}

TEST_P(ReturnBuffers, CancelDuringAWriteWaitsForItsEnd) {
  constexpr std::size_t kSize = std::size_t{8} << 20;
  const Bytes data = pattern(kSize, 13);
  Bytes buffer(kSize);
  Bytes window(kSize);
  for (int round = 0; round < 20; ++round) {
    post(window, 9);
    const std::uint64_t id = request(buffer);
    std::jthread replier([&] {
      const Message question = receive(server_);
      const Ticket ticket = reply(question, {item(data, RIPC_ITEM_RETURN, 0)});
      if (ticket != nullptr) final_status(ticket);
    });
    const ripc_status status = ripc_request_cancel(client_.get(), id);
    ASSERT_TRUE(status == RIPC_OK || status == RIPC_INVALID_ARGUMENT) << ripc_status_name(status);
    if (status == RIPC_OK) {
      std::memset(buffer.data(), 0xee, kSize);
    }
    const Message answer = receive(client_);
    replier.join();
    const ripc_item_view view = view_of(answer, 0);
    if (status == RIPC_OK) {
      EXPECT_EQ(buffer, Bytes(kSize, 0xee)) << "written to after cancel returned";
    } else {
      EXPECT_TRUE(returned(view, 0, buffer, data));
    }
    ripc_window_withdraw(client_.get(), 9, nullptr);
  }
}

// ---- Deaths ------------------------------------------------------------------------------------------------------

TEST_P(ReturnBuffers, ARequesterThatDiedDoesNotHurtTheReplier) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  ASSERT_EQ(puppet.status_of("request " + std::to_string(server_id()) + " 100000"), "RIPC_OK");
  const Message question = receive(server_);
  ASSERT_EQ(ripc_message_return_count(question.get()), 1u);
  puppet.kill();
  const Bytes data = pattern(100'000, 14);
  const ripc_item one = item(data, RIPC_ITEM_RETURN);
  EXPECT_TRUE(eventually([&] {
    const ripc_status status = ripc_reply(server_.get(), question.get(), &one, 1, nullptr, nullptr);
    return status == RIPC_PEER_DEAD || status == RIPC_NO_SERVICE;
  }));
  ASSERT_EQ(send_text(client_, server_id(), "still well"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "still well");
}

TEST_P(ReturnBuffers, AfterTheDeathOfTheReplierTheBuffersCanBeTakenBack) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  Bytes buffer(1000);
  const ripc_return_buffer one{buffer.data(), buffer.size()};
  const std::uint64_t id = request(std::span(&one, 1), {}, 77);
  ASSERT_EQ(puppet.status_of("receive"), "RIPC_OK");
  puppet.kill();
  EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

TEST_P(ReturnBuffers, ARequestNobodyAnswersCanBeTakenBack) {
  Bytes buffer(1000);
  const std::uint64_t id = request(buffer);
  receive(server_).reset();
  EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

// ---- Several -----------------------------------------------------------------------------------------------------

TEST_P(ReturnBuffers, ManyRequestsMayBeOpenAndBeAnsweredInAnyOrder) {
  constexpr unsigned kCount = 60;
  std::vector<Bytes> buffers(kCount, Bytes(3000));
  std::vector<std::uint64_t> ids;
  std::vector<Message> questions;
  for (unsigned index = 0; index < kCount; ++index) {
    ids.push_back(request(buffers[index]));
    questions.push_back(receive(server_));
  }
  for (unsigned index = kCount; index-- > 0;) {
    const Bytes data = pattern(1000 + index, index);
    reply(questions[index], {item(data, RIPC_ITEM_RETURN, 0)});
    const Message answer = receive(client_);
    EXPECT_EQ(ripc_message_in_reply_to(answer.get()), ids[index]);
    EXPECT_TRUE(returned(view_of(answer, 0), 0, buffers[index], data)) << index;
  }
}

TEST_P(ReturnBuffers, TooManyOpenRequestsAreAgainAndTheRoomComesBack) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  std::vector<Bytes> buffers;
  buffers.reserve(20'000);
  std::vector<std::uint64_t> ids;
  const auto ask = [&](Bytes& buffer, std::uint64_t& id) {
    const ripc_return_buffer one{buffer.data(), buffer.size()};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &one;
    options.request_id = &id;
    return ripc_send(client_.get(), id_of(roomy), nullptr, 0, &options, nullptr);
  };
  ripc_status status = RIPC_OK;
  while (buffers.size() < 20'000) {
    buffers.emplace_back(100);
    std::uint64_t id = 0;
    status = ask(buffers.back(), id);
    if (status != RIPC_OK) break;
    ids.push_back(id);
  }
  ASSERT_EQ(status, RIPC_AGAIN);
  EXPECT_GE(ids.size(), 64u);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), 20 * kMillisecond), RIPC_TIMEOUT);
  // Where the queue is full first, its room is what is waited for.
  if (!traits().exact_queue) {
    for (std::size_t count = 0; count < ids.size(); ++count) receive(roomy);
  }
  std::jthread canceller([&] { EXPECT_EQ(ripc_request_cancel(client_.get(), ids.back()), RIPC_OK); });
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), kLimit), RIPC_OK);
  canceller.join();
  EXPECT_EQ(ask(buffers.back(), ids.back()), RIPC_OK);
  for (const std::uint64_t id : ids) EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

TEST_P(ReturnBuffers, WhoOffersSeveralIsNotToldAgainOfRoomThatWasTooLittle) {
  if (!traits().exact_queue) GTEST_SKIP() << "with this transport the queue is full before there are too many requests";
  Bytes memory(16);
  const std::vector<ripc_return_buffer> offers(16, {memory.data(), memory.size()});
  const auto ask = [&](std::uint32_t count, std::uint64_t& id) {
    ripc_send_options options = send_options();
    options.return_count = count;
    options.returns = offers.data();
    options.request_id = &id;
    return ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr);
  };
  std::vector<std::uint64_t> ids(62);
  for (std::uint64_t& id : ids) ASSERT_EQ(ask(1, id), RIPC_OK);
  std::uint64_t large = 0;
  for (int count = 0; count < 2; ++count) {
    ASSERT_EQ(ask(4, large), RIPC_AGAIN);
    EXPECT_EQ(ripc_wait_room(client_.get(), server_id(), 20 * kMillisecond), RIPC_TIMEOUT);
    ASSERT_EQ(ripc_request_cancel(client_.get(), ids.back()), RIPC_OK);
    ids.pop_back();
    EXPECT_EQ(ripc_wait_room(client_.get(), server_id(), kLimit), RIPC_OK);
  }
  EXPECT_EQ(ask(4, large), RIPC_OK);
  EXPECT_EQ(ripc_request_cancel(client_.get(), large), RIPC_OK);
  for (const std::uint64_t id : ids) EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

TEST_P(ReturnBuffers, AReplyThatFoundNoRoomFillsThemWhenItIsSentAgain) {
  const Service roomy =
      make_service(client_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  // Of two replies, one finds no room for a packet, the other none for one more transfer.
  for (const bool with_long_item : {false, true}) {
    const Service& asking = with_long_item ? roomy : client_;
    Bytes buffer(1000);
    const ripc_return_buffer offered{buffer.data(), buffer.size()};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &offered;
    ASSERT_EQ(ripc_send(asking.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
    const Message question = receive(server_);

    const Bytes filler = pattern(100, 1);
    const ripc_item small = item(filler, RIPC_ITEM_LONG);
    ripc_send_options patient = send_options();
    patient.timeout = 10 * kLimit;
    std::size_t sent = 0;
    ripc_status status = RIPC_OK;
    while (status == RIPC_OK && sent < 20'000) {
      // An empty message takes the least room that there is.
      status = ripc_send(server_.get(), id_of(asking), &small, with_long_item ? 1 : 0, &patient, nullptr);
      if (status == RIPC_OK) ++sent;
    }
    ASSERT_EQ(status, RIPC_AGAIN);

    Bytes first = pattern(1000, 2);
    std::vector<ripc_item> reply = {item(first, RIPC_ITEM_RETURN)};
    if (with_long_item) reply.push_back(small);
    ASSERT_EQ(ripc_reply(server_.get(), question.get(), reply.data(), reply.size(), nullptr, nullptr), RIPC_AGAIN);
    for (std::size_t count = 0; count < sent; ++count) receive(asking, RIPC_RECEIVE_LEND);
    // What is said may have changed meanwhile.
    const Bytes second = pattern(900, 3);
    reply.front() = item(second, RIPC_ITEM_RETURN);
    do {
      ASSERT_EQ(ripc_wait_room(server_.get(), id_of(asking), kLimit), RIPC_OK);
      status = ripc_reply(server_.get(), question.get(), reply.data(), reply.size(), nullptr, nullptr);
    } while (status == RIPC_AGAIN);
    ASSERT_EQ(status, RIPC_OK) << ripc_last_error();
    const Message answer = receive(asking, RIPC_RECEIVE_LEND);
    EXPECT_NE(ripc_message_in_reply_to(answer.get()), 0u);
    EXPECT_TRUE(returned(view_of(answer, 0), 0, buffer, second)) << (with_long_item ? "transfers" : "packets");
  }
}

TEST_P(ReturnBuffers, AReplyMayItselfOfferReturnBuffers) {
  Bytes client_buffer(100);
  Bytes server_buffer(100);
  request(client_buffer);
  const Message question = receive(server_);
  const ripc_return_buffer offered{server_buffer.data(), server_buffer.size()};
  std::uint64_t id = 0;
  ripc_send_options options = send_options();
  options.return_count = 1;
  options.returns = &offered;
  options.request_id = &id;
  const Bytes there = pattern(100, 15);
  const Bytes back = pattern(100, 16);
  const ripc_item one = item(there, RIPC_ITEM_RETURN);
  ASSERT_EQ(ripc_reply(server_.get(), question.get(), &one, 1, &options, nullptr), RIPC_OK);
  const Message answer = receive(client_);
  EXPECT_TRUE(returned(view_of(answer, 0), 0, client_buffer, there));
  const ripc_item other = item(back, RIPC_ITEM_RETURN);
  ASSERT_EQ(ripc_reply(client_.get(), answer.get(), &other, 1, nullptr, nullptr), RIPC_OK);
  const Message last = receive(server_);
  EXPECT_EQ(ripc_message_in_reply_to(last.get()), id);
  EXPECT_TRUE(returned(view_of(last, 0), 0, server_buffer, back));
}

TEST_P(ReturnBuffers, AnotherProcessFillsThem) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  const Bytes data = pattern(500'000, 17);
  const auto pooled = lease(client_context_, data.size());
  Bytes foreign(data.size());
  for (void* buffer : {static_cast<void*>(pooled.get()), static_cast<void*>(foreign.data())}) {
    const ripc_return_buffer one{buffer, data.size()};
    const std::uint64_t id = request(std::span(&one, 1), {}, 77);
    ASSERT_EQ(puppet.status_of("receive"), "RIPC_OK");
    ASSERT_EQ(puppet.call("reply_return 500000 17"), "RIPC_OK");
    const Message answer = receive(client_);
    EXPECT_EQ(ripc_message_in_reply_to(answer.get()), id);
    EXPECT_EQ(view_of(answer, 0).data, buffer);
    EXPECT_TRUE(holds(view_of(answer, 0), RIPC_VIEW_RETURNED, data));
  }
}

}  // namespace
}  // namespace conformance
