// SPDX-License-Identifier: Apache-2.0
// What the directory resolver promises while the directory answers.
#include "resolver/zookeeper/directory_resolver.hpp"

#include "base/group_id.hpp"
#include "directory_helpers.hpp"

namespace ripc::internal::test {
namespace {

constexpr ripc_service_id kDirectoryService = 4711;
constexpr ripc_service_id kDirectoryGroup = (ripc_service_id{1} << 62) | 5;
constexpr Nanoseconds kShortly = 50'000'000;
constexpr Nanoseconds kLong = 10'000'000'000;

class DirectoryResolverTest : public ::testing::Test {
 protected:
  FakeWorld world_;
  DirectoryContext one_{world_};
  DirectoryContext two_{world_};
};

TEST_F(DirectoryResolverTest, APublishedServiceIsFoundByOthersAsItWasPublished) {
  const Result<spi::ServiceRecord> own = one_.publish(kDirectoryService);
  ASSERT_TRUE(own.ok()) << own.status().text();
  const Result<spi::ServiceRecord> found = two_->resolve(kDirectoryService, Deadline::after(kLong));
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, *own);
}

TEST_F(DirectoryResolverTest, AKnownServiceIsNotAskedForAgain) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
  const unsigned reads = two_.directory().reads;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
  EXPECT_EQ(two_.directory().reads, reads);
}

TEST_F(DirectoryResolverTest, AWaitingThreadFindsAServiceThatComes) {
  const std::jthread later([&] {
    EXPECT_TRUE(eventually([&] { return two_.directory().watches() != 0; }));
    EXPECT_TRUE(one_.publish(kDirectoryService).ok());
  });
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
}

TEST_F(DirectoryResolverTest, AContextWithAnotherResolverDoesNotWaitForAMissingService) {
  resolver::DirectoryOptions options = directory_options();
  options.waits_for_services = false;
  DirectoryContext context(world_, options);
  EXPECT_EQ(context->resolve(kDirectoryService, Deadline::never()).status().code(), RIPC_NO_SERVICE);
}

TEST_F(DirectoryResolverTest, AnIdIsTakenByOneOnly) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  EXPECT_EQ(two_.publish(kDirectoryService).status().code(), RIPC_ID_IN_USE);
  EXPECT_TRUE(two_.sees(kDirectoryService, one_.id()));
}

TEST_F(DirectoryResolverTest, ANameIsNotTakenByAnotherName) {
  const ripc_service_id id = core::service_id_from_name("mine");
  spi::ServiceRecord own = one_.record(id, "mine");
  ASSERT_TRUE(one_->publish(own, false, nullptr).ok());
  spi::ServiceRecord other = two_.record(id, "yours");
  EXPECT_EQ(two_->publish(other, true, nullptr).code(), RIPC_INVALID_ARGUMENT);
}

TEST_F(DirectoryResolverTest, ATakeoverNamesAndNotifiesTheFormerHolder) {
  const Result<spi::ServiceRecord> former = one_.publish(kDirectoryService);
  ASSERT_TRUE(former.ok());
  std::vector<spi::ServiceRecord> displaced;
  const Result<spi::ServiceRecord> now = two_.publish(kDirectoryService, true, &displaced);
  ASSERT_TRUE(now.ok()) << now.status().text();
  EXPECT_GT(now->incarnation, former->incarnation);
  ASSERT_EQ(displaced.size(), 1u);
  EXPECT_EQ(displaced[0], *former);
  EXPECT_TRUE(one_.was_notified(kDirectoryService, two_.id()));
  EXPECT_EQ(one_->update(*former).code(), RIPC_FENCED);
  EXPECT_TRUE(one_.sees(kDirectoryService, two_.id()));
  EXPECT_EQ(one_->successor(*former, Deadline::after(kLong))->context, two_.id());
}

TEST_F(DirectoryResolverTest, AHolderThatAsksBeforeItIsNotifiedFindsItsSuccessor) {
  const Result<spi::ServiceRecord> former = one_.publish(kDirectoryService);
  ASSERT_TRUE(former.ok());
  ASSERT_TRUE(two_.publish(kDirectoryService, true).ok());
  const Result<spi::ServiceRecord> found = one_->successor(*former, Deadline::after(kLong));
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->context, two_.id());
  EXPECT_EQ(two_->successor(two_.record(kDirectoryService), Deadline::after(kShortly)).status().code(),
            RIPC_NO_SERVICE);
}

