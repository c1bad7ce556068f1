// SPDX-License-Identifier: Apache-2.0
// Genuine records that someone puts back into the directory.
#include "directory_helpers.hpp"

namespace ripc::internal::test {
namespace {

constexpr ripc_service_id kReplayedService = 816;
constexpr ripc_service_id kReplayedGroup = RIPC_GROUP_ID(816);
constexpr std::uint64_t kThief = 99;  // a session
constexpr Nanoseconds kReplayPatience = 10'000'000'000;

class DirectoryReplay : public ::testing::Test {
 protected:
  std::string stolen() {
    const std::lock_guard lock(world_.mutex);
    return world_.nodes[path_].data;
  }
  std::uint64_t records_refused() {
    return security::Counters::read(reader_options_.credentials.counters->records_refused);
  }

  const std::string path_ = resolver::service_path(kReplayedService);
  FakeWorld world_;
  DirectoryContext holder_{world_};
  const resolver::DirectoryOptions reader_options_ = directory_options();
  DirectoryContext reader_{world_, reader_options_};
};

TEST_F(DirectoryReplay, AStolenRecordIsNotBelievedEvenByAContextThatKnowsNoHolder) {
  ASSERT_TRUE(holder_.publish(kReplayedService).ok());
  const std::string record = stolen();
  holder_.end();
  std::uint64_t refused = 0;
  for (const std::uint64_t owner : {std::uint64_t{0}, kThief}) {
    world_.put(path_, record, owner);
    DirectoryContext fresh(world_, reader_options_);
    fresh.directory().settle_down();
    EXPECT_EQ(fresh.holder(kReplayedService), 0u);
    fresh.directory().settle_down();
    EXPECT_EQ(fresh.holder(kReplayedService), 0u) << "owner " << owner;
    EXPECT_EQ(records_refused(), ++refused);
    unsigned listed = 0;
    ASSERT_TRUE(fresh->list([&](const spi::ServiceRecord&) { ++listed; }).ok());
    EXPECT_EQ(listed, 0u);
    EXPECT_EQ(records_refused(), ++refused);
    world_.erase(path_);
  }
}

TEST_F(DirectoryReplay, AnOlderRecordOfTheSameContextDoesNotReplaceTheKnownOne) {
  ASSERT_TRUE(holder_.publish(kReplayedService).ok());
  const std::string record = stolen();
  const Result<spi::ServiceRecord> now = holder_.publish(kReplayedService);
  ASSERT_TRUE(now.ok());
  const auto known = [&] {
    const Result<spi::ServiceRecord> found = reader_->resolve(kReplayedService, Deadline::after(kReplayPatience));
    return found.ok() ? found->incarnation : 0;
  };
  EXPECT_TRUE(eventually([&] { return known() == now->incarnation; }));
  holder_.directory().cut();
  world_.put(path_, record);
  reader_.directory().settle_down();
  EXPECT_EQ(known(), now->incarnation);
  EXPECT_EQ(records_refused(), 1u);
  holder_.directory().heal(false);
  EXPECT_TRUE(eventually([&] { return stolen() != record; }));
}

TEST_F(DirectoryReplay, AStolenRecordKeepsNoOneFromPublishing) {
  ASSERT_TRUE(holder_.publish(kReplayedService).ok());
  const std::string record = stolen();
  holder_.end();
  for (const std::uint64_t owner : {std::uint64_t{0}, kThief}) {
    world_.put(path_, record, owner);
    DirectoryContext next(world_);
    const Result<spi::ServiceRecord> own = next.publish(kReplayedService);
    ASSERT_TRUE(own.ok()) << own.status().text();
    EXPECT_TRUE(reader_.sees(kReplayedService, next.id()));
    next.end();
    EXPECT_TRUE(reader_.sees(kReplayedService, 0));
  }
}

TEST_F(DirectoryReplay, ARecordWrittenAsTheSessionChangesIsWrittenAgain) {
  holder_.directory().settle_down();
  holder_.directory().before_commit = [&] { holder_.directory().link_again(true); };
  const Result<spi::ServiceRecord> own = holder_.publish(kReplayedService);
  ASSERT_TRUE(own.ok()) << own.status().text();
  EXPECT_TRUE(reader_.sees(kReplayedService, holder_.id()));
  EXPECT_TRUE(eventually([&] { return holder_->state().unsettled == 0; }));
  EXPECT_EQ(world_.nodes[path_].owner, holder_.directory().session());
}

TEST_F(DirectoryReplay, AServiceWithdrawnAsTheSessionChangesLeavesNothing) {
  holder_.directory().settle_down();
  const ripc_service_id random = (ripc_service_id{3} << 62) | 97;
  holder_.directory().before_commit = [&] {
    holder_.directory().link_again(true);
    spi::ServiceRecord own = *holder_->resolve(random, Deadline::after(0));
    holder_->withdraw(own);
  };
  ASSERT_TRUE(holder_.publish(random).ok());
  EXPECT_TRUE(eventually([&] {
    holder_.directory().settle_down();
    const std::lock_guard lock(world_.mutex);
    return world_.nodes.empty() && holder_->state().unsettled == 0;
  }));
}

TEST_F(DirectoryReplay, AMemberPublishedAsTheSessionChangesIsInItsGroupOnceAndLeavesIt) {
  holder_.directory().settle_down();
  holder_.directory().before_commit = [&] { holder_.directory().link_again(true); };
  spi::ServiceRecord own = holder_.record(kReplayedService);
  own.groups = {kReplayedGroup};
  ASSERT_TRUE(holder_->publish(own, false, nullptr).ok());
  const auto nodes = [&] {
    holder_.directory().settle_down();
    const std::lock_guard lock(world_.mutex);
    return world_.nodes.size();
  };
  EXPECT_TRUE(eventually([&] { return holder_->state().unsettled == 0; }));
  EXPECT_EQ(nodes(), 2u) << "the service and its membership";
  holder_->withdraw(own);
  EXPECT_TRUE(eventually([&] { return nodes() == 0; }));
}

}  // namespace
}  // namespace ripc::internal::test
