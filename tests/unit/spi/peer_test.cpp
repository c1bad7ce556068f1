// SPDX-License-Identifier: Apache-2.0
#include "spi/peer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::spi {
namespace {

using security::key_of;

PeerTable table_of(const std::string& text) {
  security::Credentials credentials;
  if (!text.empty()) credentials.trust = std::make_shared<security::TrustFile>(security::trust_of(text));
  return PeerTable(credentials);
}

TEST(PeerTable, TheSamePeerHasTheSameEntry) {
  PeerTable table = table_of("");
  const Peer* alice = table.enter({.identity = "alice", .user = {}});
  EXPECT_EQ(table.enter({.identity = "alice", .user = {}}), alice);
  EXPECT_NE(table.enter({.identity = "alice", .user = 7}), alice);
  EXPECT_NE(table.enter({.identity = "", .user = 7}), table.enter({.identity = "", .user = 0}));
}

TEST(PeerTable, AUserThatTheFileNamesIsThatMemberUnlessAKeyHasProvenAnother) {
  PeerTable table = table_of("alice " + key_of(1) + " user=7\nbob " + key_of(2) + "\n");
  EXPECT_EQ(table.enter({.identity = "", .user = 7})->identity, "alice");
  EXPECT_EQ(table.enter({.identity = "", .user = 8})->identity, "");
  EXPECT_EQ(table.enter({.identity = "", .user = {}})->identity, "");
  EXPECT_EQ(table.enter({.identity = "bob", .user = 7})->identity, "bob");
}

TEST(PeerTable, AnIdentityIsThatOfTheKeyAndWithoutOneOfTheUser) {
  const PeerTable table = table_of("alice " + key_of(1) + " user=7\nbob " + key_of(2) + "\n");
  const std::shared_ptr<const security::Trust> trust =
      security::trust_of("alice " + key_of(1) + "\nbob " + key_of(2) + "\n");
  const security::ExchangeKey alice = trust->member_named("alice")->exchange;
  const security::ExchangeKey bob = trust->member_named("bob")->exchange;
  const security::ExchangeKey nobody{};
  EXPECT_TRUE(table.has_identity({.identity = "alice", .user = {}}, &alice));
  EXPECT_FALSE(table.has_identity({.identity = "alice", .user = {}}, &bob));
  EXPECT_FALSE(table.has_identity({.identity = "alice", .user = {}}, &nobody));
  EXPECT_TRUE(table.has_identity({.identity = "bob", .user = 7}, &bob));
  EXPECT_TRUE(table.has_identity({.identity = "alice", .user = 7}, &nobody));
  EXPECT_TRUE(table.has_identity({.identity = "alice", .user = 7}));
  EXPECT_FALSE(table.has_identity({.identity = "bob", .user = 7}));
  EXPECT_FALSE(table.has_identity({.identity = "", .user = 7}));
  EXPECT_TRUE(table.has_identity({.identity = "", .user = 8}));
  EXPECT_TRUE(table_of("").has_identity({.identity = "alice", .user = {}}, &bob));
}

TEST(PeerTable, AMemberCallsWhatTheFileLetsItAndAnyoneElseWhatThePeerPolicyLets) {
  const PeerTable table = table_of("alice " + key_of(1) + " calls=bank\n");
  const ripc_service_id bank = core::service_id_from_name("bank");
  const ripc_service_id till = core::service_id_from_name("till");
  const Peer alice{.identity = "alice", .user = {}};
  EXPECT_TRUE(table.may_call(alice, "bank", bank));
  EXPECT_FALSE(table.may_call(alice, "till", till));
  EXPECT_TRUE(table.may_call({.identity = "", .user = 7}, "till", till));
  EXPECT_FALSE(table.may_call({.identity = "removed", .user = {}}, "bank", bank)) << "it is no member any more";
  EXPECT_TRUE(table_of("").may_call(alice, "till", till));
}

TEST(PeerTable, NoOneClaimsAnIdThatTheFileGivesToOthers) {
  const PeerTable table = table_of("alice " + key_of(1) + " holds=bank\nbob " + key_of(2) + " holds=*\n");
  const ripc_service_id bank = core::service_id_from_name("bank");
  EXPECT_TRUE(table.may_claim({.identity = "alice", .user = {}}, bank));
  EXPECT_FALSE(table.may_claim({.identity = "bob", .user = {}}, bank));
  EXPECT_FALSE(table.may_claim({.identity = "", .user = 0}, bank));
  EXPECT_TRUE(table_of("").may_claim({.identity = "", .user = 0}, bank));
}

TEST(Links, OfOnePeerTakeHalfOfTheDescriptorsAtMost) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::size_t most = most_links();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(most, 5u);
  EXPECT_LE(most_links(), 4096u);
  EXPECT_EQ(too_many_links().code(), RIPC_LIMIT);
}

}  // namespace
}  // namespace ripc::internal::spi
