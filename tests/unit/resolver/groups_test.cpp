// SPDX-License-Identifier: Apache-2.0
// Groups in the resolvers of one host: records, the runtime directory, the file of known services.
#include <sys/stat.h>

#include "core/service_id.hpp"
#include "resolver/local/directory_lookup.hpp"
#include "resolver/local/service_record.hpp"
#include "resolver/static/static_resolver.hpp"
#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

using test::TemporaryDirectory;

constexpr ripc_service_id kListedGroup = RIPC_GROUP_ID(7);
constexpr ripc_service_id kOther = RIPC_GROUP_ID(8);

std::vector<ServiceRecord> members(spi::Resolver& resolver, ripc_service_id group) {
  std::vector<ServiceRecord> found;
  const Status status = resolver.members(group, Deadline::after(10'000'000'000),
                                         [&](const ServiceRecord& record) { found.push_back(record); });
  EXPECT_TRUE(status.ok()) << status.text();
  std::sort(found.begin(), found.end(), [](const auto& one, const auto& other) { return one.id < other.id; });
  return found;
}

// ---- Records -------------------------------------------------------------------------------------------------

TEST(GroupIds, AreAKindOfTheirOwnInAscendingLists) {
  EXPECT_TRUE(is_group(RIPC_GROUP_ID(0)));
  EXPECT_TRUE(is_group(RIPC_GROUP_ID(RIPC_GROUP_NUMBER_MAX)));
  EXPECT_TRUE(is_group(core::group_id_from_name("caches")));
  for (const ripc_service_id id : {ripc_service_id{1}, ripc_service_id{RIPC_WELL_KNOWN_MAX},
                                   core::service_id_from_name("caches"), core::random_service_id()})
    EXPECT_FALSE(is_group(id));
  EXPECT_TRUE(is_group_list({}));
  EXPECT_TRUE(is_group_list(std::vector{kListedGroup, kOther}));
  EXPECT_FALSE(is_group_list(std::vector{kOther, kListedGroup}));
  EXPECT_FALSE(is_group_list(std::vector{kListedGroup, kListedGroup}));
  EXPECT_FALSE(is_group_list(std::vector{ripc_service_id{7}}));
  std::vector<ripc_service_id> many;
  for (ripc_service_id number = 0; number <= RIPC_MAX_GROUPS; ++number) many.push_back(RIPC_GROUP_ID(number));
  EXPECT_FALSE(is_group_list(many));
  many.pop_back();
  EXPECT_TRUE(is_group_list(many));
}

TEST(GroupRecord, WithGroupsHasAnotherFormatThanWithout) {
  ServiceRecord record;
  record.id = 1000;
  record.context = 5;
  record.incarnation = 6;
  record.addresses = {{"shm", "#5"}};
  const Result<std::string> without = encode_service_record(record);
  ASSERT_TRUE(without.ok());
  EXPECT_NE(without->find("{\"format\":1,"), std::string::npos);
  record.groups = {kListedGroup, kOther};
  const Result<std::string> with = encode_service_record(record);
  ASSERT_TRUE(with.ok());
  EXPECT_NE(with->find("{\"format\":2,"), std::string::npos);
  const Result<ServiceRecord> read = decode_service_record(*with, 1000);
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(*read, record);
  std::string wrong_format = *with;
  wrong_format.replace(0, 12, "{\"format\":1,");
  EXPECT_EQ(decode_service_record(wrong_format, 1000).status().code(), RIPC_CORRUPT);
}

TEST(GroupRecord, InvalidGroupsAreRefused) {
  ServiceRecord record;
  record.id = 1000;
  record.context = 5;
  record.groups = {1000};
  EXPECT_EQ(encode_service_record(record).status().code(), RIPC_INVALID_ARGUMENT);
  record.groups = {};
  record.id = kListedGroup;
  EXPECT_EQ(encode_service_record(record).status().code(), RIPC_INVALID_ARGUMENT);
  record.id = 1000;
  record.groups = {kListedGroup};
  const Result<std::string> good = encode_service_record(record);
  ASSERT_TRUE(good.ok()) << good.status().text();
  constexpr std::string_view kList = R"(["4000000000000007"])";
  for (const char* groups : {"7", "[7]", R"(["07"])", R"(["0000000000000007"])", R"("4000000000000007")",
                             R"(["4000000000000008","4000000000000007"])"}) {
    std::string text = *good;
    ASSERT_NE(text.find(kList), std::string::npos) << text;
    text.replace(text.find(kList), kList.size(), groups);
    const Status status = decode_service_record(text, 1000).status();
    EXPECT_EQ(status.code(), RIPC_CORRUPT) << groups;
    EXPECT_FALSE(mentions(status, "check sum")) << groups << ": the check sum alone shows it";
  }
}

// ---- Local ---------------------------------------------------------------------------------------------------

class LocalGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(one_);
    ASSERT_TRUE(two_);
  }
  // Publishes a service of the context and makes it a member of the groups.
  static ServiceRecord member(LocalContext& context, ripc_service_id id, std::vector<ripc_service_id> groups) {
    EXPECT_TRUE(context.publish(id).ok());
    ServiceRecord record = context.last;
    record.groups = std::move(groups);
    const Status status = context->update(record);
    EXPECT_TRUE(status.ok()) << status.text();
    return record;
  }
  // Makes the directory look unchanged for a long time, so that the resolver remembers what it reads from now on.
  void settle() {
    const timespec past[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (directory_.path() + "/services").c_str(), past, 0), 0);
  }

  const TemporaryDirectory directory_;
  LocalContext one_{directory_.path()};
  LocalContext two_{directory_.path()};
};

