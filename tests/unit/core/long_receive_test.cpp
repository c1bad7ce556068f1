// SPDX-License-Identifier: Apache-2.0
#include "long_receiving.hpp"

namespace ripc::internal::core {
namespace {

TEST_F(LongReceiving, AMessageThatEndsASpinComesAloneAndTheRestAtOnce) {
  FakeSource& source = peer();
  for (std::uint32_t tag = 1; tag <= 3; ++tag) source.send_short(tag);
  source.come_later();
  EXPECT_EQ(receive_many(RIPC_FOREVER), std::vector<std::uint32_t>{1});
  EXPECT_EQ(receive_many(0), (std::vector<std::uint32_t>{2, 3}));
}

TEST_F(LongReceiving, MessagesBehindOneThatIsNotCompleteArePulledBesideItAndComeInOrder) {
  FakeSource& source = peer();
  post(3);
  source.send_long(1, {11});
  source.send_long(2, {12});
  source.send_long(3, {13});
  expect_nothing();
  for (const std::uint64_t key : {11u, 12u, 13u}) EXPECT_TRUE(source.is_pulling(key)) << key;
  source.complete(13);
  source.complete(12);
  expect_nothing();
  EXPECT_EQ(source.finished(12), RIPC_OK) << "its sender need not wait for the first one";
  source.complete(11);
  for (std::uint32_t tag = 1; tag <= 3; ++tag) expect_in_window(tag, tag - 1, static_cast<int>(10 + tag));
  expect_nothing();
}

// For example because the limit of locked memory is reached.
TEST_F(LongReceiving, AMessageIsDeliveredWithoutAnItemWhoseWindowCannotBeWritten) {
  FakeSource& source = peer();
  post(2);
  source.send_long(1, {11, 12});
  source.complete(11, RIPC_NO_MEMORY);
  source.complete(12);
  const Received received = receive();
  ASSERT_EQ(received.status, RIPC_OK);
  ASSERT_EQ(received.views.size(), 2u);
  EXPECT_EQ(received.views[0].kind, static_cast<std::uint32_t>(RIPC_VIEW_FAILED));
  EXPECT_EQ(received.views[0].status, static_cast<std::uint32_t>(RIPC_NO_MEMORY));
  EXPECT_EQ(received.views[1].kind, static_cast<std::uint32_t>(RIPC_VIEW_WINDOW));
  EXPECT_EQ(source.finished(11), RIPC_NO_MEMORY);
}

TEST_F(LongReceiving, ShortMessagesKeepTheirPlaceBetweenLongOnes) {
  FakeSource& source = peer();
  post(2);
  source.send_long(1, {11});
  source.send_short(2);
  source.send_long(3, {13});
  source.send_short(4);
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(13));
  source.complete(11);
  expect_in_window(1, 0, 11);
  EXPECT_EQ(receive().tag, 2u);
  expect_nothing();
  source.complete(13);
  expect_in_window(3, 1, 13);
  EXPECT_EQ(receive().tag, 4u);
}

TEST_F(LongReceiving, TheItemsOfAMessageArePulledSideBySide) {
  FakeSource& source = peer();
  post(2);
  source.send_long(1, {11, 12});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(11));
  EXPECT_TRUE(source.is_pulling(12));
  source.complete(12);
  expect_nothing();
  source.complete(11);
  EXPECT_EQ(receive().views.size(), 2u);
}

// The receiver then has nothing else to tell the sender.
TEST_F(LongReceiving, TheLastItemMayFinishTheTransferIfAllOthersAreThere) {
  post(3);
  FakeSource& source = peer();
  source.send_long(1, {11});
  expect_nothing();
  EXPECT_TRUE(source.may_finish(11));
  source.complete(11);
  expect_in_window(1, 0, 11);

  source.send_long(2, {21, 22});
  expect_nothing();
  EXPECT_FALSE(source.may_finish(21));
  EXPECT_FALSE(source.may_finish(22));
  source.complete(21);
  expect_nothing();
  EXPECT_TRUE(source.may_finish(22));
}

