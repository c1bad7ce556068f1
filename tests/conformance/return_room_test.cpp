// SPDX-License-Identifier: Apache-2.0
// Open requests: how many return buffers they may offer, and what happens to replies that find no room.
#include <thread>
#include <vector>

#include "return_buffers.hpp"

namespace conformance {
namespace {

class ReturnRoom : public ReturnBufferTest {};
CONFORMANCE_SUITE(ReturnRoom);

TEST_P(ReturnRoom, TooManyOpenRequestsAreAgainAndTheRoomComesBack) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  std::vector<Bytes> buffers;
  std::vector<std::uint64_t> ids;
  const auto ask = [&](Bytes& buffer, std::uint64_t& id) {
    const ripc_return_buffer one{buffer.data(), buffer.size()};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &one;
    options.request_id = &id;
    return ripc_send(client_.get(), id_of(roomy), nullptr, 0, &options, nullptr);
  };
  send_until_full([&] {
    buffers.emplace_back(100);
    std::uint64_t id = 0;
    const ripc_status status = ask(buffers.back(), id);
    if (status == RIPC_OK) ids.push_back(id);
    return status;
  });
  EXPECT_GE(ids.size(), 64u);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), 20 * kMillisecond), RIPC_TIMEOUT);
  // Where the queue fills up first, the wait is for its room.
  if (!traits().exact_queue) {
    for (std::size_t count = 0; count < ids.size(); ++count) receive(roomy);
  }
  std::jthread canceller([&] { EXPECT_EQ(ripc_request_cancel(client_.get(), ids.back()), RIPC_OK); });
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), kLimit), RIPC_OK);
  canceller.join();
  EXPECT_EQ(ask(buffers.back(), ids.back()), RIPC_OK);
  for (const std::uint64_t id : ids) EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

TEST_P(ReturnRoom, ASenderOfSeveralIsNotNotifiedAgainOfTooLittleRoom) {
  const Service roomy =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  Bytes memory(16);
  const std::vector<ripc_return_buffer> offers(16, {memory.data(), memory.size()});
  const auto ask = [&](std::uint32_t count, std::uint64_t& id) {
    ripc_send_options options = send_options();
    options.return_count = count;
    options.returns = offers.data();
    options.request_id = &id;
    return ripc_send(client_.get(), id_of(roomy), nullptr, 0, &options, nullptr);
  };
  std::vector<std::uint64_t> ids;
  const auto cancel_one = [&] {
    ASSERT_EQ(ripc_request_cancel(client_.get(), ids.back()), RIPC_OK);
    ids.pop_back();
  };
  // The queue never fills up.
  send_until_full([&] {
    std::uint64_t id = 0;
    const ripc_status status = ask(1, id);
    if (status != RIPC_OK) return status;
    ids.push_back(id);
    receive(roomy);
    return status;
  });
  ASSERT_GE(ids.size(), 64u);
  for (int count = 0; count < 2; ++count) cancel_one();
  std::uint64_t large = 0;
  for (int count = 0; count < 2; ++count) {
    ASSERT_EQ(ask(4, large), RIPC_AGAIN);
    EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), 20 * kMillisecond), RIPC_TIMEOUT);
    cancel_one();
    EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), kLimit), RIPC_OK);
  }
  EXPECT_EQ(ask(4, large), RIPC_OK);
  EXPECT_EQ(ripc_request_cancel(client_.get(), large), RIPC_OK);
  for (const std::uint64_t id : ids) EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

TEST_P(ReturnRoom, AReplyThatFoundNoRoomFillsThemWhenItIsSentAgain) {
  const Service roomy =
      make_service(client_context_, [](ripc_service_options& options) { options.queue_messages = 16384; });
  // One reply finds no room for a packet, the other no room for one more transfer.
  for (const bool with_long_item : {false, true}) {
    const Service& asking = with_long_item ? roomy : client_;
    Bytes buffer(1000);
    const ripc_return_buffer offered{buffer.data(), buffer.size()};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &offered;
    ASSERT_EQ(ripc_send(asking.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
    const Message question = receive(server_);

    const auto filler = lease(server_context_, 100);
    const ripc_item small = item_at(filler.get(), 100, RIPC_ITEM_LONG);
    ripc_send_options patient = send_options();
    patient.timeout = 10 * kLimit;
    // An empty message takes the least room that there is.
    const std::size_t sent = send_until_full(
        [&] { return ripc_send(server_.get(), id_of(asking), &small, with_long_item ? 1 : 0, &patient, nullptr); });

    Bytes first = pattern(1000, 2);
    std::vector<ripc_item> reply = {item(first, RIPC_ITEM_RETURN)};
    if (with_long_item) reply.push_back(small);
    ASSERT_EQ(ripc_reply(server_.get(), question.get(), reply.data(), reply.size(), nullptr, nullptr), RIPC_AGAIN);
    for (std::size_t count = 0; count < sent; ++count) receive(asking, RIPC_RECEIVE_LEND);
    // The content of the reply may have changed meanwhile.
    const Bytes second = pattern(900, 3);
    reply.front() = item(second, RIPC_ITEM_RETURN);
    ripc_status status = RIPC_OK;
    do {
      ASSERT_EQ(ripc_wait_room(server_.get(), id_of(asking), kLimit), RIPC_OK);
      status = ripc_reply(server_.get(), question.get(), reply.data(), reply.size(), nullptr, nullptr);
    } while (status == RIPC_AGAIN);
    ASSERT_EQ(status, RIPC_OK) << ripc_last_error();
    const Message answer = receive(asking, RIPC_RECEIVE_LEND);
    EXPECT_NE(ripc_message_get_in_reply_to(answer.get()), 0u);
    EXPECT_TRUE(returned(view_of(answer, 0), 0, buffer, second)) << (with_long_item ? "transfers" : "packets");
  }
}

}  // namespace
}  // namespace conformance
