// SPDX-License-Identifier: Apache-2.0
// Members of one cluster that claim IDs and names of others, in a directory that all of them may write.
#include "directory_helpers.hpp"
#include "trust_options.hpp"

namespace ripc::internal::test {
namespace {

const ripc_service_id kDirectoryBank = *core::id_of_name("bank");
constexpr ripc_service_id kDirectoryRandomId = (ripc_service_id{3} << 62) | 98;
constexpr Nanoseconds kDirectoryPatience = 10'000'000'000;

resolver::DirectoryOptions directory_member(unsigned member, const std::string& text = kTrustText) {
  resolver::DirectoryOptions options = directory_options();
  options.credentials = member_credentials(options.credentials.keys, member, text);
  return options;
}

class DirectoryTrust : public ::testing::Test {
 protected:
  Status publish(DirectoryContext& context, bool takeover = false) {
    spi::ServiceRecord record = context.record(kDirectoryBank, "bank");
    return context->publish(record, takeover, nullptr);
  }
  // Makes the node, or overwrites it, like the directory's client whose session would own it.
  void write(const spi::ServiceRecord& record, const security::Credentials& credentials) {
    const std::lock_guard lock(world_.mutex);
    const std::string path = resolver::service_path(record.id);
    const FakeWorld::Node* const node = world_.find(path);
    const std::uint64_t owner = node != nullptr ? node->owner : 99;
    world_.put(path, resolver::encode_record(record, owner, credentials), owner);
  }
  // Writes a record as this member, without the checks of publish().
  void put(unsigned member, ripc_service_id id, const std::string& name) {
    spi::ServiceRecord record = alice_.record(id, name);
    record.context = 4711;
    record.incarnation = realtime_now() + 1'000'000'000;
    write(record, member_credentials(make_keys(kKeyText), member));
  }
  std::string data_of(ripc_service_id id) {
    const std::lock_guard lock(world_.mutex);
    const FakeWorld::Node* const node = world_.find(resolver::service_path(id));
    return node != nullptr ? node->data : "";
  }
  std::uint64_t records_refused() {
    return security::Counters::read(victim_options_.credentials.counters->records_refused);
  }
  spi::Refusals refusals() { return victim_->state().counters.refusals; }

