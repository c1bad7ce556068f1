// SPDX-License-Identifier: Apache-2.0
// Packets from users of this host whom the peer policy does not admit.
#include "fake_network.hpp"

namespace ripc::internal::test {
namespace {

using Verdict = PeerAuthorizer::Verdict;

class MulticastUsers : public ::testing::Test {
 protected:
  FakeWire wire_;
  const MulticastOptions options_ = test::wire_options();
};

TEST_F(MulticastUsers, QuestionsOfARefusedUserAreNotAnswered) {
  wire_.verdict = Verdict::refused;
  MulticastContext holder(options_, networks_on(wire_));
  holder.publish(7);
  MulticastContext asker(options_, networks_on(wire_));
  const Result<spi::ServiceRecord> found = asker->resolve(7, Deadline::after(100'000'000));
  EXPECT_EQ(found.status().code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(eventually([&] { return holder->counters().refused_users != 0; }));
  EXPECT_NE(security::Counters::read(options_.credentials.counters->packets_not_admitted), 0U);
  EXPECT_EQ(holder->counters().replies_sent, 0U);
}

TEST_F(MulticastUsers, ARefusedUsersServiceIsNeitherLearntNorListed) {
  wire_.verdict = Verdict::refused;
  MulticastContext listener(options_, networks_on(wire_));
  MulticastContext stranger(options_, networks_on(wire_));
  stranger.publish(7);
  ASSERT_TRUE(eventually([&] { return listener->counters().refused_users != 0; }));
  const Status status = listener->resolve(7, Deadline::after(100'000'000)).status();
  EXPECT_EQ(status.code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(mentions(status, "RIPC_PEERS")) << status.text();
  EXPECT_TRUE(listener->list([](const spi::ServiceRecord& record) { ADD_FAILURE() << record.id; }).ok());
}

TEST_F(MulticastUsers, ARefusedUserTakesNothingOver) {
  wire_.verdict = Verdict::refused;
  MulticastContext holder(options_, networks_on(wire_));
  const spi::ServiceRecord record = holder.publish(7);
  MulticastContext stranger(options_, networks_on(wire_));
  const spi::ServiceRecord claim = stranger.publish(7);
  ASSERT_GT(claim.incarnation, record.incarnation);
  ASSERT_TRUE(eventually([&] { return holder->counters().refused_users != 0; }));
  EXPECT_EQ(holder->counters().conflicts, 0U);
  const Result<spi::ServiceRecord> known = holder.look(7);
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(*known, record);
  // An admitted asker still gets the answer.
  wire_.verdict = Verdict::admitted;
  stranger.end();
  MulticastContext asker(options_, networks_on(wire_));
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
}

TEST_F(MulticastUsers, OnlyTheEndOfAServiceIsTakenFromAnUnknownUser) {
  MulticastContext listener(options_, networks_on(wire_));
  MulticastContext holder(options_, networks_on(wire_));
  const spi::ServiceRecord record = holder.publish(7);
  ASSERT_TRUE(listener.learns(record));
  wire_.verdict = Verdict::unknown;
  holder.publish(8);
  ASSERT_TRUE(eventually([&] { return listener->counters().unknown_users != 0; }));
  EXPECT_FALSE(listener.look(8).ok());
  EXPECT_TRUE(listener.look(7).ok());
  holder->withdraw(record);
  EXPECT_TRUE(eventually([&] { return !listener.look(7).ok(); }));
}

}  // namespace
}  // namespace ripc::internal::test
