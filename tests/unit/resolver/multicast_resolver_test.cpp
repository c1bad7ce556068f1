// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/multicast_resolver.hpp"

#include <atomic>
#include <set>
#include <thread>

#include "multicast_helpers.hpp"

namespace ripc::internal::test {
namespace {

ripc_service_id id_of(const std::string& name) { return *core::id_of_name(name); }

class MulticastResolverTest : public MulticastTest {
 protected:
  const MulticastOptions options_ = loopback_options();
};

TEST_F(MulticastResolverTest, AServiceOfAnotherContextIsFoundWithAllThatItSaysOfItself) {
  MulticastContext holder(options_);
  spi::ServiceRecord record = holder.record(id_of("files"), "files");
  record.addresses.push_back({"shm", "#12"});
  ASSERT_TRUE(holder->publish(record, false, nullptr).ok());
  MulticastContext asker(options_);
  const Result<spi::ServiceRecord> found = asker.resolve(record.id);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
  EXPECT_NE(found->incarnation, 0U);
}

TEST_F(MulticastResolverTest, AFoundServiceIsNotAskedForAgain) {
  MulticastContext holder(options_);
  holder.publish(7);
  MulticastContext asker(options_);
  ASSERT_TRUE(asker.resolve(7).ok());
  const std::uint64_t asked = asker->counters().questions_sent;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(asker.resolve(7).ok());
  EXPECT_EQ(asker->counters().questions_sent, asked);
}

TEST_F(MulticastResolverTest, AnOutdatedServiceIsAskedForAgain) {
  MulticastOptions short_lived = options_;
  short_lived.max_age = 1;
  MulticastContext holder(options_);
  holder.publish(7);
  MulticastContext asker(short_lived);
  ASSERT_TRUE(asker.resolve(7).ok());
  const std::uint64_t asked = asker->counters().questions_sent;
  ASSERT_TRUE(asker.resolve(7).ok());
  EXPECT_GT(asker->counters().questions_sent, asked);
}

TEST_F(MulticastResolverTest, AnUnknownIdIsAnsweredAtTheDeadlineAfterSeveralQuestionsWithAClearSentence) {
  MulticastContext asker(options_);
  const Deadline deadline = Deadline::after(300'000'000);
  const Result<spi::ServiceRecord> found = asker->resolve(99, deadline);
  EXPECT_EQ(found.status().code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(deadline.expired());
  EXPECT_TRUE(mentions(found.status(), "0x0000000000000063"));
  EXPECT_TRUE(mentions(found.status(), "239.255.82.73"));
  EXPECT_TRUE(mentions(found.status(), "ripc doctor"));
  // It asks at 0, then after about 20, 40 and 80 ms. A question every 20 ms would mean that the pauses do not grow.
  EXPECT_GE(asker->counters().questions_sent, 2U);
  EXPECT_LE(asker->counters().questions_sent, 6U);
}

TEST_F(MulticastResolverTest, WithoutTimeNothingIsSent) {
  MulticastContext asker(options_);
  EXPECT_EQ(asker.look(99).status().code(), RIPC_NO_SERVICE);
  EXPECT_EQ(asker->counters().packets_sent, 0U);
}

TEST_F(MulticastResolverTest, AWaitingThreadIsAnsweredWhenTheServiceComes) {
  MulticastContext asker(options_);
  Result<spi::ServiceRecord> found = RIPC_SYSTEM;
  std::thread waiter([&] { found = asker.resolve(7); });
  ASSERT_TRUE(eventually([&] { return asker->counters().questions_sent != 0; }));
  MulticastContext holder(options_);
  const spi::ServiceRecord record = holder.publish(7);
  waiter.join();
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
}

TEST_F(MulticastResolverTest, ThreadsThatWantTheSameServiceShareTheQuestions) {
  MulticastContext asker(options_);
  constexpr int kThreads = 16;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      if (asker->resolve(99, Deadline::after(300'000'000)).status() == RIPC_NO_SERVICE) ++failed;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, kThreads);
  // Each thread alone would have sent at least 2. On a slow machine some start after others have given up.
  EXPECT_LT(asker->counters().questions_sent, 2U * kThreads);
}

TEST_F(MulticastResolverTest, TheAskersServicesAreLearnedFromItsQuestion) {
  MulticastContext asker(options_);
  const spi::ServiceRecord own = asker.publish(8);
  // Not from the announcement, which a context that starts now has missed.
  ASSERT_TRUE(eventually([&] { return asker->counters().announcements_sent == 2; }));
  MulticastContext late(options_);
  EXPECT_FALSE(late.look(8).ok());
  EXPECT_EQ(asker->resolve(99, Deadline::after(10'000'000)).status().code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(late.learns(own));
  EXPECT_EQ(late->counters().packets_sent, 0U);
}

TEST_F(MulticastResolverTest, ASilentNetworkStaysSilent) {
  MulticastContext one(options_);
  MulticastContext other(options_);
  one.publish(7);
  ASSERT_TRUE(eventually([&] { return one->counters().announcements_sent == 2; }));
  const std::uint64_t sent = one->counters().packets_sent + other->counters().packets_sent;
  Outsider outsider(options_);
  EXPECT_TRUE(outsider.hear([](const auto&) { return true; }, nullptr, 1'500'000'000).empty());
  EXPECT_EQ(one->counters().packets_sent + other->counters().packets_sent, sent);
}

TEST_F(MulticastResolverTest, AServiceThatMovedIsFollowedAfterOneFailedSend) {
  MulticastContext asker(options_);
  MulticastContext first(options_);
  const spi::ServiceRecord before = first.publish(7);
  ASSERT_EQ(asker.resolve(7)->context, first.id());
  // As if killed: it sends nothing more and has withdrawn nothing. The new one starts while no one hears it.
  first.end();
  MulticastContext second(options_);
  const spi::ServiceRecord after = second.publish(7);
  EXPECT_GT(after.incarnation, before.incarnation);
  asker->invalidate(before);
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, after);
}

TEST_F(MulticastResolverTest, AfterAFailedSendAWithdrawnServiceIsNotHandedOutAgain) {
  MulticastContext holder(options_);
  const spi::ServiceRecord record = holder.publish(7);
  MulticastContext asker(options_);
  ASSERT_TRUE(asker.resolve(7).ok());
  holder->withdraw(record);
  EXPECT_TRUE(eventually([&] { return !asker.look(7).ok(); })) << "the end is announced";
  asker->invalidate(record);
  EXPECT_EQ(asker->resolve(7, Deadline::after(50'000'000)).status().code(), RIPC_NO_SERVICE);
}

TEST_F(MulticastResolverTest, ADoubtfulServiceThatStillAnswersIsUsedAgain) {
  MulticastContext holder(options_);
  const spi::ServiceRecord record = holder.publish(7);
  MulticastContext asker(options_);
  ASSERT_TRUE(asker.resolve(7).ok());
  asker->invalidate(record);
  EXPECT_FALSE(asker.look(7).ok());
  EXPECT_EQ(*asker.resolve(7), record);
}

// The service ran on a host whose clock is ahead, and starts again on one whose clock is right.
TEST_F(MulticastResolverTest, AHolderWithASmallerIncarnationIsAcceptedOnceNoOneElseAnswers) {
  MulticastContext asker(options_);
  spi::ServiceRecord ahead;
  {
    MulticastContext first(options_);
    ahead = first.record(7);
    ahead.incarnation = realtime_now() + 3'600'000'000'000;
    ASSERT_TRUE(first->publish(ahead, false, nullptr).ok());
    ASSERT_EQ(*asker.resolve(7), ahead);
  }
  MulticastContext second(options_);
  const spi::ServiceRecord now = second.publish(7);
  ASSERT_LT(now.incarnation, ahead.incarnation);
  asker->invalidate(ahead);
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, now);
}

TEST_F(MulticastResolverTest, AListHasTheServicesOfAllLivingContexts) {
  std::set<ripc_service_id> expected;
  MulticastContext one(options_);
  MulticastContext other(options_);
  MulticastContext asker(options_);
  // More than fit in one packet.
  for (ripc_service_id id = 1; id <= 200; ++id) {
    spi::ServiceRecord record = (id % 2 == 0 ? one : other).record((ripc_service_id{3} << 62) | id);
    ASSERT_TRUE((id % 2 == 0 ? one : other)->publish(record, false, nullptr).ok());
    expected.insert(record.id);
  }
  MulticastContext gone(options_);
  gone.publish(1000);
  ASSERT_TRUE(asker.resolve(1000).ok());
  gone.end();
  std::set<ripc_service_id> found;
  // The announcement of the dead context may arrive late.
  EXPECT_TRUE(eventually([&] {
    found.clear();
    EXPECT_TRUE(asker->list([&](const spi::ServiceRecord& record) { found.insert(record.id); }).ok());
    return found == expected;
  })) << testing::PrintToString(found);
}

TEST_F(MulticastResolverTest, ManyContextsShareThePort) {
  constexpr std::size_t kContexts = 10;
  std::vector<std::unique_ptr<MulticastContext>> contexts;
  for (std::size_t i = 0; i < kContexts; ++i) {
    contexts.push_back(std::make_unique<MulticastContext>(options_));
    contexts.back()->publish(100 + i);
  }
  for (const auto& context : contexts) {
    for (std::size_t i = 0; i < kContexts; ++i) EXPECT_EQ(context->resolve(100 + i)->context, contexts[i]->id());
  }
}

TEST_F(MulticastResolverTest, TheCacheIsBounded) {
  MulticastOptions small = options_;
  small.max_cached = 10;
  MulticastContext asker(small);
  MulticastContext holder(options_);
  std::vector<spi::ServiceRecord> records;
  for (ripc_service_id id = 1; id <= 50; ++id) records.push_back(holder.publish((ripc_service_id{3} << 62) | id));
  ASSERT_TRUE(eventually([&] { return asker->state().services == 10; }));
  EXPECT_TRUE(asker.resolve(records.front().id).ok()) << "what was dropped is asked for";
  EXPECT_EQ(asker->state().services, 10U);
}

TEST_F(MulticastResolverTest, ItsOwnPacketsDoNotWakeItUnlessItWantsToHearThem) {
  MulticastContext quiet(options_);
  MulticastOptions hearing = options_;
  hearing.receives_own_packets = true;
  MulticastContext self_check(hearing);
  quiet.publish((ripc_service_id{3} << 62) | 1);
  self_check.publish((ripc_service_id{3} << 62) | 2);
  ASSERT_TRUE(eventually([&] { return self_check->counters().own_packets >= 2; }));
  EXPECT_TRUE(self_check->state().networks.front().silent_interfaces.empty());
  ASSERT_TRUE(eventually([&] { return self_check->counters().packets_received >= 2; })) << "those of the other";
  EXPECT_EQ(quiet->counters().own_packets, 0U);
  EXPECT_GE(quiet->counters().packets_received, 1U);
}

TEST_F(MulticastResolverTest, WithoutAUsableInterfaceTheSentenceSaysSo) {
  MulticastOptions nowhere = options_;
  nowhere.interfaces = {"ripc-none0"};
  MulticastContext asker(nowhere);
  const Result<spi::ServiceRecord> found = asker->resolve(7, Deadline::after(10'000'000));
  EXPECT_EQ(found.status().code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(mentions(found.status(), "no interface"));
  EXPECT_TRUE(mentions(found.status(), "RIPC_MULTICAST"));
}

}  // namespace
}  // namespace ripc::internal::test