TEST_F(DirectoryResolverTest, ATakeoverDisplacesOnlyTheHolderOfThatMoment) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  DirectoryContext third(world_);
  // Between the second context's read and its write, the third takes the ID. Both nodes have the version 0.
  Result<spi::ServiceRecord> between = RIPC_NO_SERVICE;
  two_.directory().before_commit = [&] { between = third.publish(kDirectoryService, true); };
  std::vector<spi::ServiceRecord> displaced;
  const Result<spi::ServiceRecord> now = two_.publish(kDirectoryService, true, &displaced);
  ASSERT_TRUE(now.ok()) << now.status().text();
  ASSERT_TRUE(between.ok()) << between.status().text();
  ASSERT_EQ(displaced.size(), 1u);
  EXPECT_EQ(displaced[0], *between);
  EXPECT_GT(now->incarnation, between->incarnation);
  EXPECT_TRUE(third.was_notified(kDirectoryService, two_.id()));
}

TEST_F(DirectoryResolverTest, AMoveIsReportedWithTheNewHolderBeforeAnyoneAsks) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  DirectoryContext client(world_);
  EXPECT_EQ(client.holder(kDirectoryService, kLong), one_.id());
  ASSERT_TRUE(two_.publish(kDirectoryService, true).ok());
  EXPECT_TRUE(client.was_notified(kDirectoryService, two_.id()));
  EXPECT_EQ(client.holder(kDirectoryService), two_.id());
}

TEST_F(DirectoryResolverTest, AnEndIsReportedAndTheIdIsFree) {
  const Result<spi::ServiceRecord> own = one_.publish(kDirectoryService);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
  one_->withdraw(*own);
  EXPECT_TRUE(two_.was_notified(kDirectoryService, 0));
  EXPECT_EQ(two_.holder(kDirectoryService), 0u);
  EXPECT_TRUE(two_.publish(kDirectoryService).ok());
  EXPECT_TRUE(one_.sees(kDirectoryService, two_.id()));
}

TEST_F(DirectoryResolverTest, TheEndOfAContextIsTheEndOfItsServices) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
  one_.end();
  EXPECT_TRUE(two_.sees(kDirectoryService, 0));
  EXPECT_TRUE(world_.nodes.empty());
}

TEST_F(DirectoryResolverTest, AWithdrawnServiceIsPublishedAgainAtOnce) {
  for (int i = 0; i < 20; ++i) {
    const Result<spi::ServiceRecord> own = one_.publish(kDirectoryService);
    ASSERT_TRUE(own.ok()) << own.status().text();
    if (i % 2 == 0) one_->withdraw(*own);
  }
  EXPECT_TRUE(two_.sees(kDirectoryService, one_.id()));
}

TEST_F(DirectoryResolverTest, NewAddressesAreReported) {
  Result<spi::ServiceRecord> own = one_.publish(kDirectoryService);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
  own->addresses = {{"socket", "ctx=1;port=7001;ip=127.0.0.2"}};
  EXPECT_TRUE(one_->update(*own).ok());
  EXPECT_TRUE(eventually([&] {
    const Result<spi::ServiceRecord> found = two_->resolve(kDirectoryService, Deadline::after(0));
    return found.ok() && found->addresses == own->addresses;
  }));
}

TEST_F(DirectoryResolverTest, MembersOfAGroupComeAndGo) {
  Result<spi::ServiceRecord> own = one_.publish(kDirectoryService);
  ASSERT_TRUE(own.ok());
  EXPECT_TRUE(two_.members(kDirectoryGroup).empty());
  own->groups = {kDirectoryGroup};
  EXPECT_TRUE(one_->update(*own).ok());
  const std::vector<ripc_service_id> both{kDirectoryService, kDirectoryService + 1};
  spi::ServiceRecord second = two_.record(kDirectoryService + 1);
  second.groups = {kDirectoryGroup};
  ASSERT_TRUE(two_->publish(second, false, nullptr).ok());
  EXPECT_TRUE(eventually([&] { return two_.members(kDirectoryGroup, 0) == both; }));
  EXPECT_TRUE(eventually([&] { return one_.members(kDirectoryGroup) == both; }));
  EXPECT_TRUE(two_.was_notified(kDirectoryGroup, 0));
  own->groups.clear();
  EXPECT_TRUE(one_->update(*own).ok());
  EXPECT_TRUE(eventually([&] { return two_.members(kDirectoryGroup, 0) == std::vector{both[1]}; }));
  two_.end();
  EXPECT_TRUE(eventually([&] { return one_.members(kDirectoryGroup, 0).empty(); }));
}

