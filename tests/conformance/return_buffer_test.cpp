// SPDX-License-Identifier: Apache-2.0
// Return buffers: memory that a request offers for its reply. return_right_test.cpp tests how the right to write ends,
// and return_room_test.cpp how many may be offered.
#include <array>
#include <cstring>

#include "puppet.hpp"
#include "return_buffers.hpp"

namespace conformance {
namespace {

class ReturnBuffers : public ReturnBufferTest {};
CONFORMANCE_SUITE(ReturnBuffers);

// ---- Filling -----------------------------------------------------------------------------------------------------

TEST_P(ReturnBuffers, TheReplierSeesWhatIsOffered) {
  Bytes first(1000);
  Bytes second(5);
  const std::array<ripc_return_buffer, 2> returns = {{{first.data(), 1000}, {second.data(), 5}}};
  const std::string_view question = "question";
  request(returns, {item(question)});
  const Message message = receive(server_);
  EXPECT_EQ(ripc_message_get_item_count(message.get()), 1u) << "return buffers are not items";
  EXPECT_EQ(text_of(message), "question");
  ASSERT_EQ(ripc_message_get_return_count(message.get()), 2u);
  EXPECT_EQ(ripc_message_get_return_size(message.get(), 0), 1000u);
  EXPECT_EQ(ripc_message_get_return_size(message.get(), 1), 5u);
  EXPECT_EQ(ripc_message_get_return_size(message.get(), 2), 0u);
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
  EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), id);
  ASSERT_EQ(ripc_message_get_item_count(answer.get()), 3u);
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
    EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), some);
    EXPECT_TRUE(returned(view_of(answer, 0), 1, second, data));
  }
  EXPECT_EQ(first, Bytes(100, 0xee));
  for (std::size_t index = 40; index < 100; ++index) EXPECT_EQ(second[index], 0xee);

  const std::uint64_t none = request(returns);
  EXPECT_NE(none, some);
  reply(receive(server_), {});
  const Message answer = receive(client_);
  EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), none) << "a reply without items answers too";
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
  EXPECT_EQ(ripc_message_get_return_count(question.get()), 16u);
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

TEST_P(ReturnBuffers, ALongMessageOffersThem) {
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
  EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), id);
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

TEST_P(ReturnBuffers, AnItemTooLargeForItsBufferTravelsAsAnAutoItem) {
  for (const std::size_t size : {kCarried, kWritten}) {
    Bytes buffer(size - 1, 0xee);
    const Bytes data = pattern(size, 6);
    Bytes window(size);
    post(window, 9);
    const std::uint64_t id = request(buffer);
    const Ticket ticket = reply(receive(server_), {item(data, RIPC_ITEM_RETURN, 0)});
    const Message answer = receive(client_);
    EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), id);
    EXPECT_TRUE(not_returned(view_of(answer, 0), data));
    EXPECT_EQ(view_of(answer, 0).cookie, size == kWritten ? 9u : 0u);
    ASSERT_EQ(ticket != nullptr, size == kWritten);
    if (ticket != nullptr) {
      EXPECT_EQ(final_status(ticket), RIPC_OK);
    }
    EXPECT_EQ(buffer, Bytes(size - 1, 0xee));
    ripc_window_withdraw(client_.get(), 9, nullptr);
  }
}

TEST_P(ReturnBuffers, ASecondItemForTheSameBufferTravelsAsAnAutoItem) {
  for (const std::size_t size : {kCarried, kWritten}) {
    Bytes buffer(size);
    const Bytes first = pattern(500, 7);
    const Bytes second = pattern(size, 8);
    Bytes window(size);
    post(window, 9);
    request(buffer);
    const Ticket ticket =
        reply(receive(server_), {item(first, RIPC_ITEM_RETURN, 0), item(second, RIPC_ITEM_RETURN, 0)});
    const Message answer = receive(client_);
    EXPECT_TRUE(returned(view_of(answer, 0), 0, buffer, first));
    EXPECT_TRUE(not_returned(view_of(answer, 1), second));
    ripc_window_withdraw(client_.get(), 9, nullptr);
  }
}

TEST_P(ReturnBuffers, TheMessageCarriesSmallOnesAndTheReceiverCopiesThem) {
  Bytes small(kCarried);
  Bytes large(kWritten);
  const std::array<ripc_return_buffer, 2> returns = {{{small.data(), small.size()}, {large.data(), large.size()}}};
  request(returns);
  const Bytes first = pattern(kCarried, 18);
  const Bytes second = pattern(kWritten, 19);
  const Ticket ticket = reply(receive(server_), {item(first, RIPC_ITEM_RETURN, 0), item(second, RIPC_ITEM_RETURN, 1)});
  const Message answer = receive(client_);
  EXPECT_TRUE(returned(view_of(answer, 0), 0, small, first));
  EXPECT_EQ(view_of(answer, 0).copied, 2u) << "out of the queue, and into the buffer";
  EXPECT_TRUE(returned(view_of(answer, 1), 1, large, second));
  EXPECT_LE(view_of(answer, 1).copied, 1u);
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
    EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), ids[index]);
    EXPECT_TRUE(returned(view_of(answer, 0), 0, buffers[index], data)) << index;
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
  EXPECT_EQ(ripc_message_get_in_reply_to(last.get()), id);
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
    EXPECT_EQ(ripc_message_get_in_reply_to(answer.get()), id);
    EXPECT_EQ(view_of(answer, 0).data, buffer);
    EXPECT_TRUE(holds(view_of(answer, 0), RIPC_VIEW_RETURNED, data));
  }
}

}  // namespace
}  // namespace conformance