  FakeWorld world_;
  DirectoryContext alice_{world_, directory_member(1)};
  resolver::DirectoryOptions victim_options_ = directory_member(3);
  DirectoryContext victim_{world_, victim_options_};
};

TEST_F(DirectoryTrust, AMemberWithTheRightToANameIsFoundAndKnown) {
  ASSERT_TRUE(publish(alice_).ok());
  const Result<spi::ServiceRecord> found = victim_->resolve(kDirectoryBank, Deadline::after(kDirectoryPatience));
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->member, "alice");
}

TEST_F(DirectoryTrust, ARecordOfAMemberWithoutTheRightIsIgnoredAndCounted) {
  put(2, kDirectoryBank, "bank");
  EXPECT_EQ(victim_.holder(kDirectoryBank), 0U);
  EXPECT_TRUE(eventually([&] { return refusals().not_permitted == 1; }));
  put(0, kDirectoryBank, "bank");
  EXPECT_TRUE(eventually([&] { return refusals().unproven == 1; }));
  put(4, kDirectoryBank, "bank");
  EXPECT_TRUE(eventually([&] { return refusals().unproven == 2; }));
  EXPECT_EQ(victim_.holder(kDirectoryBank), 0U);
  // The refused record blocks no one.
  ASSERT_TRUE(publish(alice_).ok());
  EXPECT_TRUE(victim_.sees(kDirectoryBank, alice_.id()));
}

TEST_F(DirectoryTrust, AMemberThatOverwritesTheHolderDoesNotDisplaceIt) {
  ASSERT_TRUE(publish(alice_).ok());
  EXPECT_TRUE(victim_.sees(kDirectoryBank, alice_.id()));
  put(2, kDirectoryBank, "bank");
  // The holder may be faster than the victim, which then never reads the false record.
  EXPECT_TRUE(eventually([&] { return alice_->state().counters.refusals.not_permitted != 0; }));
  EXPECT_TRUE(victim_.sees(kDirectoryBank, alice_.id())) << "the holder writes its own again";
}

TEST_F(DirectoryTrust, TheIdOfAnotherMemberIsNotTakenOverEvenWithoutAName) {
  ASSERT_TRUE(alice_.publish(kDirectoryRandomId).ok());
  EXPECT_TRUE(victim_.sees(kDirectoryRandomId, alice_.id()));
  {
    const std::lock_guard lock(world_.mutex);
    world_.nodes.erase(resolver::service_path(kDirectoryRandomId));
    put(2, kDirectoryRandomId, "");
  }
  EXPECT_TRUE(eventually([&] { return alice_->state().counters.refusals.not_permitted != 0; }));
  EXPECT_TRUE(victim_.sees(kDirectoryRandomId, alice_.id()));
  EXPECT_EQ(alice_->state().counters.fenced, 0U);
}

TEST_F(DirectoryTrust, ATakeoverFromAnotherMemberThatTheTrustFileDoesNotAllowIsRefused) {
  ASSERT_TRUE(alice_.publish(kDirectoryRandomId, true).ok());
  const std::string before = data_of(kDirectoryRandomId);
  const Status status = victim_.publish(kDirectoryRandomId, true).status();
  EXPECT_EQ(status.code(), RIPC_PERMISSION) << status.text();
  EXPECT_NE(status.text().find("does not let carol take over"), std::string_view::npos) << status.text();
  EXPECT_EQ(records_refused(), 0U) << "no one has published anything false";
  for (int round = 0; round < 20; ++round) {
    alice_.directory().settle_down();
    victim_.directory().settle_down();
  }
  EXPECT_EQ(data_of(kDirectoryRandomId), before);
  EXPECT_EQ(alice_->state().counters.writes, 1U);
  EXPECT_EQ(victim_->state().counters.writes, 0U);
}

TEST_F(DirectoryTrust, TwoMembersThatBothHoldARandomIdDoNotFightForEver) {
  ASSERT_TRUE(alice_.publish(kDirectoryRandomId, true).ok());
  alice_.directory().cut();
  world_.erase(resolver::service_path(kDirectoryRandomId));  // the session has expired
  ASSERT_TRUE(victim_.publish(kDirectoryRandomId, true).ok());
  alice_.directory().heal(true);
  for (int round = 0; round < 50; ++round) {
    alice_.directory().settle_down();
    victim_.directory().settle_down();
  }
  EXPECT_LE(alice_->state().counters.writes + victim_->state().counters.writes, 20U);
  const std::string last = data_of(kDirectoryRandomId);
  EXPECT_FALSE(last.empty()) << "one of them keeps it";
}

TEST_F(DirectoryTrust, AContextThatIsNoMemberWritesItsRecordOnce) {
  resolver::DirectoryOptions options = directory_options();
  options.credentials = member_credentials(options.credentials.keys, 0);
  DirectoryContext stranger(world_, options);
  const Result<spi::ServiceRecord> own = stranger.publish(kDirectoryRandomId);
  ASSERT_TRUE(own.ok()) << own.status().text();
  stranger.directory().settle_down();
  spi::ServiceRecord moved = *own;
  moved.addresses.push_back({"socket", "elsewhere"});
  ASSERT_TRUE(stranger->update(moved).ok());
  stranger.directory().settle_down();
  EXPECT_EQ(stranger->state().counters.writes, 2U);
  EXPECT_EQ(stranger->state().unsettled, 0U);
}

TEST_F(DirectoryTrust, AStolenRecordIsWorthNothingAfterItsMemberWasRemoved) {
  ASSERT_TRUE(publish(alice_).ok());
  const std::string stolen = world_.nodes[resolver::service_path(kDirectoryBank)].data;
  alice_.end();
  DirectoryContext later(world_, directory_member(3, "carol " + security::key_of(3) + "\n"));
  world_.put(resolver::service_path(kDirectoryBank), stolen);
  EXPECT_EQ(later.holder(kDirectoryBank), 0U);
  EXPECT_TRUE(eventually([&] { return later->state().counters.refusals.unproven == 1; }));
  EXPECT_EQ(later.holder(kDirectoryBank), 0U);
}

TEST_F(DirectoryTrust, ARecordStolenBeforeATakeoverIsReplacedByTheHolder) {
  ASSERT_TRUE(publish(alice_).ok());
  const std::string path = resolver::service_path(kDirectoryBank);
  const std::string stolen = world_.nodes[path].data;
  DirectoryContext second(world_, directory_member(1));
  ASSERT_TRUE(publish(second, true).ok());
  EXPECT_TRUE(victim_.sees(kDirectoryBank, second.id()));
  // Now the holder cannot write its own record again, neither in place nor in a new node.
  second.directory().cut();
  for (const bool in_place : {true, false}) {
    const std::uint64_t before = refusals().not_permitted;
    {
      const std::lock_guard lock(world_.mutex);
      if (!in_place) world_.nodes.erase(path);
      world_.put(path, stolen);
    }
    victim_.directory().settle_down();
    // Each read of the record counts, and one change may cause several.
    EXPECT_GT(refusals().not_permitted, before);
    EXPECT_EQ(victim_.holder(kDirectoryBank), second.id());
  }
  EXPECT_EQ(records_refused(), refusals().not_permitted);
  second.directory().heal(false);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(world_.mutex);
    return world_.nodes[path].data != stolen;
  }));
  victim_.directory().settle_down();
  EXPECT_EQ(victim_.holder(kDirectoryBank), second.id());
  EXPECT_EQ(second->state().counters.fenced, 0U);
}

TEST_F(DirectoryTrust, AHolderWithASlowerClockIsTakenOnceASendToTheFormerFailed) {
  ASSERT_TRUE(publish(alice_).ok());
  const Result<spi::ServiceRecord> former = victim_->resolve(kDirectoryBank, Deadline::after(kDirectoryPatience));
  ASSERT_TRUE(former.ok());
  alice_.directory().cut();
  spi::ServiceRecord slow = alice_.record(kDirectoryBank, "bank");
  slow.context = 4711;
  slow.incarnation = former->incarnation - 5'000'000'000;
  {
    const std::lock_guard lock(world_.mutex);
    world_.nodes.erase(resolver::service_path(kDirectoryBank));
    write(slow, directory_member(1).credentials);
  }
  victim_.directory().settle_down();
  EXPECT_EQ(victim_.holder(kDirectoryBank), alice_.id());
  victim_->invalidate(*former);
  EXPECT_TRUE(victim_.sees(kDirectoryBank, slow.context));
}

TEST_F(DirectoryTrust, AMemberIsRefusedAtOnceWhatItsOwnTrustFileDoesNotGiveIt) {
  DirectoryContext bob(world_, directory_member(2));
  EXPECT_EQ(publish(bob, true).code(), RIPC_PERMISSION);
}

}  // namespace
}  // namespace ripc::internal::test