TEST_F(LongReceiving, AnItemBesideOneWithoutAWindowDoesNotFinishTheTransfer) {
  post(1);
  FakeSource& source = peer();
  source.send_long(1, {11, 12});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(11));
  EXPECT_FALSE(source.may_finish(11));
}

// The request may still be cancelled, and then the item fails.
TEST_F(LongReceiving, AReplyIntoAReturnBufferDoesNotFinishTheTransfer) {
  std::vector<std::byte> buffer(FakeSource::kLength);
  FakeSource& source = peer();
  const std::uint64_t request = ask(buffer);
  post(1);
  source.send_directed(1, request, 11, {12});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(11));
  EXPECT_FALSE(source.may_finish(11));
  source.complete(11);
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(12));
  EXPECT_FALSE(source.may_finish(12));
}

TEST_F(LongReceiving, OneMessageIsBegunAtATimeIfThePathAllowsNoMore) {
  FakeSource& source = peer(1);
  post(2);
  source.send_long(1, {11});
  source.send_long(2, {12});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(11));
  EXPECT_FALSE(source.is_pulling(12));
  source.complete(11);
  expect_in_window(1, 0, 11);
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(12));
}

TEST_F(LongReceiving, NoMoreMessagesAreBegunThanThePathAllows) {
  FakeSource& source = peer(3);
  post(10);
  for (std::uint32_t tag = 1; tag <= 5; ++tag) source.send_long(tag, {10 + tag});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(13));
  EXPECT_EQ(source.packets.size(), 2u);
}

TEST_F(LongReceiving, NothingIsBegunBehindMessagesThatFillThePath) {
  FakeSource& source = peer();
  post(3, kLarge);
  source.send_long(1, {11}, kLarge);
  source.send_long(2, {12});
  expect_nothing();
  EXPECT_EQ(source.packets.size(), 1u);
}

TEST_F(LongReceiving, NothingIsBegunAheadWhileTheApplicationHoldsHalfOfItsMessages) {
  ServiceOptions few;
  few.max_messages = 4;
  ASSERT_NO_FATAL_FAILURE(open(few));
  FakeSource& source = peer();
  post(4);
  for (std::uint32_t tag = 1; tag <= 4; ++tag) source.send_long(tag, {10 + tag});
  expect_nothing();
  EXPECT_EQ(source.packets.size(), 2u);
}

// ---- Windows -----------------------------------------------------------------------------------------------------

TEST_F(LongReceiving, AMessageWithoutAWindowFailsOnlyInItsTurnAfterTheApplicationCouldPostOne) {
  FakeSource& source = peer();
  post(1);
  source.send_long(1, {11});
  source.send_long(2, {12});
  source.send_long(3, {13});
  expect_nothing();
  EXPECT_FALSE(source.is_pulling(12));
  source.complete(11);
  expect_in_window(1, 0, 11);
  post(1);
  expect_nothing();
  source.complete(12);
  expect_in_window(2, 1, 12);
  const Received last = receive();
  ASSERT_EQ(last.status, RIPC_OK);
  EXPECT_EQ(last.tag, 3u);
  EXPECT_EQ(last.views[0].status, static_cast<std::uint32_t>(RIPC_NO_WINDOW));
  EXPECT_EQ(source.finished(13), RIPC_NO_WINDOW);
}

TEST_F(LongReceiving, MessagesAheadLeaveAWindowForEachOtherSender) {
  FakeSource& first = peer();
  FakeSource& second = peer();
  post(3);
  for (std::uint32_t tag = 1; tag <= 3; ++tag) first.send_long(tag, {10 + tag});
  expect_nothing();
  EXPECT_TRUE(first.is_pulling(12));
  EXPECT_FALSE(first.is_pulling(13));
  second.send_long(4, {24});
  expect_nothing();
  EXPECT_TRUE(second.is_pulling(24));
}