TEST_F(DirectoryResolverTest, TheListHasEveryService) {
  std::vector<ripc_service_id> expected;
  for (ripc_service_id id = 1; id <= 1000; ++id) {
    expected.push_back(id);
    ASSERT_TRUE((id % 2 == 0 ? one_ : two_).publish(id).ok());
  }
  DirectoryContext client(world_);
  std::vector<ripc_service_id> found;
  ASSERT_TRUE(client->list([&](const spi::ServiceRecord& record) { found.push_back(record.id); }).ok());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, expected);
}

TEST_F(DirectoryResolverTest, NoMoreIsWatchedThanTheLimitAllows) {
  resolver::DirectoryOptions options = directory_options();
  options.max_cached = 10;
  for (const bool is_linked : {true, false}) {
    DirectoryContext client(world_, options);
    client.directory().settle_down();
    if (!is_linked) client.directory().cut();
    for (ripc_service_id id = 1; id <= 100; ++id) EXPECT_EQ(client.holder(id, is_linked ? kShortly / 50 : 0), 0u);
    if (!is_linked) client.directory().heal(false);
    client.directory().settle_down();
    EXPECT_LE(client.directory().watches(), 11u) << (is_linked ? "linked" : "cut off");
    const Result<spi::ServiceRecord> own = one_.publish(1);
    ASSERT_TRUE(own.ok());
    EXPECT_TRUE(client.sees(1, one_.id())) << "what was forgotten is asked for again";
    one_->withdraw(*own);
    EXPECT_TRUE(two_.sees(1, 0));
  }
}

TEST_F(DirectoryResolverTest, WithoutServersNoMoreGroupsAreKeptThanTheLimitAllows) {
  resolver::DirectoryOptions options = directory_options();
  options.max_groups = 4;
  DirectoryContext client(world_, options);
  client.directory().settle_down();
  client.directory().cut();
  for (ripc_service_id group = kDirectoryGroup; group < kDirectoryGroup + 100; ++group)
    EXPECT_TRUE(client.members(group, 0).empty());
  client.directory().heal(false);
  client.directory().settle_down();
  EXPECT_LE(client.directory().watches(), 4u);
  EXPECT_EQ(client.directory().forgotten, 0u) << "nothing was watched";
}

TEST_F(DirectoryResolverTest, NoMoreIsWatchedThanAReconnectCanCarry) {
  constexpr ripc_service_id kRandom = ripc_service_id{3} << 62;
  constexpr ripc_service_id kCount = 40;
  resolver::DirectoryOptions options = directory_options();
  options.max_groups = 4;
  world_.most_watches = 24;
  for (const bool publishes_first : {true, false}) {
    DirectoryContext client(world_, options);
    const ripc_service_id first = kRandom | (publishes_first ? 100 : 200);
    for (const bool publishes : {publishes_first, !publishes_first}) {
      for (ripc_service_id id = 0; id < kCount; ++id) {
        if (publishes) {
          ASSERT_TRUE(client.publish(first + id).ok());
        } else {
          EXPECT_EQ(client.holder(id + 1), 0u);
        }
      }
    }
    EXPECT_TRUE(eventually([&] { return client->state().published == kCount; }));
    client.directory().settle_down();
    EXPECT_LE(client.directory().watches(), 20u);
    EXPECT_GE(client.directory().watches(), 15u);
    // A service that is not watched learns of its successor when it asks.
    const spi::ServiceRecord last = *client->resolve(first + kCount - 1, Deadline::after(0));
    ASSERT_TRUE(two_.publish(last.id, true).ok());
    EXPECT_EQ(client->successor(last, Deadline::after(kLong))->context, two_.id());
  }
}

TEST_F(DirectoryResolverTest, TheFirstServicesKeepTheirWatchesInEverySession) {
  constexpr ripc_service_id kRandom = ripc_service_id{3} << 62;
  constexpr ripc_service_id kCount = 40;
  constexpr ripc_service_id kWatched = 10;
  resolver::DirectoryOptions options = directory_options();
  options.max_groups = 4;
  world_.most_watches = 24;
  DirectoryContext client(world_, options);
  for (ripc_service_id id = kCount; id > 0; --id) {
    ASSERT_TRUE(client.publish(kRandom | id).ok());
    client.directory().settle_down();
  }
  for (const char* const session : {"first", "second", "third"}) {
    EXPECT_TRUE(eventually([&] { return client->state().published == kCount; })) << session;
    client.directory().settle_down();
    for (ripc_service_id id = 1; id <= kCount; ++id) {
      const bool is_watched = client.directory().is_watching(resolver::service_path(kRandom | id));
      EXPECT_EQ(is_watched, id > kCount - kWatched) << id << " in the " << session << " session";
    }
    client.directory().cut();
    client.directory().heal(true);
  }
}

