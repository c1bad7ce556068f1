// SPDX-License-Identifier: Apache-2.0
#include "core/state/group_table.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::core {
namespace {

constexpr ripc_service_id kGroup = RIPC_GROUP_ID(7);
constexpr Nanoseconds kHour = 3'600'000'000'000;

// Returns the members that the test sets, and counts how often it is asked.
class MembersResolver final : public spi::Resolver {
 public:
  std::string_view name() const noexcept override { return "fake"; }
  Result<spi::ServiceRecord> resolve(ripc_service_id, Deadline) override { return RIPC_NO_SERVICE; }
  Status publish(spi::ServiceRecord&, bool, std::vector<spi::ServiceRecord>*) override { return {}; }
  Status update(const spi::ServiceRecord&) override { return {}; }
  Status members(ripc_service_id, Deadline deadline,
                 const std::function<void(const spi::ServiceRecord&)>& visit) override {
    ++asked;
    waited = !deadline.expired();
    if (during) during();
    for (const spi::ServiceRecord& record : records) visit(record);
    return failure;
  }
  void withdraw(const spi::ServiceRecord&) noexcept override {}
  void invalidate(const spi::ServiceRecord&) noexcept override {}
  Status observe(EventLoop&, spi::Observer, spi::Observe) override { return {}; }
  Status list(const std::function<void(const spi::ServiceRecord&)>&) override { return {}; }

  std::vector<spi::ServiceRecord> records;
  Status failure;
  std::function<void()> during;
  int asked = 0;
  bool waited = false;
};

spi::ServiceRecord record_of(ripc_service_id id, std::uint64_t incarnation = 1) {
  spi::ServiceRecord record;
  record.id = id;
  record.incarnation = incarnation;
  record.groups = {kGroup};
  return record;
}

TEST(GroupTable, AListIsUsedUntilItIsTooOld) {
  MembersResolver resolver;
  resolver.records = {record_of(1)};
  GroupTable lasting(resolver, kHour, kHour);
  for (int round = 0; round < 5; ++round) EXPECT_EQ(lasting.members(kGroup)->members.size(), 1u);
  EXPECT_EQ(resolver.asked, 1);
  EXPECT_TRUE(resolver.waited) << "the first time it is worth waiting for";
  GroupTable fleeting(resolver, 0, kHour);
  for (int round = 0; round < 5; ++round) EXPECT_EQ(fleeting.members(kGroup)->members.size(), 1u);
  EXPECT_EQ(resolver.asked, 6);
  EXPECT_FALSE(resolver.waited) << "a send does not wait for news";
}

TEST(GroupTable, AnOutdatedListIsAskedForAgain) {
  MembersResolver resolver;
  resolver.records = {record_of(1)};
  GroupTable table(resolver, kHour, kHour);
  (void)table.members(kGroup);
  table.outdate(RIPC_GROUP_ID(8));
  (void)table.members(kGroup);
  EXPECT_EQ(resolver.asked, 1);
  table.outdate(kGroup);
  (void)table.members(kGroup);
  EXPECT_EQ(resolver.asked, 2);
}

TEST(GroupTable, AListThatIsOutdatedWhileItIsAskedForIsNotKept) {
  MembersResolver resolver;
  resolver.records = {record_of(1)};
  GroupTable table(resolver, kHour, kHour);
  resolver.during = [&] { table.outdate(kGroup); };
  (void)table.members(kGroup);
  resolver.during = nullptr;
  resolver.records.push_back(record_of(2));
  EXPECT_EQ(table.members(kGroup)->members.size(), 2u);
}

TEST(GroupTable, AnEmptyListDoesNotLast) {
  MembersResolver resolver;
  GroupTable table(resolver, kHour, kHour);
  EXPECT_TRUE(table.members(kGroup)->members.empty());
  resolver.records = {record_of(1)};
  const Deadline deadline = Deadline::after(10'000'000'000);
  while (table.members(kGroup)->members.empty()) ASSERT_FALSE(deadline.expired());
}

TEST(GroupTable, ARegistrationsEntryOutlivesTheList) {
  MembersResolver resolver;
  resolver.records = {record_of(1), record_of(2)};
  GroupTable table(resolver, 0, kHour);
  const auto former = table.members(kGroup);
  resolver.records = {record_of(1), record_of(2, 5)};
  const auto list = table.members(kGroup);
  EXPECT_EQ(list->members[0], former->members[0]);
  EXPECT_NE(list->members[1], former->members[1]) << "another incarnation is somebody else";
}

TEST(GroupTable, AResolverThatFailsIsNoNews) {
  MembersResolver resolver;
  resolver.failure = Status(RIPC_NO_DESCRIPTORS);
  GroupTable table(resolver, 0, kHour);
  EXPECT_EQ(table.members(kGroup)->failure.code(), RIPC_NO_DESCRIPTORS);
  resolver.failure = Status();
  resolver.records = {record_of(1)};
  EXPECT_EQ(table.members(kGroup)->members.size(), 1u);
  resolver.failure = Status(RIPC_NO_DESCRIPTORS);
  resolver.records.clear();
  EXPECT_EQ(table.members(kGroup)->members.size(), 1u);
}

TEST(GroupTable, NewcomersDoNotDriveOutThoseThatAreThere) {
  MembersResolver resolver;
  for (ripc_service_id id = 1; id <= GroupTable::kMaxMembers + 3; ++id)
    resolver.records.push_back(record_of(id, 1'000'000 - id));
  GroupTable table(resolver, kHour, kHour);
  const auto list = table.members(kGroup);
  EXPECT_EQ(list->members.size(), GroupTable::kMaxMembers);
  EXPECT_EQ(list->left_out, 3u);
  for (const auto& member : list->members) EXPECT_GT(member->record().id, 3u) << "the smallest IDs came last";
}

TEST(GroupTable, ForgetsTheGroupUsedLongestAgo) {
  MembersResolver resolver;
  resolver.records = {record_of(1)};
  GroupTable table(resolver, kHour, kHour);
  for (ripc_service_id number = 0; number < GroupTable::kMaxRemembered; ++number)
    (void)table.members(RIPC_GROUP_ID(number));
  (void)table.members(RIPC_GROUP_ID(0));
  const int asked = resolver.asked;
  (void)table.members(RIPC_GROUP_ID(GroupTable::kMaxRemembered));
  (void)table.members(RIPC_GROUP_ID(0));
  EXPECT_EQ(resolver.asked, asked + 1);
  (void)table.members(RIPC_GROUP_ID(1));
  EXPECT_EQ(resolver.asked, asked + 2);
}

TEST(GroupMember, IsLeftAloneForLongerAfterEachFailure) {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  GroupMember member(record_of(1));
  EXPECT_TRUE(member.may_try(0));
  Nanoseconds now = 1000 * kSecond;
  for (const unsigned pause : {1U, 2U, 4U, 8U, 16U, 32U, 60U, 60U}) {
    member.failed(now);
    EXPECT_FALSE(member.may_try(now + pause * kSecond - 1));
    EXPECT_TRUE(member.may_try(now + pause * kSecond));
    now += 100 * kSecond;
  }
  member.succeeded();
  member.failed(now);
  EXPECT_TRUE(member.may_try(now + kSecond));
}

}  // namespace
}  // namespace ripc::internal::core