TEST_F(LongReceiving, ANewSenderWaitsForWindowsThatAreHeldAhead) {
  FakeSource& first = peer();
  post(2);
  first.send_long(1, {11});
  first.send_long(2, {12});
  expect_nothing();
  FakeSource& second = peer();
  second.send_long(3, {23});
  expect_nothing();
  EXPECT_EQ(second.finished(23), RIPC_PENDING);
  first.complete(11);
  first.complete(12);
  expect_in_window(1, 0, 11);
  post(1);
  expect_in_window(2, 1, 12);
  expect_nothing();
  second.complete(23);
  expect_in_window(3, 2, 23);
}

TEST_F(LongReceiving, WindowsGoToTheMessagesOfASenderInTheirOrder) {
  FakeSource& source = peer();
  post(2);
  source.unprepared[11] = RIPC_PENDING;
  source.send_long(1, {11});
  source.send_long(2, {12});
  expect_nothing();
  EXPECT_FALSE(source.is_pulling(12)) << "it would have taken the first window";
  source.unprepared.clear();
  expect_nothing();
  source.complete(11);
  source.complete(12);
  expect_in_window(1, 0, 11);
  expect_in_window(2, 1, 12);
}

TEST_F(LongReceiving, ContextWindowsAreNotTakenAhead) {
  FakeSource& source = peer();
  std::array<std::byte, 2 * FakeSource::kLength> memory;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{FakeSource::kLength}})
    ASSERT_TRUE(context_->windows().post(memory.data() + offset, FakeSource::kLength, 5).ok());
  source.send_long(1, {11});
  source.send_long(2, {12});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(11));
  EXPECT_FALSE(source.is_pulling(12)) << "other services may need it";
}

// ---- Replies -----------------------------------------------------------------------------------------------------

TEST_F(LongReceiving, AReplyIsNotBegunAheadOfItsTurn) {
  FakeSource& source = peer();
  post(2);
  std::vector<std::byte> buffer(FakeSource::kLength);
  const std::uint64_t request = ask(buffer);
  source.send_long(1, {11});
  source.send_directed(2, request, 12);
  expect_nothing();
  EXPECT_FALSE(source.is_pulling(12)) << "its request may still be cancelled";
  source.complete(11);
  expect_in_window(1, 0, 11);
  source.complete(12);
  const Received reply = receive();
  ASSERT_EQ(reply.status, RIPC_OK);
  EXPECT_EQ(reply.views[0].kind, static_cast<std::uint32_t>(RIPC_VIEW_RETURNED));
  EXPECT_EQ(reply.views[0].data, buffer.data());
  EXPECT_EQ(reply.first_byte, 12);
}

TEST_F(LongReceiving, CancellingARequestEndsThePullOfItsReply) {
  FakeSource& source = peer();
  std::vector<std::byte> buffer(FakeSource::kLength);
  const std::uint64_t request = ask(buffer);
  source.send_directed(2, request, 12);
  expect_nothing();
  ASSERT_TRUE(source.is_pulling(12));
  EXPECT_TRUE(service_->cancel_request(request).ok());
  EXPECT_FALSE(source.is_pulling(12)) << "the buffer is the caller's again";
  source.complete(12);
  const Received reply = receive();
  ASSERT_EQ(reply.status, RIPC_OK);
  EXPECT_EQ(reply.views[0].kind, static_cast<std::uint32_t>(RIPC_VIEW_FAILED));
  EXPECT_EQ(reply.views[0].status, static_cast<std::uint32_t>(RIPC_CANCELLED));
  EXPECT_EQ(buffer, std::vector<std::byte>(FakeSource::kLength)) << "written to after the request was cancelled";
  EXPECT_EQ(service_->cancel_request(request).code(), RIPC_INVALID_ARGUMENT);
}

