// SPDX-License-Identifier: Apache-2.0
// The right to write return buffers ends with the first reply, a cancel, or a death.
#include <array>
#include <cstring>
#include <thread>

#include "puppet.hpp"
#include "return_buffers.hpp"

namespace conformance {
namespace {

class ReturnRights : public ReturnBufferTest {
 protected:
  // Sends a request with a return buffer for each kind of item. A window takes what may no longer be written there.
  void ask() {
    post(window_, 9);
    const std::array<ripc_return_buffer, 2> returns = {
        {{small_.data(), small_.size()}, {large_.data(), large_.size()}}};
    id_ = request(returns);
    question_ = receive(server_);
  }
  Ticket reply_with_data() {
    return reply(question_, {item(carried_, RIPC_ITEM_RETURN, 0), item(written_, RIPC_ITEM_RETURN, 1)});
  }
  void expect_empty_reply() {
    const Message first = receive(client_);
    EXPECT_EQ(ripc_message_get_in_reply_to(first.get()), id_);
    EXPECT_EQ(ripc_message_get_item_count(first.get()), 0u);
  }
  void expect_data_elsewhere() {
    const Message answer = receive(client_);
    EXPECT_TRUE(not_returned(view_of(answer, 0), carried_)) << "nothing is lost";
    EXPECT_TRUE(not_returned(view_of(answer, 1), written_));
    EXPECT_EQ(small_, Bytes(kCarried, 0xee));
    EXPECT_EQ(large_, Bytes(kWritten, 0xee));
  }

  Bytes small_ = Bytes(kCarried, 0xee), large_ = Bytes(kWritten, 0xee);
  const Bytes carried_ = pattern(kCarried, 9), written_ = pattern(kWritten, 10);
  Bytes window_ = Bytes(kWritten);
  std::uint64_t id_ = 0;
  Message question_;
};
CONFORMANCE_SUITE(ReturnRights);

// ---- The first reply ---------------------------------------------------------------------------------------------

TEST_P(ReturnRights, TheRightToWriteEndsWithTheFirstReply) {
  ask();
  reply(question_, {});
  expect_empty_reply();
  const Ticket ticket = reply_with_data();
  expect_data_elsewhere();
}

TEST_P(ReturnRights, TheRightToWriteHasEndedBeforeTheFirstReplyIsReceived) {
  ask();
  reply(question_, {});
  const Ticket ticket = reply_with_data();
  expect_empty_reply();
  expect_data_elsewhere();
}

// ---- Cancel ------------------------------------------------------------------------------------------------------

TEST_P(ReturnRights, AfterCancelNoReplyWritesToThem) {
  ask();
  EXPECT_EQ(ripc_request_cancel(client_.get(), id_), RIPC_OK);
  const Ticket ticket = reply_with_data();
  expect_data_elsewhere();
}

TEST_P(ReturnRights, CancelOfAnUnknownOrAnsweredRequestIsRefused) {
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

TEST_P(ReturnRights, CancelDuringAWriteWaitsForItsEnd) {
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

TEST_P(ReturnRights, ARequesterThatDiedDoesNotHurtTheReplier) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  ASSERT_EQ(puppet.status_of("request " + std::to_string(server_id()) + " 100000"), "RIPC_OK");
  const Message question = receive(server_);
  ASSERT_EQ(ripc_message_get_return_count(question.get()), 1u);
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

TEST_P(ReturnRights, AfterTheDeathOfTheReplierTheBuffersCanBeTakenBack) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  Bytes buffer(1000);
  const ripc_return_buffer one{buffer.data(), buffer.size()};
  const std::uint64_t id = request(std::span(&one, 1), {}, 77);
  ASSERT_EQ(puppet.status_of("receive"), "RIPC_OK");
  puppet.kill();
  EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

TEST_P(ReturnRights, ARequestNoOneAnswersCanBeTakenBack) {
  Bytes buffer(1000);
  const std::uint64_t id = request(buffer);
  receive(server_).reset();
  EXPECT_EQ(ripc_request_cancel(client_.get(), id), RIPC_OK);
}

}  // namespace
}  // namespace conformance
