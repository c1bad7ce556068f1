// SPDX-License-Identifier: Apache-2.0
#include "security/trust.hpp"

#include <gtest/gtest.h>

#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::security {
namespace {

ripc_service_id id_of(std::string_view name) { return core::service_id_from_name(name); }
constexpr ripc_service_id kSomeRandomId = (ripc_service_id{3} << 62) + 5;

bool holds_name(const Trust& trust, std::string_view member, std::string_view name) {
  return trust.may_hold(*trust.member_named(member), name, id_of(name));
}
bool may_call(const Trust& trust, std::string_view member, std::string_view name) {
  return trust.may_call(*trust.member_named(member), name, id_of(name));
}

std::string trust_refusal(const std::string& text, ripc_status code = RIPC_INVALID_ARGUMENT) {
  const auto trust = Trust::parse(text, "TRUST", reading());
  EXPECT_EQ(trust.status().code(), code) << text;
  return std::string(trust.status().text());
}

#define EXPECT_SAYS(text, what) EXPECT_NE(trust_refusal(text).find(what), std::string::npos) << trust_refusal(text)

TEST(Trust, MembersAreFoundByKeyNameExchangeKeyAndUser) {
  const auto trust = trust_of("# people\n\nalice " + key_of(1) + " user=1000\r\nbob\t" + key_of(2) + "\n");
  ASSERT_EQ(trust->members().size(), 2U);
  const Trust::Member* alice = trust->member(identity_of(1)->public_key());
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->name, "alice");
  EXPECT_EQ(trust->member_named("alice"), alice);
  EXPECT_EQ(trust->member_with(alice->exchange), alice);
  EXPECT_EQ(trust->member_of(1000), alice);
  EXPECT_EQ(trust->member_of(0), nullptr);
  EXPECT_EQ(trust->member(identity_of(3)->public_key()), nullptr);
  EXPECT_EQ(trust->member_named("carol"), nullptr);
}

TEST(Trust, TheMostExactEntryDecidesWhoHoldsAName) {
  const auto trust = trust_of("any " + key_of(1) + " holds=*\nshop " + key_of(2) + " holds=shop.*\nbank " + key_of(3) +
                              " holds=bank,shop.till\nnone " + key_of(4) + "\n");
  EXPECT_TRUE(holds_name(*trust, "any", "news"));
  EXPECT_FALSE(holds_name(*trust, "any", "bank"));
  EXPECT_FALSE(holds_name(*trust, "any", "shop.x"));
  EXPECT_TRUE(holds_name(*trust, "shop", "shop.x"));
  EXPECT_FALSE(holds_name(*trust, "shop", "shop.till"));
  EXPECT_TRUE(holds_name(*trust, "bank", "shop.till"));
  EXPECT_TRUE(holds_name(*trust, "bank", "bank"));
  EXPECT_FALSE(holds_name(*trust, "bank", "banks"));
  EXPECT_FALSE(holds_name(*trust, "none", "news"));
}

TEST(Trust, MembersWithTheSameEntryShareTheName) {
  const auto trust = trust_of("a " + key_of(1) + " holds=bank\nb " + key_of(2) + " holds=bank\n");
  EXPECT_TRUE(holds_name(*trust, "a", "bank"));
  EXPECT_TRUE(holds_name(*trust, "b", "bank"));
}

TEST(Trust, AnIdWithoutANameIsTheMembersThatTheFileGivesItTo) {
  const auto trust =
      trust_of("a " + key_of(1) + " holds=0x2a,0xc000000000000007\nb " + key_of(2) + " holds=*\nc " + key_of(3) + "\n");
  const Trust::Member& a = *trust->member_named("a");
  const Trust::Member& b = *trust->member_named("b");
  const Trust::Member& c = *trust->member_named("c");
  EXPECT_TRUE(trust->may_hold(a, "", 0x2a));
  EXPECT_FALSE(trust->may_hold(b, "", 0x2a));
  EXPECT_FALSE(trust->may_hold(c, "", 0x2a));
  EXPECT_FALSE(trust->may_hold(a, "", 0x2b));
  EXPECT_TRUE(trust->may_hold(b, "", 0x2b));
  // Anyone may hold an ID that was made at random, until the file gives it to someone.
  EXPECT_TRUE(trust->may_hold(c, "", kSomeRandomId));
  EXPECT_FALSE(trust->is_given(c, "", kSomeRandomId));
  EXPECT_FALSE(trust->may_hold(c, "", 0xc000000000000007));
  EXPECT_TRUE(trust->is_given(a, "", 0xc000000000000007));
}

