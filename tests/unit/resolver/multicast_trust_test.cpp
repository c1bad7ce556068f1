// SPDX-License-Identifier: Apache-2.0
// Members of one cluster that claim IDs and names of others, over multicast.
#include "multicast_helpers.hpp"
#include "trust_options.hpp"

namespace ripc::internal::test {
namespace {

const ripc_service_id kMulticastBank = *core::id_of_name("bank");
constexpr ripc_service_id kMulticastRandomId = (ripc_service_id{3} << 62) | 99;

MulticastOptions multicast_member(const MulticastOptions& shared, unsigned member) {
  MulticastOptions options = shared;
  options.credentials = member_credentials(shared.credentials.keys, member);
  return options;
}

class MulticastTrust : public MulticastTest {
 protected:
  spi::ServiceRecord claim(ripc_service_id id, const std::string& name, std::uint64_t incarnation = 0) const {
    spi::ServiceRecord record;
    record.id = id;
    record.name = name;
    record.incarnation = incarnation != 0 ? incarnation : realtime_now() + 1'000'000'000;
    record.context = 4711;
    record.addresses = {{"socket", "ctx=evil"}};
    return record;
  }
  // Announces the record as this member, without the checks of publish().
  void announce(unsigned member, const spi::ServiceRecord& record) {
    const security::Credentials credentials = member_credentials(shared_.credentials.keys, member);
    outsider_.send(outsider_.packet(outsider_.header(PacketType::announcement), {record}, spi::Seal(credentials)));
  }
  std::uint64_t not_permitted() { return victim_->counters().refusals.not_permitted; }

