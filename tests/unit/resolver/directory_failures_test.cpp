// SPDX-License-Identifier: Apache-2.0
// What the directory resolver does when links are cut, sessions expire and answers are lost. Also how it treats records
// that are not authentic.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "base/group_id.hpp"
#include "directory_helpers.hpp"
#include "spi/holder_rules.hpp"
#include "spi/service_packet.hpp"
#include "support/process_state.hpp"

namespace ripc::internal::test {
namespace {

constexpr ripc_service_id kLostService = 815;
constexpr ripc_service_id kLostGroup = (ripc_service_id{1} << 62) | 6;
constexpr Nanoseconds kMoment = 30'000'000;
constexpr Nanoseconds kAWhile = 10'000'000'000;

resolver::DirectoryOptions impatient_options() {
  resolver::DirectoryOptions options = directory_options();
  options.patience = kMoment;
  return options;
}

class DirectoryFailuresTest : public ::testing::Test {
 protected:
  FakeWorld world_;
  DirectoryContext one_{world_, impatient_options()};
  const resolver::DirectoryOptions two_options_ = impatient_options();
  DirectoryContext two_{world_, two_options_};
};

TEST_F(DirectoryFailuresTest, WithoutServersWhatIsKnownGoesOnAndWhatIsNotFailsInTime) {
  ASSERT_TRUE(one_.publish(kLostService).ok());
  EXPECT_EQ(two_.holder(kLostService, kAWhile), one_.id());
  ASSERT_TRUE(two_.publish(kLostService + 1).ok());
  two_.directory().cut();
  EXPECT_EQ(two_.holder(kLostService), one_.id());
  EXPECT_EQ(two_.holder(kLostService + 1), two_.id());
  const Status status = two_->resolve(kLostService + 2, Deadline::after(kMoment)).status();
  EXPECT_EQ(status.code(), RIPC_TIMEOUT);
  EXPECT_NE(status.text().find("the fake is cut off"), std::string_view::npos) << status.text();
  EXPECT_EQ(two_->list([](const spi::ServiceRecord&) {}).code(), RIPC_TIMEOUT);
}

TEST_F(DirectoryFailuresTest, AServicePublishedWithoutServersIsFoundWhenTheyAreBack) {
  two_.directory().cut();
  ASSERT_TRUE(two_.publish(kLostService).ok());
  EXPECT_EQ(two_.holder(kLostService), two_.id());
  EXPECT_EQ(two_->state().unsettled, 1u);
  two_.directory().heal(false);
  EXPECT_TRUE(one_.sees(kLostService, two_.id()));
  EXPECT_TRUE(eventually([&] { return two_->state().published == 1 && two_->state().unsettled == 0; }));
}

TEST_F(DirectoryFailuresTest, AQuestionDuringACutIsAnsweredWhenTheLinkIsBack) {
  ASSERT_TRUE(one_.publish(kLostService).ok());
  two_.directory().cut();
  const std::jthread later([&] {
    EXPECT_TRUE(eventually([&] { return two_->state().counters.reads == 0; }));
    two_.directory().heal(false);
  });
  EXPECT_EQ(two_.holder(kLostService, kAWhile), one_.id());
}

TEST_F(DirectoryFailuresTest, ANewSessionHasEverythingTheOldOneHad) {
  spi::ServiceRecord own = one_.record(kLostService);
  own.groups = {kLostGroup};
  ASSERT_TRUE(one_->publish(own, false, nullptr).ok());
  EXPECT_EQ(two_.holder(kLostService, kAWhile), one_.id());
  EXPECT_EQ(two_.members(kLostGroup).size(), 1u);
  one_.directory().expire();
  EXPECT_TRUE(two_.was_notified(kLostService, one_.id()));
  EXPECT_EQ(two_->resolve(kLostService, Deadline::after(kAWhile))->incarnation, own.incarnation);
  EXPECT_TRUE(eventually([&] { return two_.members(kLostGroup, 0).size() == 1; }));
  EXPECT_EQ(one_->state().counters.sessions_lost, 1u);
  EXPECT_EQ(one_->state().counters.fenced, 0u);
}

TEST_F(DirectoryFailuresTest, ANewSessionLearnsWhatItsWatchesMissed) {
  const Result<spi::ServiceRecord> own = one_.publish(kLostService);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(two_.holder(kLostService, kAWhile), one_.id());
  two_.directory().cut();
  one_->withdraw(*own);
  DirectoryContext third(world_);
  ASSERT_TRUE(eventually([&] { return third.publish(kLostService).ok(); }));
  EXPECT_EQ(two_.holder(kLostService), one_.id());
  two_.directory().heal(true);
  EXPECT_TRUE(two_.was_notified(kLostService, third.id()));
  EXPECT_GE(two_.directory().syncs, 1u) << "a new session may meet a server that is behind";
}

TEST_F(DirectoryFailuresTest, ADirectoryThatBeginsAnewIsBelieved) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(two_.publish(kLostService + 1 + static_cast<unsigned>(i)).ok());
  ASSERT_TRUE(one_.publish(kLostService).ok());
  EXPECT_EQ(two_.holder(kLostService, kAWhile), one_.id());
  one_.directory().cut();
  two_.directory().cut();
  {
    const std::lock_guard lock(world_.mutex);
    world_.nodes.clear();
    world_.last_change = 0;
  }
  DirectoryContext third(world_);
  ASSERT_TRUE(third.publish(kLostService).ok());
  two_.directory().heal(true);
  EXPECT_TRUE(two_.was_notified(kLostService, third.id()));
  two_.directory().settle_down();
  const std::uint64_t reads = two_->state().counters.reads;
  two_.directory().settle_down();
  EXPECT_EQ(two_->state().counters.reads, reads);
}

TEST_F(DirectoryFailuresTest, AHolderThatLostItsSessionIsFencedByALargerIncarnation) {
  const Result<spi::ServiceRecord> own = one_.publish(kLostService);
  ASSERT_TRUE(own.ok());
  one_.directory().cut();
  world_.erase(resolver::service_path(kLostService));  // the session has expired
  const Result<spi::ServiceRecord> other = two_.publish(kLostService);
  ASSERT_TRUE(other.ok()) << other.status().text();
  one_.directory().heal(true);
  EXPECT_TRUE(one_.was_notified(kLostService, two_.id()));
  EXPECT_EQ(one_->update(*own).code(), RIPC_FENCED);
  EXPECT_TRUE(one_.sees(kLostService, two_.id()));
}

TEST_F(DirectoryFailuresTest, ASmallerIncarnationDoesNotDisplaceTheHolder) {
  spi::ServiceRecord own = one_.record(kLostService);
  own.incarnation = spi::kMaxIncarnation - 10;
  ASSERT_TRUE(one_->publish(own, false, nullptr).ok());
  one_.directory().cut();
  world_.erase(resolver::service_path(kLostService));
  ASSERT_TRUE(two_.publish(kLostService).ok());
  one_.directory().heal(true);
  EXPECT_TRUE(two_.was_notified(kLostService, one_.id()));
  EXPECT_EQ(one_->state().counters.fenced, 0u);
}

TEST_F(DirectoryFailuresTest, ALostAnswerDoesNotMakeAStrangerOfOneself) {
  using Lose = FakeDirectory::Lose;
  for (const Lose lose : {Lose::answer, Lose::all}) {
    const ripc_service_id id = kLostService + static_cast<ripc_service_id>(lose);
    one_.directory().lose_next_commit = lose;
    const Result<spi::ServiceRecord> own = one_.publish(id);
    ASSERT_TRUE(own.ok()) << own.status().text();
    EXPECT_TRUE(two_.sees(id, one_.id()));
    EXPECT_TRUE(eventually([&] { return one_->state().unsettled == 0; }));
    EXPECT_EQ(world_.nodes[resolver::service_path(id)].owner, one_.directory().session());
    EXPECT_TRUE(one_->update(*own).ok());
  }
}

TEST_F(DirectoryFailuresTest, ALostAnswerToAWithdrawalLeavesNothing) {
  using Lose = FakeDirectory::Lose;
  for (const Lose lose : {Lose::answer, Lose::all}) {
    const Result<spi::ServiceRecord> own = one_.publish(kLostService);
    ASSERT_TRUE(own.ok());
    EXPECT_TRUE(two_.sees(kLostService, one_.id()));
    one_.directory().lose_next_commit = lose;
    one_->withdraw(*own);
    EXPECT_TRUE(two_.sees(kLostService, 0));
  }
}

TEST_F(DirectoryFailuresTest, RecordsThatAreNotAuthenticAreIgnoredAndCounted) {
  DirectoryContext stranger(world_, directory_options(kOtherKeyText));
  DirectoryContext keyless(world_, directory_options(""));
  ASSERT_TRUE(stranger.publish(1).ok());
  ASSERT_TRUE(keyless.publish(2).ok());
  world_.put(resolver::service_path(3), "nonsense");
  // A genuine record at the path of another service.
  ASSERT_TRUE(one_.publish(4).ok());
  world_.put(resolver::service_path(5), world_.nodes[resolver::service_path(4)].data);
  for (const ripc_service_id id : {1u, 2u, 3u, 5u}) EXPECT_EQ(two_.holder(id), 0u) << id;
  EXPECT_EQ(two_.holder(4, kAWhile), one_.id());
  EXPECT_TRUE(eventually([&] { return two_->state().counters.ignored() == 4; }));
  for (const ripc_service_id id : {1u, 2u, 3u, 5u}) EXPECT_EQ(two_.holder(id), 0u) << id;
  const resolver::DirectoryCounters counters = two_->state().counters;
  EXPECT_EQ(counters.forged, 1u);
  EXPECT_EQ(counters.unsigned_ones, 1u);
  EXPECT_EQ(security::Counters::read(two_options_.credentials.counters->packets_forged), 4u);
  EXPECT_EQ(counters.malformed, 2u);
  EXPECT_EQ(keyless.holder(4), 0u);
  EXPECT_TRUE(eventually([&] { return keyless->state().counters.signed_ones == 1; }));
  EXPECT_EQ(keyless.holder(4), 0u);
}

TEST_F(DirectoryFailuresTest, ARecordOfAnotherVersionIsSaidToBeOne) {
  const Result<spi::ServiceRecord> own = one_.publish(kLostService);
  ASSERT_TRUE(own.ok());
  const std::string path = resolver::service_path(kLostService);
  ASSERT_TRUE(eventually([&] { return one_->state().unsettled == 0; }));
  std::string other = world_.nodes[path].data;
  one_.end();
  other[sizeof spi::kPacketMagic] = static_cast<char>(spi::kPacketVersion + 1);
  world_.put(path, other);
  const Status status = two_->resolve(kLostService, Deadline::after(kAWhile)).status();
  EXPECT_EQ(status.code(), RIPC_VERSION_MISMATCH) << status.text();
  EXPECT_NE(status.text().find("run the same libripc on both hosts"), std::string_view::npos) << status.text();
  EXPECT_EQ(two_->state().counters.other_version, 1u);
  // As soon as the other host runs the same version, its service is found.
  DirectoryContext third(world_);
  ASSERT_TRUE(third.publish(kLostService).ok());
  EXPECT_TRUE(two_.sees(kLostService, third.id()));
  third.end();
  world_.erase(path);
  EXPECT_TRUE(eventually([&] { return two_->resolve(kLostService, Deadline::after(0)).status() == RIPC_NO_SERVICE; }));
}

TEST_F(DirectoryFailuresTest, AMulticastPacketIsNoRecord) {
  spi::ServiceRecord own = one_.record(kLostService);
  own.incarnation = 1;
  spi::PacketHeader header;
  header.type = spi::PacketType::announcement;
  header.context = own.context;
  header.timestamp = 1;
  const auto keys = make_keys(kKeyText);
  spi::PacketBuilder builder(header, spi::Seal(keys.get()));
  ASSERT_TRUE(builder.add(own, false));
  const std::vector<std::byte> bytes = builder.finish();
  world_.put(resolver::service_path(kLostService), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_EQ(two_.holder(kLostService), 0u);
  EXPECT_TRUE(eventually([&] { return two_->state().counters.forged == 1; }));
  EXPECT_EQ(two_.holder(kLostService), 0u);
}

TEST_F(DirectoryFailuresTest, AForgedRecordStandsInNoOnesWayAndIsNotFoughtForEver) {
  const std::string path = resolver::service_path(kLostService);
  world_.put(path, "forged");
  ASSERT_TRUE(one_.publish(kLostService).ok());
  EXPECT_TRUE(two_.sees(kLostService, one_.id()));
  world_.put(path, "forged again");
  EXPECT_TRUE(two_.sees(kLostService, one_.id()));
  // Like an attacker who replaces the record whenever it is there.
  for (int i = 0; i < 100; ++i) {
    world_.erase(path);
    world_.put(path, "forged");
    one_.directory().settle_down();
  }
  EXPECT_LE(one_->state().counters.writes, 40u);
}

TEST_F(DirectoryFailuresTest, AMemberWhoseNodeSomeoneRemovesComesBackWithItsGroup) {
  spi::ServiceRecord own = one_.record(kLostService);
  own.groups = {kLostGroup};
  ASSERT_TRUE(one_->publish(own, false, nullptr).ok());
  EXPECT_EQ(two_.members(kLostGroup).size(), 1u);
  one_.directory().settle_down();
  world_.erase(resolver::service_path(kLostService));
  one_.directory().settle_down();
  EXPECT_TRUE(two_.sees(kLostService, one_.id()));
  EXPECT_TRUE(eventually([&] { return two_.members(kLostGroup, 0).size() == 1; }));
  EXPECT_TRUE(eventually([&] { return one_->state().unsettled == 0; }));
}

TEST_F(DirectoryFailuresTest, ANewSessionReplacesForgedRecordsAgain) {
  const std::string path = resolver::service_path(kLostService);
  ASSERT_TRUE(one_.publish(kLostService).ok());
  for (int session = 0; session < 2; ++session) {
    // More often than one session replaces them.
    for (int i = 0; i < 20; ++i) {
      world_.put(path, "forged");
      one_.directory().settle_down();
    }
    EXPECT_EQ(world_.nodes[path].data, "forged");
    one_.directory().expire();
    EXPECT_TRUE(two_.sees(kLostService, one_.id())) << "session " << session;
  }
}

// The servers refuse to publish it anew. The former service is still there, and its context can withdraw it.
TEST_F(DirectoryFailuresTest, AServiceThatCannotBePublishedAnewStaysAsItWas) {
  for (const bool takeover : {true, false}) {
    const Result<spi::ServiceRecord> former = one_.publish(kLostService);
    ASSERT_TRUE(former.ok()) << former.status().text();
    const std::string path = resolver::service_path(kLostService);
    one_.directory().settle_down();
    one_.directory().refuse("NO");
    spi::ServiceRecord next = one_.record(kLostService);
    next.incarnation = former->incarnation + 1;
    EXPECT_EQ(one_->publish(next, takeover, nullptr).code(), RIPC_PERMISSION);
    const Result<spi::ServiceRecord> kept = one_->resolve(kLostService, Deadline::after(0));
    EXPECT_TRUE(kept.ok() && kept->incarnation == former->incarnation) << kept.status().text();
    one_.directory().refuse("");
    one_->withdraw(*former);
    EXPECT_TRUE(eventually([&] { return one_->state().published + one_->state().unsettled == 0; }));
    const std::lock_guard lock(world_.mutex);
    EXPECT_EQ(world_.find(path), nullptr) << "the node outlives its service, takeover " << takeover;
  }
}

TEST_F(DirectoryFailuresTest, AServiceWithdrawnWhileItIsPublishedAnewDoesNotComeBack) {
  const Result<spi::ServiceRecord> former = one_.publish(kLostService);
  ASSERT_TRUE(former.ok()) << former.status().text();
  one_.directory().settle_down();
  one_.directory().refuse("NO");
  one_.directory().tell_by([this, former, is_withdrawn = false](const std::function<void()>& deliver) mutable {
    if (!std::exchange(is_withdrawn, true)) one_->withdraw(*former);
    deliver();
  });
  spi::ServiceRecord next = one_.record(kLostService);
  next.incarnation = former->incarnation + 1;
  EXPECT_EQ(one_->publish(next, true, nullptr).code(), RIPC_PERMISSION);
  EXPECT_EQ(one_->resolve(kLostService, Deadline::after(0)).status().code(), RIPC_NO_SERVICE);
  one_.directory().refuse("");
  one_.directory().expire();
  EXPECT_TRUE(eventually([&] { return one_->state().published + one_->state().unsettled == 0; }));
}

TEST_F(DirectoryFailuresTest, ASuccessorIsNotWaitedForOnceTheServersRefuseToSay) {
  const Result<spi::ServiceRecord> own = one_.publish(kLostService);
  ASSERT_TRUE(own.ok()) << own.status().text();
  one_.directory().settle_down();
  one_.directory().refuse("NO");
  const Deadline deadline = Deadline::after(2 * kAWhile);
  EXPECT_EQ(one_->successor(*own, deadline).status().code(), RIPC_NO_SERVICE);
  EXPECT_FALSE(deadline.expired()) << "it waited for an answer that had come";
}

// The longest times would overflow the clock of the standard library, and a wait would end at once, again and again.
TEST_F(DirectoryFailuresTest, AQuestionWithADeadlineInCenturiesSleeps) {
  for (const Nanoseconds timeout : {UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX - 1}) {
    std::atomic<pid_t> asker = 0;
    std::jthread asking([&] {
      asker = ::gettid();
      EXPECT_EQ(two_.holder(kLostService, timeout), one_.id());
    });
    unsigned sleeping = 0;  // in a row
    EXPECT_TRUE(eventually([&] {
      sleeping = asker != 0 && support::state_of_thread(asker) == 'S' ? sleeping + 1 : 0;
      return sleeping == 50;
    })) << timeout;
    const Result<spi::ServiceRecord> own = one_.publish(kLostService);
    ASSERT_TRUE(own.ok());
    asking.join();
    one_->withdraw(*own);
    EXPECT_TRUE(two_.sees(kLostService, 0));
  }
}

TEST_F(DirectoryFailuresTest, AStormOfMovesEndsWithEveryoneOfOneMind) {
  DirectoryContext client(world_);
  std::uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    DirectoryContext& mover = i % 2 == 0 ? one_ : two_;
    const Result<spi::ServiceRecord> own = mover.publish(kLostService, true);
    ASSERT_TRUE(own.ok()) << own.status().text();
    EXPECT_GT(own->incarnation, last);
    last = own->incarnation;
    if (i % 100 == 0) {
      ASSERT_TRUE(client.sees(kLostService, mover.id()));
    }
  }
  EXPECT_TRUE(client.sees(kLostService, two_.id()));
  EXPECT_TRUE(one_.sees(kLostService, two_.id()));
}

}  // namespace
}  // namespace ripc::internal::test
