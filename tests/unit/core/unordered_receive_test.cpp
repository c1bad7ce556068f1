// SPDX-License-Identifier: Apache-2.0
// Messages that are delivered as soon as they are complete.
#include "long_receiving.hpp"

namespace ripc::internal::core {
namespace {

constexpr std::uint64_t kLength = FakeSource::kLength;

TEST_F(LongReceiving, AnUnorderedMessageOvertakesThoseThatAreNotComplete) {
  FakeSource& source = peer();
  post(2, kLarge);
  source.send_long(1, {11}, kLarge);
  source.send_short(2, wire::kUnordered);
  source.send_request(3, 5, wire::kUnordered);
  source.send_long(4, {14}, kLength, wire::kUnordered);
  source.send_short(5);
  EXPECT_EQ(receive().tag, 2u);
  EXPECT_EQ(receive().tag, 3u);
  expect_nothing();
  source.complete(14);
  expect_in_window(4, 1, 14);
  expect_nothing();
  source.complete(11);
  expect_in_window(1, 0, 11);
  EXPECT_EQ(receive().tag, 5u);
}

TEST_F(LongReceiving, NothingWaitsForAnUnorderedMessage) {
  FakeSource& source = peer();
  post(2, kLarge);
  source.send_long(1, {11}, kLarge, wire::kUnordered);
  source.send_short(2);
  source.send_long(3, {13});
  source.send_request(4, 5);
  EXPECT_EQ(receive().tag, 2u);
  expect_nothing();
  source.complete(13);
  expect_in_window(3, 1, 13);
  EXPECT_EQ(receive().tag, 4u) << "the order of the others stays";
  source.complete(11);
  expect_in_window(1, 0, 11);
}

TEST_F(LongReceiving, AnUnorderedReplyDoesNotWaitForItsTurnAndItsRequestCanBeCancelled) {
  FakeSource& source = peer();
  post(1);
  std::vector<std::byte> buffer(kLength);
  const std::uint64_t request = ask(buffer);
  source.send_long(1, {11});
  source.send_directed(2, request, 12, {}, wire::kUnordered);
  // Which windows are left is looked at as for others.
  post(1);
  expect_nothing();
  ASSERT_TRUE(source.is_pulling(12));
  EXPECT_TRUE(service_->cancel_request(request).ok());
  EXPECT_FALSE(source.is_pulling(12));
  const Received reply = receive();
  EXPECT_EQ(reply.tag, 2u);
  EXPECT_EQ(reply.views.at(0).status, static_cast<std::uint32_t>(RIPC_CANCELLED));
}

// The message waits rather than fails: the messages before it give the application the chance to post windows.
TEST_F(LongReceiving, AnUnorderedMessageWithoutAWindowWaitsForThoseThatHaveThem) {
  FakeSource& source = peer();
  post(1);
  source.send_long(1, {11});
  source.send_long(2, {12}, kLength, wire::kUnordered);
  source.send_short(3, wire::kUnordered);
  EXPECT_EQ(receive().tag, 3u) << "what needs none goes on";
  EXPECT_FALSE(source.is_pulling(12));
  source.complete(11);
  expect_in_window(1, 0, 11);
  post(1);
  expect_nothing();
  source.complete(12);
  expect_in_window(2, 1, 12);
}

TEST_F(LongReceiving, AnUnorderedMessageTakesTheWindowsOfItsContextOnlyIfAllItsItemsFindOne) {
  FakeSource& source = peer();
  std::vector<std::byte> small(kLength);
  std::vector<std::byte> shared(kLength);
  post(1);
  source.send_long(1, {11});
  expect_nothing();
  post(1);
  ASSERT_TRUE(context_->windows().post(small.data(), 1, 7).ok());
  ASSERT_TRUE(context_->windows().post(shared.data(), shared.size(), 8).ok());
  source.send_long(2, {12, 22}, kLength, wire::kUnordered);
  expect_nothing();
  EXPECT_FALSE(source.is_pulling(12)) << "the second item would find only the small window";
  EXPECT_EQ(context_->windows().withdraw(7), 1u) << "it is not kept";
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(12));
  source.complete(12);
  source.complete(22);
  const Received received = receive();
  EXPECT_EQ(received.tag, 2u);
  ASSERT_EQ(received.views.size(), 2u);
  EXPECT_EQ(received.views[0].cookie, 1u);
  EXPECT_EQ(received.views[1].cookie, 8u);
}

TEST_F(LongReceiving, AnOrderedMessageAheadOfItsTurnTakesNoWindowOfItsContext) {
  FakeSource& source = peer();
  std::vector<std::byte> shared(kLength);
  post(1);
  source.send_long(1, {11});
  ASSERT_TRUE(context_->windows().post(shared.data(), shared.size(), 8).ok());
  source.send_long(2, {12});
  expect_nothing();
  EXPECT_FALSE(source.is_pulling(12)) << "other services may need it meanwhile";
  source.complete(11);
  expect_in_window(1, 0, 11);
  expect_nothing();
  source.complete(12);
  expect_in_window(2, 8, 12);
}

TEST_F(LongReceiving, AMessageBehindAnUnorderedOneThatHasTheWindowsWaits) {
  FakeSource& source = peer();
  post(1);
  source.send_long(1, {11}, kLength, wire::kUnordered);
  source.send_long(2, {12});
  expect_nothing();
  source.complete(11);
  expect_in_window(1, 0, 11);
  post(1);
  expect_nothing();
  source.complete(12);
  expect_in_window(2, 1, 12);
}

TEST_F(LongReceiving, NoMoreUnorderedMessagesAreBegunThanThePathAllows) {
  FakeSource& source = peer(3);
  post(10);
  source.send_long(1, {11});
  for (std::uint32_t tag = 2; tag <= 6; ++tag) source.send_long(tag, {10 + tag}, kLength, wire::kUnordered);
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(14));
  EXPECT_EQ(source.packets.size(), 2u);
  source.complete(13);
  expect_in_window(3, 2, 13);
  expect_nothing();
  EXPECT_EQ(source.packets.size(), 1u);
}

TEST_F(LongReceiving, UnorderedMessagesDoNotTakeTheApplicationsLastMessages) {
  ServiceOptions few;
  few.max_messages = 4;
  ASSERT_NO_FATAL_FAILURE(open(few));
  FakeSource& source = peer();
  post(4);
  for (std::uint32_t tag = 1; tag <= 4; ++tag) source.send_long(tag, {10 + tag}, kLength, wire::kUnordered);
  expect_nothing();
  EXPECT_EQ(source.packets.size(), 3u);
}

TEST_F(LongReceiving, LongMessagesStayInOrderIfPullsGoOneByOne) {
  FakeSource& source = peer(1);
  post(3);
  source.send_long(1, {11});
  source.send_short(2, wire::kUnordered);
  source.send_long(3, {13}, kLength, wire::kUnordered);
  EXPECT_EQ(receive().tag, 2u);
  expect_nothing();
  EXPECT_FALSE(source.is_pulling(13));
  source.complete(11);
  expect_in_window(1, 0, 11);
  source.send_long(4, {14});
  expect_nothing();
  EXPECT_TRUE(source.is_pulling(13));
  EXPECT_FALSE(source.is_pulling(14));
}

}  // namespace
}  // namespace ripc::internal::core
