// SPDX-License-Identifier: Apache-2.0
// Groups: who is a member. group_send_test.cpp tests what is sent to them.
#include "groups.hpp"

#include <algorithm>
#include <set>

namespace conformance {
namespace {

class Groups : public GroupTest {};
CONFORMANCE_SUITE(Groups);

// ---- IDs ---------------------------------------------------------------------------------------------------------

TEST_P(Groups, IdsAreOfAKindOfTheirOwn) {
  ripc_service_id group = 0;
  ripc_service_id again = 0;
  ripc_service_id service = 0;
  ASSERT_EQ(ripc_group_id_from_name("caches", &group), RIPC_OK);
  ASSERT_EQ(ripc_group_id_from_name("caches", &again), RIPC_OK);
  ASSERT_EQ(ripc_id_from_name("caches", &service), RIPC_OK);
  EXPECT_EQ(group, again);
  EXPECT_NE(group, service);
  EXPECT_EQ(group >> 61, 3u) << "a name";
  EXPECT_EQ(RIPC_GROUP_ID(7) >> 61, 2u) << "a number";
  EXPECT_EQ(RIPC_GROUP_ID(RIPC_GROUP_NUMBER_MAX) >> 61, 2u);
  EXPECT_EQ(ripc_group_id_from_name("no/name", &group), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_id_from_name(nullptr, &group), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_id_from_name("caches", nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_P(Groups, AGroupIsNoServiceAndAServiceNoGroup) {
  ripc_service_options options = initialized(ripc_service_options_init);
  options.id = group_;
  ripc_service* service = nullptr;
  EXPECT_EQ(ripc_service_register(client_context_.get(), &options, &service), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ripc_last_error()).find("is the ID of a group"), std::string::npos) << ripc_last_error();
  ripc_service_info info = initialized(ripc_service_info_init);
  EXPECT_EQ(ripc_resolve(client_context_.get(), group_, &info), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_find_path(client_context_.get(), group_, &info), RIPC_INVALID_ARGUMENT);
  ripc_notification notification{group_, 1};
  EXPECT_EQ(ripc_notify(client_.get(), &notification, nullptr, 0), RIPC_INVALID_ARGUMENT);

  EXPECT_EQ(ripc_group_join(server_.get(), server_id()), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_join(server_.get(), 7), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_join(server_.get(), 0), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_leave(server_.get(), server_id()), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_join(nullptr, group_), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_leave(nullptr, group_), RIPC_INVALID_ARGUMENT);
  const auto nobody = [](void*, const ripc_service_info*) {};
  EXPECT_EQ(ripc_group_members(client_context_.get(), server_id(), nobody, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_members(client_context_.get(), group_, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_group_members(nullptr, group_, nobody, nullptr), RIPC_INVALID_ARGUMENT);
}

// ---- Membership --------------------------------------------------------------------------------------------------

TEST_P(Groups, MembersAreThoseThatJoinedAndDidNotLeave) {
  EXPECT_TRUE(members_of(client_context_, group_).empty());
  const Service second = make_service(server_context_);
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK) << ripc_last_error();
  ASSERT_EQ(ripc_group_join(second.get(), group_), RIPC_OK) << ripc_last_error();
  EXPECT_TRUE(eventually([&] { return members_of(client_context_, group_) == std::set{server_id(), id_of(second)}; }));
  ASSERT_EQ(ripc_group_leave(server_.get(), group_), RIPC_OK) << ripc_last_error();
  EXPECT_TRUE(eventually([&] { return members_of(client_context_, group_) == std::set{id_of(second)}; }));
}

TEST_P(Groups, JoiningTwiceAndLeavingWithoutJoiningChangeNothing) {
  EXPECT_EQ(ripc_group_leave(server_.get(), group_), RIPC_OK);
  EXPECT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  EXPECT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  ASSERT_EQ(send_to_group("once").taken, 1u);
  EXPECT_EQ(text_of(receive(server_)), "once");
  expect_nothing_more(server_);
  EXPECT_EQ(ripc_group_leave(server_.get(), group_), RIPC_OK) << "one leave ends what two joins began";
  EXPECT_TRUE(sees_members(0));
}

TEST_P(Groups, AServiceIsInUpTo64Groups) {
  std::vector<ripc_service_id> groups;
  for (int count = 0; count < RIPC_MAX_GROUPS; ++count) {
    groups.push_back(fresh_group());
    ASSERT_EQ(ripc_group_join(server_.get(), groups.back()), RIPC_OK) << ripc_last_error();
  }
  EXPECT_EQ(ripc_group_join(server_.get(), group_), RIPC_LIMIT);
  EXPECT_EQ(ripc_group_join(server_.get(), groups.front()), RIPC_OK) << "it is in that one";
  ripc_service_info info = initialized(ripc_service_info_init);
  ASSERT_EQ(ripc_resolve(server_context_.get(), server_id(), &info), RIPC_OK);
  std::sort(groups.begin(), groups.end());
  EXPECT_EQ(std::vector(info.groups, info.groups + info.group_count), groups);
  ASSERT_EQ(ripc_group_leave(server_.get(), groups.front()), RIPC_OK);
  EXPECT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
}

TEST_P(Groups, MembershipEndsWithTheService) {
  Service second = make_service(server_context_);
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_EQ(ripc_group_join(second.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  second.reset();
  ASSERT_TRUE(sees_members(1));
  EXPECT_EQ(send_to_group("to the one").status, RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "to the one");
}

TEST_P(Groups, AServiceThatIsRegisteredAnewIsAMemberWhenItJoinsAnew) {
  constexpr ripc_service_id kFixed = 4242;
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  Service fixed = make_service(server_context_, kFixed);
  ASSERT_EQ(ripc_group_join(fixed.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  fixed.reset();
  fixed = make_service(server_context_, kFixed);
  ASSERT_TRUE(sees_members(1));
  expect_nothing_more(fixed);
  ASSERT_EQ(ripc_group_join(fixed.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  ASSERT_EQ(send_to_group("to the new one").taken, 2u);
  EXPECT_EQ(text_of(receive(fixed)), "to the new one");
}

TEST_P(Groups, ATakenOverServiceIsNoMemberAnyMore) {
  constexpr ripc_service_id kFixed = 4343;
  const Service former = make_service(server_context_, kFixed);
  ASSERT_EQ(ripc_group_join(former.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  const Context other = make_context();
  const Service heir = make_service(other, [](ripc_service_options& options) {
    options.id = kFixed;
    options.takeover = 1;
  });
  ASSERT_TRUE(sees_members(0));
  EXPECT_EQ(send_to_group("to nobody").status, RIPC_NO_SERVICE);
  EXPECT_TRUE(eventually([&] { return ripc_group_join(former.get(), fresh_group()) == RIPC_FENCED; }));
  expect_nothing_more(heir);
}

}  // namespace
}  // namespace conformance