TEST_F(LocalGroups, MembersAreTheLivingServicesThatSaySo) {
  const ServiceRecord first = member(one_, 1000, {kListedGroup});
  const ServiceRecord second = member(two_, 1001, {kListedGroup, kOther});
  ASSERT_TRUE(two_.publish(1002).ok());
  for (LocalContext* context : {&one_, &two_}) {
    EXPECT_EQ(members(**context, kListedGroup), (std::vector{first, second}));
    EXPECT_EQ(members(**context, kOther), (std::vector{second}));
    EXPECT_TRUE(members(**context, RIPC_GROUP_ID(9)).empty());
  }
  EXPECT_EQ(*one_.resolve(1001), second) << "the addresses and all else stay";
}

TEST_F(LocalGroups, LeavingWithdrawingAndDyingEndMembership) {
  ServiceRecord first = member(one_, 1000, {kListedGroup});
  const ServiceRecord second = member(one_, 1001, {kListedGroup});
  const ServiceRecord third = member(two_, 1002, {kListedGroup});
  first.groups.clear();
  ASSERT_TRUE(one_->update(first).ok());
  EXPECT_EQ(members(*two_, kListedGroup), (std::vector{second, third}));
  one_->withdraw(second);
  EXPECT_EQ(members(*two_, kListedGroup), (std::vector{third}));
  two_.die();
  EXPECT_TRUE(members(*one_, kListedGroup).empty());
  EXPECT_EQ(test::names_in(directory_.path() + "/services").size(), 1u) << "the record of the dead is removed";
}

TEST_F(LocalGroups, TakeoverEndsMembership) {
  const ServiceRecord former = member(one_, 1000, {kListedGroup});
  ASSERT_TRUE(two_.publish(1000, "", true).ok());
  EXPECT_TRUE(members(*one_, kListedGroup).empty());
  EXPECT_EQ(one_->update(former).code(), RIPC_FENCED);
  EXPECT_TRUE(members(*one_, kListedGroup).empty());
}

TEST_F(LocalGroups, OnlyARegistrationThatIsThereIsUpdated) {
  ServiceRecord record = one_.record(1000);
  record.incarnation = 5;
  EXPECT_EQ(one_->update(record).code(), RIPC_FENCED);
  ASSERT_TRUE(one_.publish(1000).ok());
  EXPECT_EQ(one_->update(record).code(), RIPC_FENCED) << "another incarnation";
}

TEST_F(LocalGroups, RememberedMembersNeverOutliveAChangeOrADeath) {
  ServiceRecord first = member(one_, 1000, {kListedGroup});
  settle();
  for (int round = 0; round < 2; ++round) EXPECT_EQ(members(*two_, kListedGroup), (std::vector{first}));
  const ServiceRecord second = member(one_, 1001, {kListedGroup});
  EXPECT_EQ(members(*two_, kListedGroup), (std::vector{first, second}));
  settle();
  for (int round = 0; round < 2; ++round) EXPECT_EQ(members(*two_, kListedGroup), (std::vector{first, second}));
  one_.die();
  EXPECT_TRUE(members(*two_, kListedGroup).empty()) << "the directory has not changed, but nobody lives";
}

