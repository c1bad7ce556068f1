// SPDX-License-Identifier: Apache-2.0
// Groups in the multicast resolver: packets, and what contexts learn of each other's members.
#include "multicast_helpers.hpp"

namespace ripc::internal::test {
namespace {

using resolver::ServiceCache;
using spi::DecodeStatus;
using spi::MulticastPacket;

constexpr ripc_service_id kGroup = RIPC_GROUP_ID(7);
constexpr ripc_service_id kOther = RIPC_GROUP_ID(8);

std::vector<spi::ServiceRecord> members(MulticastContext& context, ripc_service_id group, Nanoseconds timeout) {
  std::vector<spi::ServiceRecord> found;
  const Status status =
      context->members(group, Deadline::after(timeout), [&](const auto& record) { found.push_back(record); });
  EXPECT_TRUE(status.ok()) << status.text();
  std::sort(found.begin(), found.end(), [](const auto& one, const auto& other) { return one.id < other.id; });
  return found;
}

// Whether the members become `wanted`; each query returns without waiting.
bool become(MulticastContext& context, ripc_service_id group, const std::vector<spi::ServiceRecord>& wanted) {
  return eventually([&] { return members(context, group, 0) == wanted; });
}

spi::ServiceRecord join(MulticastContext& context, spi::ServiceRecord record, std::vector<ripc_service_id> groups) {
  record.groups = std::move(groups);
  const Status status = context->update(record);
  EXPECT_TRUE(status.ok()) << status.text();
  return record;
}

// ---- Packets and cache ---------------------------------------------------------------------------------------

spi::ServiceRecord make_record() {
  spi::ServiceRecord record;
  record.id = 9;
  record.incarnation = 5;
  record.context = 12;
  record.addresses = {{"socket", "port=1"}};
  record.groups = {kGroup, kOther};
  return record;
}

std::vector<std::byte> encode(const spi::ServiceRecord& record, bool is_gone = false) {
  const PacketHeader header{.type = PacketType::announcement, .context = 12, .timestamp = 56};
  PacketBuilder builder(header, {});
  EXPECT_TRUE(builder.add(record, is_gone));
  return builder.finish();
}

DecodeStatus decode(const std::vector<std::byte>& bytes, MulticastPacket& packet) {
  return spi::decode_packet(bytes, core::id_of_name, packet);
}

TEST(MulticastGroupPacket, TheGroupsOfAServiceTravelWithIt) {
  MulticastPacket packet;
  ASSERT_EQ(decode(encode(make_record()), packet), DecodeStatus::ok);
  ASSERT_EQ(packet.services.size(), 1u);
  EXPECT_EQ(packet.services[0].record, make_record());
  ASSERT_EQ(decode(encode(make_record(), true), packet), DecodeStatus::ok);
  EXPECT_TRUE(packet.services[0].is_gone);
  EXPECT_TRUE(packet.services[0].record.groups.empty());
}

TEST(MulticastGroupPacket, AnInvalidListOfGroupsIsRefused) {
  MulticastPacket packet;
  spi::ServiceRecord record = make_record();
  for (const std::vector<ripc_service_id>& groups :
       {std::vector<ripc_service_id>{9}, {kOther, kGroup}, {kGroup, kGroup}, {0}}) {
    record.groups = groups;
    EXPECT_EQ(decode(encode(record), packet), DecodeStatus::malformed);
    EXPECT_EQ(spi::check_packet_record(record, core::id_of_name, {}).code(), RIPC_INVALID_ARGUMENT);
  }
  record.groups.clear();
  for (ripc_service_id number = 0; number <= RIPC_MAX_GROUPS; ++number) record.groups.push_back(RIPC_GROUP_ID(number));
  EXPECT_EQ(decode(encode(record), packet), DecodeStatus::malformed);
  record.groups.pop_back();
  EXPECT_EQ(decode(encode(record), packet), DecodeStatus::ok);
  record = make_record();
  record.id = kGroup;
  EXPECT_EQ(decode(encode(record), packet), DecodeStatus::malformed) << "a service under the ID of a group";
}

TEST(MulticastGroupPacket, AGroupIsAskedForButNotProbed) {
  PacketHeader header{.type = PacketType::question, .context = 12, .timestamp = 56, .nonce = 1, .id = kGroup};
  MulticastPacket packet;
  EXPECT_EQ(decode(PacketBuilder(header, {}).finish(), packet), DecodeStatus::ok);
  header.is_probe = true;
  EXPECT_EQ(decode(PacketBuilder(header, {}).finish(), packet), DecodeStatus::malformed);
}

TEST(MulticastGroupCache, AnOlderRecordChangesNothing) {
  ServiceCache cache(10, 1000, 100);
  spi::ServiceRecord record = make_record();
  EXPECT_EQ(cache.learn(record, false, 1, 50), ServiceCache::Learned::usable);
  spi::ServiceRecord earlier = record;
  earlier.groups.clear();
  EXPECT_EQ(cache.learn(earlier, true, 2, 40), ServiceCache::Learned::usable);
  EXPECT_EQ(cache.find(9, 3)->groups, record.groups);
  EXPECT_EQ(cache.learn(earlier, false, 2, 60), ServiceCache::Learned::usable);
  EXPECT_TRUE(cache.find(9, 3)->groups.empty());
}

// ---- Contexts ------------------------------------------------------------------------------------------------

class MulticastGroups : public MulticastTest {
 protected:
  const MulticastOptions options_ = loopback_options();
};

TEST_F(MulticastGroups, TheFirstQuestionFindsEveryMemberOfEveryContext) {
  MulticastContext one(options_);
  MulticastContext two(options_);
  MulticastContext bystander(options_);
  const spi::ServiceRecord first = join(one, one.publish(1001), {kGroup});
  const spi::ServiceRecord second = join(one, one.publish(1002), {kGroup, kOther});
  const spi::ServiceRecord third = join(two, two.publish(1003), {kGroup});
  bystander.publish(1004);
  MulticastContext asker(options_);
  EXPECT_TRUE(eventually([&] { return members(asker, kGroup, 1'000'000'000) == std::vector{first, second, third}; }));
  EXPECT_EQ(members(asker, kOther, 1'000'000'000), (std::vector{second}));
  EXPECT_EQ(members(one, kOther, 0), (std::vector{second})) << "its own";
  EXPECT_EQ(bystander->counters().replies_sent, 0u) << "who has no member does not reply";
}

TEST_F(MulticastGroups, JoinsLeavesAndEndsAreLearnedWithoutAsking) {
  MulticastContext holder(options_);
  MulticastContext asker(options_);
  EXPECT_TRUE(members(asker, kGroup, 1'000'000'000).empty());
  const std::uint64_t asked = asker->counters().questions_sent;
  spi::ServiceRecord record = join(holder, holder.publish(1001), {kGroup});
  EXPECT_TRUE(become(asker, kGroup, {record}));
  const spi::ServiceRecord second = join(holder, holder.publish(1002), {kGroup});
  EXPECT_TRUE(become(asker, kGroup, {record, second}));
  record = join(holder, record, {});
  EXPECT_TRUE(become(asker, kGroup, {second}));
  holder->withdraw(second);
  EXPECT_TRUE(become(asker, kGroup, {}));
  EXPECT_LE(asker->counters().questions_sent, asked + 3) << "one each 10 s, not one for each look";
}

TEST_F(MulticastGroups, AMemberThatFailedIsLeftOutUntilItSpeaksAgain) {
  MulticastContext holder(options_);
  MulticastContext asker(options_);
  const spi::ServiceRecord record = join(holder, holder.publish(1001), {kGroup});
  EXPECT_TRUE(eventually([&] { return !members(asker, kGroup, 1'000'000'000).empty(); }));
  asker->invalidate(record);
  EXPECT_TRUE(members(asker, kGroup, 0).empty());
  EXPECT_TRUE(asker.resolve(1001).ok()) << "it answers";
  EXPECT_TRUE(become(asker, kGroup, {record}));
}

TEST_F(MulticastGroups, OnlyTheHolderChangesItsGroups) {
  MulticastContext holder(options_);
  spi::ServiceRecord record = holder.publish(1001);
  record.groups = {kGroup};
  ++record.incarnation;
  EXPECT_EQ(holder->update(record).code(), RIPC_FENCED);
  record.id = 1002;
  EXPECT_EQ(holder->update(record).code(), RIPC_FENCED);
}

TEST_F(MulticastGroups, MoreMembersThanFitInAPacketAreAllFound) {
  MulticastContext holder(options_);
  constexpr std::size_t kMany = 200;
  for (ripc_service_id id = 0; id < kMany; ++id) join(holder, holder.publish(ripc_service_id{3} << 62 | id), {kGroup});
  MulticastContext asker(options_);
  EXPECT_TRUE(eventually([&] { return members(asker, kGroup, 1'000'000'000).size() == kMany; }));
}

TEST_F(MulticastGroups, ForgedAndUnaskedRepliesMakeNoOneAMember) {
  MulticastOptions keyed = options_;
  keyed.credentials.keys = test::make_keys(kKeyText);
  MulticastContext asker(keyed);
  Outsider outsider(keyed);
  spi::ServiceRecord record = make_record();
  record.context = 4711;
  const auto other_keys = test::make_keys(kOtherKeyText);
  PacketHeader header = outsider.header(PacketType::announcement);
  outsider.send(outsider.packet(header, {record}));
  header.timestamp = realtime_now();
  outsider.send(outsider.packet(header, {record}, other_keys.get()));
  EXPECT_TRUE(eventually([&] {
    const auto counters = asker->counters();
    return counters.unsigned_ones == 1 && counters.forged == 1;
  }));
  EXPECT_TRUE(members(asker, kGroup, 0).empty());

  // A host that receives the question still needs the key to answer.
  spi::PeerAddress from;
  const std::vector<std::byte> question =
      outsider.hear([](const PacketHeader& heard) { return heard.id == kGroup; }, &from);
  ASSERT_FALSE(question.empty());
  PacketHeader asked;
  ASSERT_EQ(spi::decode_header(question, asked), DecodeStatus::ok);
  PacketHeader reply = outsider.header(PacketType::reply);
  reply.nonce = asked.nonce;
  reply.id = kGroup;
  reply.is_last = true;
  outsider.send_to(from, outsider.packet(reply, {record}, other_keys.get()));
  EXPECT_TRUE(eventually([&] { return asker->counters().forged == 2; }));
  EXPECT_TRUE(members(asker, kGroup, 0).empty());
  reply.timestamp = realtime_now();
  outsider.send_to(from, outsider.packet(reply, {record}, keyed.credentials.keys.get()));
  EXPECT_TRUE(eventually([&] { return members(asker, kGroup, 0).size() == 1; })) << "with the key it is believed";
}

}  // namespace
}  // namespace ripc::internal::test