TEST_F(DirectoryResolverTest, AMemberThatTheCacheLetsGoOfIsStillInItsGroup) {
  resolver::DirectoryOptions options = directory_options();
  options.max_cached = 4;
  DirectoryContext three(world_, options);
  spi::ServiceRecord member = one_.record(kDirectoryService);
  member.groups = {kDirectoryGroup};
  ASSERT_TRUE(one_->publish(member, false, nullptr).ok());
  EXPECT_EQ(three.members(kDirectoryGroup).size(), 1u);
  for (ripc_service_id other = kDirectoryService + 1; other <= kDirectoryService + 8; ++other)
    EXPECT_EQ(three.holder(other), 0u);
  EXPECT_EQ(three.members(kDirectoryGroup).size(), 1u);
}

TEST_F(DirectoryResolverTest, AGroupHasAsManyMembersAsHalfTheCacheHoldsAndNewOnesDisplaceNone) {
  using Ids = std::vector<ripc_service_id>;
  resolver::DirectoryOptions options = directory_options();
  options.max_cached = 8;
  DirectoryContext client(world_, options);
  const auto join = [&](ripc_service_id id) {
    spi::ServiceRecord member = one_.record(id);
    member.groups = {kDirectoryGroup};
    EXPECT_TRUE(one_->publish(member, false, nullptr).ok());
    return member;
  };
  const spi::ServiceRecord first = join(14);
  for (const ripc_service_id id : Ids{17, 16, 15, 13, 12}) join(id);
  EXPECT_EQ(client.members(kDirectoryGroup), (Ids{12, 13, 14, 15})) << "the smallest IDs";
  EXPECT_EQ(two_.members(kDirectoryGroup).size(), 6u);
  join(11);
  join(10);
  client.directory().settle_down();
  EXPECT_EQ(client.members(kDirectoryGroup), (Ids{12, 13, 14, 15}));
  one_->withdraw(first);
  EXPECT_TRUE(eventually([&] { return client.members(kDirectoryGroup) == Ids{10, 12, 13, 15}; }));
}

TEST_F(DirectoryResolverTest, AfterAFailedSendTheDirectoryIsAskedOnceAndUpToDate) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  const Result<spi::ServiceRecord> found = two_->resolve(kDirectoryService, Deadline::after(kLong));
  ASSERT_TRUE(found.ok());
  const unsigned reads = two_.directory().reads;
  const unsigned syncs = two_.directory().syncs;
  EXPECT_TRUE(eventually([&] {
    two_->invalidate(*found);
    (void)two_.holder(kDirectoryService, kLong);
    return two_.directory().reads > reads;
  }));
  EXPECT_GT(two_.directory().syncs, syncs);
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
}

TEST_F(DirectoryResolverTest, AServerThatLagsBehindBringsNothingOldBack) {
  ASSERT_TRUE(one_.publish(kDirectoryService).ok());
  EXPECT_EQ(two_.holder(kDirectoryService, kLong), one_.id());
  const std::string path = resolver::service_path(kDirectoryService);
  const FakeWorld::Node old = world_.nodes[path];
  DirectoryContext third(world_);
  ASSERT_TRUE(third.publish(kDirectoryService, true).ok());
  EXPECT_TRUE(two_.sees(kDirectoryService, third.id()));
  two_.directory().answer_once_with(old);
  const spi::ServiceRecord known = *two_->resolve(kDirectoryService, Deadline::after(0));
  const unsigned syncs = two_.directory().syncs;
  EXPECT_TRUE(eventually([&] {
    two_->invalidate(known);
    EXPECT_EQ(two_.holder(kDirectoryService, kLong), third.id());
    return two_.directory().syncs >= syncs + 2;
  }));
}

TEST_F(DirectoryResolverTest, RandomIdsAreNotWaitedFor) {
  const ripc_service_id id = (ripc_service_id{3} << 62) | 99;
  DirectoryContext cut_off(world_, directory_options(), false);
  EXPECT_TRUE(cut_off.publish(id).ok());
  cut_off.directory().heal(true);
  EXPECT_TRUE(two_.sees(id, cut_off.id()));
}

TEST_F(DirectoryResolverTest, ARefusalOfTheServersIsReportedWithTheirWords) {
  one_.directory().refuse("not authenticated");
  const Status published = one_.publish(kDirectoryService).status();
  EXPECT_EQ(published.code(), RIPC_PERMISSION);
  EXPECT_NE(published.text().find("not authenticated"), std::string_view::npos);
  EXPECT_EQ(one_->resolve(kDirectoryService, Deadline::after(kLong)).status().code(), RIPC_PERMISSION);
}

}  // namespace
}  // namespace ripc::internal::test
