// SPDX-License-Identifier: Apache-2.0
// What the trust file leaves of the packets of members, strangers and thieves.
#include "spi/record_rights.hpp"

#include "multicast_helpers.hpp"
#include "trust_options.hpp"

namespace ripc::internal::test {
namespace {

const ripc_service_id kBank = *core::id_of_name("bank");
const ripc_service_id kNews = *core::id_of_name("news");
const ripc_service_id kPrices = core::group_id_from_name("prices");
const ripc_service_id kOtherGroup = core::group_id_from_name("other");
constexpr ripc_service_id kRandomId = (ripc_service_id{3} << 62) | 99;

spi::ServiceRecord record_of(ripc_service_id id, const std::string& name, std::vector<ripc_service_id> groups = {}) {
  std::sort(groups.begin(), groups.end());
  spi::ServiceRecord record;
  record.id = id;
  record.name = name;
  record.incarnation = 5;
  record.context = 4711;
  record.addresses = {{"socket", "ctx=1;port=2;ip=127.0.0.1"}};
  record.groups = std::move(groups);
  return record;
}

class RecordRights : public ::testing::Test {
 protected:
  std::vector<std::byte> packet(unsigned member, const std::vector<spi::ServiceRecord>& records,
                                std::string_view purpose = spi::kMulticastPurpose) const {
    const security::Credentials sender = member_credentials(keys_, member);
    spi::PacketHeader header{.type = spi::PacketType::announcement, .context = 4711, .pid = 1, .timestamp = 9};
    spi::PacketBuilder builder(header, spi::Seal(sender));
    for (const spi::ServiceRecord& record : records) EXPECT_TRUE(builder.add(record, false));
    return builder.finish(false, purpose);
  }
  // The services of the packet that are kept; nullopt: the signature is wrong.
  std::optional<std::vector<spi::PacketService>> kept(const std::vector<std::byte>& bytes,
                                                      std::string_view purpose = spi::kMulticastPurpose) {
    spi::MulticastPacket packet;
    EXPECT_EQ(spi::decode_packet(bytes, core::id_of_name, packet), spi::DecodeStatus::ok);
    refusals_ = {};
    if (!spi::keep_permitted(bytes, packet, receiver_, purpose, refusals_)) return {};
    return packet.services;
  }