TEST_F(LocalGroups, WhileNothingChangesNoRecordIsRead) {
  const ServiceRecord first = member(one_, 1000, {kListedGroup});
  settle();
  EXPECT_EQ(members(*two_, kListedGroup), (std::vector{first}));
  // Writes in place, which does not change the directory's time. Only this test does that.
  ServiceRecord changed = first;
  changed.groups = {kOther};
  test::write_file(directory_.path() + "/services/00000000000003e8", *encode_service_record(changed));
  EXPECT_EQ(members(*two_, kListedGroup), (std::vector{first}));
  settle();
  member(one_, 1001, {});
  EXPECT_TRUE(members(*two_, kListedGroup).empty()) << "a change makes it read again";
}

// ---- The file of known services ------------------------------------------------------------------------------

Result<ripc_service_id> real_hash(std::string_view name) { return core::service_id_from_name(name); }
TEST(StaticGroups, WordsOfALineMakeItsServiceAMember) {
  const Result<std::vector<ServiceRecord>> records = parse_static_file(
      "a socket:h:1 group:caches group:7\n"
      "b group:0x7 group:7 socket:h:2  # once is enough\n"
      "c socket:h:3\n",
      "FILE", real_hash, core::id_of_group, test::any_address);
  ASSERT_TRUE(records.ok()) << records.status().text();
  EXPECT_EQ((*records)[0].groups, (std::vector{kListedGroup, core::group_id_from_name("caches")}));
  EXPECT_EQ((*records)[1].groups, (std::vector{kListedGroup}));
  EXPECT_EQ((*records)[1].addresses.size(), 1u);
  EXPECT_TRUE((*records)[2].groups.empty());
}

TEST(StaticGroups, MistakesNameFileAndLine) {
  std::string many = "a socket:h:1";
  for (int number = 0; number <= RIPC_MAX_GROUPS; ++number) many += " group:" + std::to_string(number + 1);
  const std::pair<std::string, const char*> lines[] = {
      {"a socket:h:1 group:", "not the name of a group"},
      {"a socket:h:1 group:no/name", "not the name of a group"},
      {"a socket:h:1 group:9223372036854775808", "not the number of a group"},
      {"a socket:h:1 group:7x", "not the number of a group"},
      {"a group:7", "no address"},
      {"0x4000000000000007 socket:h:1", "is a group"},
      {many, "more than 64 groups"},
  };
  for (const auto& [line, fault] : lines) {
    const Status status =
        parse_static_file("\n" + line + "\n", "FILE", real_hash, core::id_of_group, test::any_address).status();
    EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT) << line;
    EXPECT_TRUE(mentions(status, "FILE, line 2") && mentions(status, fault)) << status.text();
  }
}

TEST(StaticGroups, MembersAreFoundByTheGroupAndByWhereTheyRegister) {
  const TemporaryDirectory directory;
  LocalContext context(directory.path());
  ASSERT_TRUE(context);
  ASSERT_TRUE(context.publish(1000).ok());
  const std::string file = directory.path() + "/known";
  test::write_file(file, "1000 shm:" + directory.path() + " group:7\n1001 shm:" + directory.path() +
                             " group:7\n1002 socket:10.0.0.7:7000 group:8\n");
  StaticResolver unresolved(file, real_hash, core::id_of_group, test::any_address, test::as_written);
  EXPECT_EQ(members(unresolved, kListedGroup).size(), 2u);
  ServiceRecord unpublishable = context.last;
  EXPECT_TRUE(unresolved.update(unpublishable).ok());
  DirectoryLookup lookup(RIPC_PEERS_SAME_USER);
  StaticResolver resolver(
      file, real_hash, core::id_of_group, test::any_address,
      [&](ServiceRecord record, Deadline deadline) { return lookup.find(std::move(record), deadline); });
  const std::vector<ServiceRecord> found = members(resolver, kListedGroup);
  ASSERT_EQ(found.size(), 1u) << "1001 has no living holder there";
  EXPECT_EQ(found[0].incarnation, context.last.incarnation);
  EXPECT_EQ(members(resolver, kOther).size(), 1u);
}

}  // namespace
}  // namespace ripc::internal::resolver