TEST(Trust, AGivenNameIsRefusedToOthersUnderAnyId) {
  const auto trust = trust_of("a " + key_of(1) + " holds=bank\nb " + key_of(2) + " holds=0x2a\n");
  EXPECT_FALSE(trust->may_hold(*trust->member_named("b"), "bank", 0x2a));
  EXPECT_FALSE(trust->may_hold(*trust->member_named("b"), "bank", kSomeRandomId));
  EXPECT_FALSE(trust->may_hold(*trust->member_named("b"), "", id_of("bank")));
  EXPECT_TRUE(trust->may_hold(*trust->member_named("a"), "bank", kSomeRandomId));
}

TEST(Trust, AnIdIsClaimedWithoutItsNameOnlyByWhomItIsGivenTo) {
  const auto trust =
      trust_of("a " + key_of(1) + " holds=bank,0x2a\nb " + key_of(2) + " holds=*\nc " + key_of(3) + "\n");
  const Trust::Member* a = trust->member_named("a");
  const Trust::Member* b = trust->member_named("b");
  const Trust::Member* c = trust->member_named("c");
  for (const ripc_service_id given : {id_of("bank"), ripc_service_id{0x2a}}) {
    EXPECT_TRUE(trust->may_claim(a, given));
    EXPECT_FALSE(trust->may_claim(b, given));
    EXPECT_FALSE(trust->may_claim(nullptr, given));
  }
  EXPECT_TRUE(trust->may_claim(b, id_of("news")));
  EXPECT_FALSE(trust->may_claim(c, id_of("news")));
  EXPECT_TRUE(trust->may_claim(nullptr, kSomeRandomId));
  EXPECT_FALSE(trust->may_claim(a, core::group_id_from_name("prices")));
}

TEST(Trust, GroupsAreThoseOfTheirNames) {
  const auto trust = trust_of("a " + key_of(1) + " joins=prices,0x4000000000000001\nb " + key_of(2) + " joins=*\nc " +
                              key_of(3) + "\n");
  const ripc_service_id prices = core::group_id_from_name("prices");
  EXPECT_TRUE(trust->may_join(*trust->member_named("a"), prices));
  EXPECT_TRUE(trust->may_join(*trust->member_named("a"), 0x4000000000000001));
  EXPECT_FALSE(trust->may_join(*trust->member_named("a"), core::group_id_from_name("news")));
  EXPECT_TRUE(trust->may_join(*trust->member_named("b"), prices));
  EXPECT_FALSE(trust->may_join(*trust->member_named("b"), id_of("prices")));
  EXPECT_FALSE(trust->may_join(*trust->member_named("c"), prices));
}

TEST(Trust, CallsAreFreeUnlessTheyAreListed) {
  const auto trust = trust_of("free " + key_of(1) + "\nsome " + key_of(2) + " calls=bank,shop.*,0x2a\nnone " +
                              key_of(3) + " calls=\n");
  EXPECT_TRUE(may_call(*trust, "free", "bank"));
  EXPECT_TRUE(may_call(*trust, "some", "bank"));
  EXPECT_TRUE(may_call(*trust, "some", "shop.x"));
  EXPECT_FALSE(may_call(*trust, "some", "banks"));
  EXPECT_TRUE(trust->may_call(*trust->member_named("some"), "", 0x2a));
  // The label of another ID opens nothing.
  EXPECT_FALSE(trust->may_call(*trust->member_named("some"), "bank", 0x2b));
  EXPECT_FALSE(may_call(*trust, "none", "bank"));
  EXPECT_TRUE(trust->may_call(*trust->member_named("none"), "", kSomeRandomId));
}

TEST(Trust, SpecialCharactersOfNamesAreEscaped) {
  const auto trust = trust_of("a " + key_of(1) + " holds=my%20shop%2c%2A,%30x2a\n");
  EXPECT_TRUE(holds_name(*trust, "a", "my shop,*"));
  EXPECT_TRUE(holds_name(*trust, "a", "0x2a"));
}