  const std::shared_ptr<const ClusterKeys> keys_ = make_keys(kKeyText);
  security::Credentials receiver_ = member_credentials(keys_, 3);
  spi::Refusals refusals_;
};

TEST_F(RecordRights, AMemberHasWhatTheFileGivesIt) {
  const auto services = kept(packet(1, {record_of(kBank, "bank", {kPrices}), record_of(kRandomId, "")}));
  ASSERT_TRUE(services.has_value());
  ASSERT_EQ(services->size(), 2U);
  EXPECT_EQ((*services)[0].record.member, "alice");
  EXPECT_TRUE((*services)[0].record.is_in(kPrices));
  EXPECT_EQ(refusals_.unproven + refusals_.not_permitted, 0U);
}

TEST_F(RecordRights, AMemberHasNothingThatTheFileGivesToOthersOrToNoOne) {
  const auto of_bob = kept(packet(2, {record_of(kBank, "bank"), record_of(kNews, "news")}));
  ASSERT_TRUE(of_bob.has_value());
  ASSERT_EQ(of_bob->size(), 1U) << "a prefix gives nothing that another has by its name";
  EXPECT_EQ((*of_bob)[0].record.name, "news");
  EXPECT_EQ(refusals_.not_permitted, 1U);
  EXPECT_TRUE(kept(packet(3, {record_of(kNews, "news"), record_of(42, "")}))->empty());
  EXPECT_EQ(refusals_.not_permitted, 2U);
  // The name as a label of another ID.
  EXPECT_TRUE(kept(packet(3, {record_of(kRandomId, "bank")}))->empty());
}

TEST_F(RecordRights, AGroupThatAMemberMayNotJoinIsTakenOut) {
  const auto services = kept(packet(1, {record_of(kBank, "bank", {kPrices, kOtherGroup})}));
  ASSERT_EQ(services->size(), 1U);
  EXPECT_EQ((*services)[0].record.groups, std::vector<ripc_service_id>{kPrices});
  EXPECT_EQ(refusals_.not_permitted, 1U);
}

TEST_F(RecordRights, OnlyMembersInTheFileAreBelieved) {
  EXPECT_TRUE(kept(packet(0, {record_of(kRandomId, "")}))->empty());
  EXPECT_EQ(refusals_.unproven, 1U);
  EXPECT_TRUE(kept(packet(4, {record_of(kRandomId, "")}))->empty());
  EXPECT_EQ(refusals_.unproven, 1U);
}

TEST_F(RecordRights, EveryBitOfASignedPacketCounts) {
  const std::vector<std::byte> bytes = packet(1, {record_of(kBank, "bank")});
  // The MAC itself is not checked here.
  const std::size_t end = bytes.size() - ClusterKeys::kMacSize;
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < end * 8; ++bit) {
    std::vector<std::byte> changed = bytes;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    spi::MulticastPacket packet;
    if (spi::decode_packet(changed, core::id_of_name, packet) != spi::DecodeStatus::ok) continue;
    spi::Refusals refusals;
    const bool is_genuine = spi::keep_permitted(changed, packet, receiver_, spi::kMulticastPurpose, refusals);
    EXPECT_TRUE(!is_genuine || packet.services.empty()) << bit;
    ++refused;
  }
  EXPECT_GT(refused, 1000U);
}

TEST_F(RecordRights, ASignatureIsForOneUse) {
  EXPECT_FALSE(kept(packet(1, {record_of(kBank, "bank")}, spi::kDirectoryPurpose)).has_value());
  EXPECT_TRUE(kept(packet(1, {record_of(kBank, "bank")}, spi::kDirectoryPurpose), spi::kDirectoryPurpose).has_value());
}

TEST_F(RecordRights, AStolenSignatureIsWorthNothingUnderAnotherKeyOrPacket) {
  // The seal of alice's packet, after the services of another packet.
  const std::vector<std::byte> genuine = packet(1, {record_of(kBank, "bank")});
  spi::ServiceRecord other = record_of(kBank, "bank");
  other.addresses = {{"socket", "ctx=6;port=6;ip=127.0.0.1"}};
  std::vector<std::byte> forged = packet(1, {other});
  ASSERT_EQ(forged.size(), genuine.size());
  std::copy(genuine.end() - 128, genuine.end(), forged.end() - 128);
  EXPECT_FALSE(kept(forged).has_value());
  // Bob's signature under alice's name.
  std::vector<std::byte> renamed = packet(2, {record_of(kBank, "bank")});
  const security::PublicKey alice = security::identity_of(1)->public_key();
  std::copy(alice.begin(), alice.end(), renamed.end() - 128);
  EXPECT_FALSE(kept(renamed).has_value());
}

TEST_F(RecordRights, APacketWithoutServicesIsSignedTooAndOnlyItsSignerCanMakeIt) {
  const security::Credentials sender = member_credentials(keys_, 1);
  spi::PacketHeader header{.type = spi::PacketType::question, .context = 4711, .timestamp = 9, .nonce = 3, .id = 7};
  const std::vector<std::byte> genuine = spi::PacketBuilder(header, spi::Seal(sender)).finish();
  EXPECT_EQ(genuine.size(), 56U + spi::Seal::kSignatureSize + ClusterKeys::kMacSize);
  EXPECT_TRUE(kept(genuine).has_value());
  ++header.timestamp;
  std::vector<std::byte> forged = spi::PacketBuilder(header, spi::Seal(sender)).finish();
  std::copy(genuine.end() - 128, genuine.end(), forged.end() - 128);
  EXPECT_FALSE(kept(forged).has_value());
  EXPECT_TRUE(kept(spi::PacketBuilder(header, spi::Seal(keys_.get())).finish()).has_value()) << "it claims nothing";
}

// The records name the same context, which any member can write into its own.
TEST_F(RecordRights, AMemberTakesAnIdFromAnotherOneOnlyIfTheFileGivesItThatId) {
  const auto may = [&](const char* taker, const char* holder, ripc_service_id id, const std::string& name) {
    spi::ServiceRecord record = record_of(id, name);
    record.member = taker;
    spi::ServiceRecord former = record_of(id, name);
    former.member = holder;
    return spi::may_displace(record, former, receiver_);
  };
  EXPECT_TRUE(may("alice", "bob", kBank, "bank"));
  EXPECT_FALSE(may("bob", "alice", kBank, "bank"));
  EXPECT_FALSE(may("bob", "alice", kRandomId, ""));
  EXPECT_TRUE(may("alice", "alice", kRandomId, ""));
  EXPECT_FALSE(may("bob", "", kRandomId, "")) << "of no member";
  EXPECT_TRUE(may("bob", "robert", kRandomId, "")) << "of a member that was removed, or renamed";
  receiver_.trust.reset();
  EXPECT_TRUE(may("bob", "alice", kRandomId, ""));
}

TEST_F(RecordRights, AContextLearnsWhatItMayNotPublishAndWhatToDo) {
  const auto refusal = [&](unsigned member, const spi::ServiceRecord& record) {
    const Status status = spi::check_own_rights(record, member_credentials(keys_, member));
    EXPECT_EQ(status.code(), RIPC_PERMISSION);
    return std::string(status.text());
  };
  EXPECT_TRUE(spi::check_own_rights(record_of(kBank, "bank", {kPrices}), member_credentials(keys_, 1)).ok());
  EXPECT_NE(refusal(2, record_of(kBank, "bank")).find("does not let bob hold the name 'bank'"), std::string::npos);
  EXPECT_NE(refusal(3, record_of(kRandomId, "", {kPrices})).find("joins= of carol"), std::string::npos);
  EXPECT_NE(refusal(4, record_of(kBank, "bank")).find("ripc trust add NAME ed25519:"), std::string::npos);
  EXPECT_NE(refusal(0, record_of(kBank, "bank")).find("ripc key new --identity"), std::string::npos);
  // A client needs no name.
  EXPECT_TRUE(spi::check_own_rights(record_of(kRandomId, ""), member_credentials(keys_, 0)).ok());
}

TEST_F(RecordRights, APacketWithItsSealFitsWhatEveryLinkCarries) {
  const security::Credentials sender = member_credentials(keys_, 1);
  spi::PacketHeader header{.type = spi::PacketType::announcement, .context = 4711, .timestamp = 9};
  spi::PacketBuilder builder(header, spi::Seal(sender));
  std::vector<spi::ServiceRecord> records;
  for (ripc_service_id id = 0; id < 200; ++id) records.push_back(record_of(kRandomId + id, ""));
  std::size_t added = 0;
  while (added < records.size() && builder.add(records[added], false)) ++added;
  EXPECT_GT(added, 30U);
  EXPECT_LT(added, records.size());
  EXPECT_LE(builder.finish().size(), spi::kFullPacket);
}

}  // namespace
}  // namespace ripc::internal::test