TEST_F(LongReceiving, AReturnBufferThatWasNotWrittenIsNotSaidToBeWhateverTheReplySays) {
  FakeSource& source = peer();
  std::vector<std::byte> buffer(FakeSource::kLength);
  source.send_returned(3, ask(buffer));
  const Received reply = receive();
  ASSERT_EQ(reply.status, RIPC_OK);
  ASSERT_EQ(reply.views.size(), 1u);
  EXPECT_EQ(reply.views[0].kind, static_cast<std::uint32_t>(RIPC_VIEW_FAILED));
  EXPECT_EQ(reply.views[0].status, static_cast<std::uint32_t>(RIPC_CORRUPT));
  EXPECT_EQ(reply.views[0].data, nullptr);
}

// ---- Lending, failures, the end ----------------------------------------------------------------------------------

TEST_F(LongReceiving, LentMessagesNeedNoWindowsToBeAhead) {
  FakeSource& source = peer();
  source.send_long(1, {11});
  source.send_long(2, {12});
  expect_nothing(RIPC_RECEIVE_LEND);
  source.complete(11);
  source.complete(12);
  for (std::uint32_t tag = 1; tag <= 2; ++tag) {
    const Received received = receive(RIPC_RECEIVE_LEND);
    ASSERT_EQ(received.status, RIPC_OK);
    EXPECT_EQ(received.tag, tag);
    EXPECT_EQ(received.views[0].kind, static_cast<std::uint32_t>(RIPC_VIEW_LENT));
    EXPECT_EQ(received.first_byte, static_cast<int>(10 + tag));
  }
}

TEST_F(LongReceiving, AMessageBegunWithTheLendFlagIsLentToAReceiveWithoutIt) {
  FakeSource& source = peer();
  post(1);
  source.send_long(1, {11});
  expect_nothing(RIPC_RECEIVE_LEND);
  source.complete(11);
  EXPECT_EQ(receive().views.at(0).kind, static_cast<std::uint32_t>(RIPC_VIEW_LENT));
}

TEST_F(LongReceiving, OneThatIsWithdrawnIsNotDeliveredAndHoldsUpNothing) {
  FakeSource& source = peer();
  post(3);
  for (std::uint32_t tag = 1; tag <= 3; ++tag) source.send_long(tag, {10 + tag});
  expect_nothing();
  source.complete(11);
  source.complete(12, RIPC_REVOKED);
  source.complete(13);
  expect_in_window(1, 0, 11);
  expect_in_window(3, 2, 13);
  expect_nothing();
  // The window of the withdrawn message is back in its place in the queue.
  source.send_long(4, {14});
  source.complete(14);
  expect_in_window(4, 1, 14);
}

TEST_F(LongReceiving, OnlyCompleteMessagesOfASourceThatEndsAreDelivered) {
  FakeSource& source = peer();
  const std::shared_ptr<FakeSource> kept = sources_.front();
  post(3);
  for (std::uint32_t tag = 1; tag <= 3; ++tag) source.send_long(tag, {10 + tag});
  expect_nothing();
  source.complete(12);
  expect_nothing();
  source.end();
  expect_in_window(2, 1, 12);
  expect_nothing();
  EXPECT_NE(kept->finished(11), RIPC_OK);
  EXPECT_NE(kept->finished(13), RIPC_OK);
  EXPECT_FALSE(kept->is_pulling(11));
}

TEST_F(LongReceiving, AServiceThatEndsTellsTheSendersOfWhatIsNotComplete) {
  FakeSource& source = peer();
  post(2);
  source.send_long(1, {11});
  source.send_long(2, {12});
  expect_nothing();
  source.complete(12);
  expect_nothing();
  context_->services().remove(std::exchange(service_, nullptr));
  EXPECT_EQ(source.finished(11), RIPC_CLOSED);
  EXPECT_EQ(source.finished(12), RIPC_OK) << "that it is here was said before";
  EXPECT_FALSE(source.is_pulling(11));
}

}  // namespace
}  // namespace ripc::internal::core