  const MulticastOptions shared_ = loopback_options(kKeyText);
  MulticastContext alice_{multicast_member(shared_, 1)};
  const MulticastOptions victim_options_ = multicast_member(shared_, 3);
  MulticastContext victim_{victim_options_};
  Outsider outsider_{shared_};
};

TEST_F(MulticastTrust, AMemberWithTheRightToANameIsFoundAndKnown) {
  alice_.publish(kMulticastBank, "bank");
  const Result<spi::ServiceRecord> found = victim_.resolve(kMulticastBank);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->context, alice_.id());
  EXPECT_EQ(found->member, "alice");
}

TEST_F(MulticastTrust, AMemberWithoutTheRightToANameHasNoEffect) {
  const spi::ServiceRecord own = alice_.publish(kMulticastBank, "bank");
  ASSERT_TRUE(victim_.resolve(kMulticastBank).ok());
  announce(2, claim(kMulticastBank, "bank"));
  announce(0, claim(kMulticastBank, "bank"));
  announce(4, claim(kMulticastBank, "bank"));
  EXPECT_TRUE(eventually([&] { return not_permitted() == 1 && victim_->counters().refusals.unproven == 2; }));
  EXPECT_EQ(security::Counters::read(victim_options_.credentials.counters->records_refused), 3U);
  EXPECT_EQ(victim_.look(kMulticastBank)->context, alice_.id());
  // The holder is not silenced either.
  EXPECT_TRUE(eventually([&] { return alice_->counters().refusals.not_permitted == 1; }));
  EXPECT_EQ(alice_->counters().conflicts, 0U);
  EXPECT_EQ(alice_->resolve(kMulticastBank, Deadline::after(0))->incarnation, own.incarnation);
}

TEST_F(MulticastTrust, TheIdOfAnotherMemberIsNotTakenOverEvenWithoutAName) {
  const spi::ServiceRecord own = alice_.publish(kMulticastRandomId);
  ASSERT_TRUE(victim_.resolve(kMulticastRandomId).ok());
  announce(2, claim(kMulticastRandomId, ""));
  EXPECT_TRUE(eventually([&] { return not_permitted() == 1; }));
  EXPECT_EQ(victim_.look(kMulticastRandomId)->context, alice_.id());
  EXPECT_TRUE(eventually([&] { return alice_->counters().refusals.not_permitted == 1; }));
  EXPECT_EQ(alice_->resolve(kMulticastRandomId, Deadline::after(0))->incarnation, own.incarnation);
}

// The context is in the header of each packet, and a member may write any there.
TEST_F(MulticastTrust, AMemberThatStatesTheContextOfAnotherOneNeitherTakesItsIdNorSilencesIt) {
  spi::ServiceRecord own = alice_.publish(kMulticastRandomId);
  ASSERT_TRUE(victim_.resolve(kMulticastRandomId).ok());
  PacketHeader header = outsider_.header(PacketType::announcement);
  header.context = alice_.id();
  header.timestamp += victim_options_.clock_tolerance / 2;
  const security::Credentials bob = member_credentials(shared_.credentials.keys, 2);
  for (std::size_t index = 0; index <= resolver::ReplayGuard::kRemembered; ++index, ++header.timestamp)
    outsider_.send(outsider_.packet(header, {claim(kMulticastRandomId, "", own.incarnation)}, spi::Seal(bob)));
  EXPECT_TRUE(eventually([&] { return not_permitted() > resolver::ReplayGuard::kRemembered; }));
  EXPECT_EQ(victim_.look(kMulticastRandomId)->addresses, own.addresses);
  own.addresses.front().locator += "0";
  ASSERT_TRUE(alice_->update(own).ok());
  EXPECT_TRUE(eventually([&] { return victim_.look(kMulticastRandomId)->addresses == own.addresses; }));
}

TEST_F(MulticastTrust, AMemberThatStatesTheContextOfAnotherOneLeavesTheOthersQuestionsTheirAnswers) {
  const security::Credentials bob = member_credentials(shared_.credentials.keys, 2);
  const security::PublicKey alice = security::identity_of(1)->public_key();
  PacketHeader header = outsider_.header(PacketType::question);
  header.nonce = 1;
  header.id = kMulticastRandomId + 1;
  header.context = alice_.id();
  header.timestamp += victim_options_.clock_tolerance / 2;
  for (std::size_t index = 0; index <= resolver::ReplayGuard::kRemembered; ++index) {
    for (const spi::Seal& seal : {spi::Seal(bob.keys.get()), spi::Seal(bob)}) {
      ++header.timestamp;
      outsider_.send(outsider_.packet(header, {}, seal));
    }
    // Bob's signature under alice's key.
    ++header.timestamp;
    std::vector<std::byte> forged = outsider_.packet(header, {}, spi::Seal(bob));
    const auto mac = forged.end() - ClusterKeys::kMacSize;
    std::copy(alice.begin(), alice.end(), mac - spi::Seal::kSignatureSize);
    std::ranges::copy(bob.keys->mac(spi::kMulticastPurpose, {std::span(forged.begin(), mac)}), mac);
    outsider_.send(forged);
  }
  EXPECT_TRUE(eventually([&] { return victim_->counters().forged > resolver::ReplayGuard::kRemembered; }));
  const spi::ServiceRecord record = victim_.publish(kMulticastRandomId);
  ASSERT_TRUE(alice_.learns(record));
  alice_->invalidate(record);
  EXPECT_TRUE(alice_.resolve(kMulticastRandomId).ok());
}

TEST_F(MulticastTrust, ARecordStolenBeforeATakeoverDoesNotBringTheFormerHolderBack) {
  alice_.publish(kMulticastBank, "bank");
  ASSERT_TRUE(victim_.resolve(kMulticastBank).ok());
  const std::vector<std::byte> stolen =
      outsider_.hear([](const PacketHeader& header) { return header.type == PacketType::announcement; });
  ASSERT_FALSE(stolen.empty());
  MulticastContext second(multicast_member(shared_, 1));
  spi::ServiceRecord taken = second.record(kMulticastBank, "bank");
  ASSERT_TRUE(second->publish(taken, true, nullptr).ok());
  ASSERT_TRUE(eventually(
      [&] { return victim_.look(kMulticastBank).ok() && victim_.look(kMulticastBank)->context == second.id(); }));
  const std::uint64_t before = came_again(victim_->counters());
  outsider_.send(stolen);
  EXPECT_TRUE(eventually([&] { return came_again(victim_->counters()) > before; }));
  EXPECT_EQ(victim_.look(kMulticastBank)->context, second.id());
  // To a context that starts later, the stolen packet is new.
  ASSERT_TRUE(eventually([&] { return alice_->counters().conflicts != 0; })) << "the former holder is silent";
  const MulticastOptions late_options = multicast_member(shared_, 3);
  MulticastContext late(late_options);
  ASSERT_TRUE(late.resolve(kMulticastBank).ok());
  outsider_.send(stolen);
  EXPECT_TRUE(eventually([&] { return late->counters().outdated == 1; }));
  EXPECT_EQ(security::Counters::read(late_options.credentials.counters->records_refused), 1U);
  EXPECT_EQ(late.look(kMulticastBank)->context, second.id());
}

TEST_F(MulticastTrust, AMemberIsRefusedAtOnceWhatItsOwnTrustFileDoesNotGiveIt) {
  MulticastContext bob(multicast_member(shared_, 2));
  spi::ServiceRecord record = bob.record(kMulticastBank, "bank");
  EXPECT_EQ(bob->publish(record, true, nullptr).code(), RIPC_PERMISSION);
}

TEST_F(MulticastTrust, WithoutATrustFileSignedRecordsAreTakenAsBefore) {
  MulticastContext plain(shared_);
  alice_.publish(kMulticastBank, "bank");
  const Result<spi::ServiceRecord> found = plain.resolve(kMulticastBank);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->member, "");
}

}  // namespace
}  // namespace ripc::internal::test