TEST(Trust, BadLinesAreRefusedWithFileLineAndWhatToWrite) {
  const std::string a = "a " + key_of(1);
  EXPECT_SAYS("#\n" + a + " holds=x,\n", "TRUST, line 2");
  EXPECT_SAYS("a/b " + key_of(1) + "\n", "member's name");
  EXPECT_SAYS(std::string(65, 'a') + " " + key_of(1) + "\n", "member's name");
  EXPECT_SAYS("a\n", "public key");
  EXPECT_SAYS("a " + key_of(1) + "0\n", "public key");
  EXPECT_SAYS("a ed25519:" + std::string(64, '0') + "\n", "no public key");
  EXPECT_SAYS(a + " hold=x\n", "holds=, joins=, calls= or user=");
  EXPECT_SAYS(a + " holds\n", "holds=, joins=, calls= or user=");
  EXPECT_SAYS(a + " holds=x holds=y\n", "twice");
  EXPECT_SAYS(a + " holds=x*y\n", "only at its end");
  EXPECT_SAYS(a + " holds=x,,y\n", "no name");
  EXPECT_SAYS(a + " holds=%2\n", "%HH");
  EXPECT_SAYS(a + " holds=%0a\n", "control characters");
  EXPECT_SAYS(a + " holds=a%2fb\n", "without '/'");
  EXPECT_SAYS(a + " holds=0x\n", "no ID");
  EXPECT_SAYS(a + " holds=0x4000000000000001\n", "joins=");
  EXPECT_SAYS(a + " holds=0x8000000000000001\n", "write the name");
  EXPECT_SAYS(a + " joins=0x2a\n", "not the ID of a group");
  EXPECT_SAYS(a + " joins=x*\n", "whole name");
  EXPECT_SAYS(a + " user=bob\n", "id -u");
  EXPECT_SAYS(a + " user=4294967295\n", "id -u");
  EXPECT_SAYS(a + " user=-1\n", "id -u");
  EXPECT_SAYS(a + "\na " + key_of(2) + "\n", "line 1");
  EXPECT_SAYS(a + "\nb " + key_of(1) + "\n", "line 1");
  EXPECT_SAYS(a + " user=7\nb " + key_of(2) + " user=7\n", "line 1");
  EXPECT_SAYS(a, "cut off");
  EXPECT_SAYS(std::string("a\0b", 3) + "\n", "member's name");
  EXPECT_SAYS(std::string(Trust::kMaxFileSize, '#') + "\n", "1 MiB");
}

TEST(Trust, ALineThatIsToComeIsCheckedWithoutNamingAFile) {
  EXPECT_TRUE(Trust::check_member("a", key_of(1) + " holds=bank", reading(identity_of(9)->public_key())).ok());
  const auto says = [](std::string_view name, const std::string& rest, std::string_view what) {
    const Status status = Trust::check_member(name, rest, reading());
    EXPECT_EQ(status.code(), RIPC_INVALID_ARGUMENT);
    EXPECT_NE(status.text().find(what), std::string_view::npos) << status.text();
    EXPECT_EQ(status.text().find("line"), std::string_view::npos) << status.text();
  };
  says("a b", key_of(1), "'a b' is no member's name");
  says("", key_of(1), "is no member's name");
  says("#a", key_of(1), "is no member's name");
  says("a", "key", "'key'");
  says("a", "", "public key");
  says("a", key_of(1) + " user=x", "'x' is no user's number");
}

TEST(Trust, ASignatureIsTheLastLineAndOfEverythingAboveIt) {
  const std::string text = "a " + key_of(1) + " holds=bank\n";
  const std::string made = Trust::signed_text(text, *identity_of(9));
  const auto signer = identity_of(9)->public_key();
  ASSERT_TRUE(Trust::parse(made, "TRUST", reading(signer)).ok());
  EXPECT_TRUE((*Trust::parse(made, "TRUST", reading(signer)))->is_signed());
  EXPECT_EQ(Trust::unsigned_part(made), text);
  EXPECT_EQ(Trust::signed_text(made, *identity_of(9)), made);
  // Another signer, a changed text, no signature, and a line after the signature.
  EXPECT_EQ(Trust::parse(made, "TRUST", reading(identity_of(8)->public_key())).status().code(), RIPC_REFUSED);
  std::string changed = made;
  changed[changed.find("bank")] = 'r';
  EXPECT_EQ(Trust::parse(changed, "TRUST", reading(signer)).status().code(), RIPC_REFUSED);
  const auto bare = Trust::parse(text, "TRUST", reading(signer));
  EXPECT_EQ(bare.status().code(), RIPC_REFUSED);
  EXPECT_NE(bare.status().text().find("ripc trust sign"), std::string_view::npos);
  EXPECT_EQ(Trust::parse(made + "b " + key_of(2) + "\n", "TRUST", reading(signer)).status().code(), RIPC_REFUSED);
  EXPECT_SAYS(made + "b " + key_of(2) + "\n", "last line");
  EXPECT_SAYS(text + "signature x\n", "ripc trust sign");
  // Without a signer to compare it with, the signature says nothing.
  EXPECT_TRUE(Trust::parse(made, "TRUST", reading()).ok());
}

}  // namespace
}  // namespace ripc::internal::security
