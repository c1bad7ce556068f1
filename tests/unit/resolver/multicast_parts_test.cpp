// SPDX-License-Identifier: Apache-2.0
// The parts of the multicast resolver that need no network: its options, packets, cache and replay guard.
#include "multicast_helpers.hpp"

namespace ripc::internal::test {
namespace {

using resolver::MulticastOptions;
using resolver::parse_multicast_options;
using resolver::ReplayGuard;
using resolver::ServiceCache;
using spi::DecodeStatus;
using spi::MulticastPacket;
using spi::PacketBuilder;
using spi::PacketHeader;
using spi::PacketType;

// ---- Options -------------------------------------------------------------------------------------------------

TEST(MulticastOptionsText, NothingGivesTheDefaults) {
  for (const char* text : {"", "on"}) {
    const Result<MulticastOptions> options = parse_multicast_options(text);
    ASSERT_TRUE(options.ok());
    ASSERT_EQ(options->groups.size(), 2U);
    EXPECT_EQ(options->groups[0].text(), "239.255.82.73:26673");
    EXPECT_EQ(options->groups[1].text(), "[ff12::5249:5043]:26673");
    EXPECT_EQ(options->ttl, 1U);
    EXPECT_TRUE(options->interfaces.empty());
  }
}

TEST(MulticastOptionsText, GroupsPortsInterfacesAndOptionsAreRead) {
  const Result<MulticastOptions> options =
      parse_multicast_options("239.1.2.3:5000%eth0,[ff15::17]:6000%eth1,ff12::1,ttl=4,interface=eth0,probe=5");
  ASSERT_TRUE(options.ok()) << options.status().text();
  ASSERT_EQ(options->groups.size(), 3U);
  EXPECT_EQ(options->groups[0].text(), "239.1.2.3:5000");
  EXPECT_EQ(options->groups[1].text(), "[ff15::17]:6000");
  EXPECT_EQ(options->groups[2].text(), "[ff12::1]:26673");
  EXPECT_EQ(options->interfaces, (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(options->ttl, 4U);
  EXPECT_EQ(options->probe_time, 5'000'000U);
}

TEST(MulticastOptionsText, NetworksAreBothUsedUnlessSomeAreNamed) {
  const auto used = [](const char* text) {
    const Result<MulticastOptions> options = parse_multicast_options(text);
    EXPECT_TRUE(options.ok()) << text;
    return std::pair(options->udp, options->fabric);
  };
  EXPECT_EQ(used(""), std::pair(true, true));
  EXPECT_EQ(used("ttl=2"), std::pair(true, true));
  EXPECT_EQ(used("udp"), std::pair(true, false));
  EXPECT_EQ(used("239.1.2.3,fabric"), std::pair(false, true));
  EXPECT_EQ(used("fabric,udp"), std::pair(true, true));
}

TEST(MulticastOptionsText, TheFabricAloneIsNoWayToStayOnThisHost) {
  const Result<MulticastOptions> options = parse_multicast_options("fabric,ttl=0");
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(mentions(options.status(), "udp")) << options.status().text();
  EXPECT_TRUE(parse_multicast_options("fabric,udp,ttl=0").ok());
}

TEST(MulticastOptionsText, AWrongItemIsNamed) {
  for (const char* item :
       {"10.0.0.1", "239.1.2.3:0", "239.1.2.3:65536", "239.1.2.3:", "fe80::1", "[ff12::1", "ttl=256", "ttl=", "ttl=-1",
        "hops=3", "interface=", "239.1.2.3%sixteen-letters-x", "probe=99999999", "[ff12::1]x", "eth0"}) {
    const Result<MulticastOptions> options = parse_multicast_options(std::string("ttl=2,") + item);
    EXPECT_EQ(options.status().code(), RIPC_INVALID_ARGUMENT) << item;
    EXPECT_TRUE(mentions(options.status(), std::string("'") + item + "'")) << options.status().text();
  }
}

// ---- Packets -------------------------------------------------------------------------------------------------

spi::ServiceRecord make_record(ripc_service_id id, const std::string& name = "") {
  spi::ServiceRecord record;
  record.id = id;
  record.name = name;
  record.incarnation = 1'700'000'000'000'000'000;
  record.context = 12;
  record.pid = 34;
  record.addresses = {{"socket", "ctx=c;port=1"}, {"shm", "#12"}};
  return record;
}

PacketHeader reply_header() {
  PacketHeader header;
  header.type = PacketType::reply;
  header.is_last = true;
  header.context = 12;
  header.pid = 34;
  header.timestamp = 56;
  header.nonce = 78;
  header.id = 9;
  return header;
}

TEST(MulticastPacket, IsReadAsItWasWritten) {
  const spi::ServiceRecord one = make_record(*core::id_of_name("files"), "files");
  const spi::ServiceRecord two = make_record(9);
  PacketBuilder builder(reply_header(), {});
  ASSERT_TRUE(builder.add(one, false));
  ASSERT_TRUE(builder.add(two, false));
  const std::vector<std::byte> bytes = builder.finish();
  // The layout of docs/wire.md: header, two addresses once, two services.
  EXPECT_EQ(bytes.size(), 56U + (3 + 6 + 12) + (3 + 3 + 3) + (20 + 5 + 2) + (20 + 2));
  MulticastPacket packet;
  ASSERT_EQ(spi::decode_packet(bytes, core::id_of_name, packet), DecodeStatus::ok);
  EXPECT_EQ(packet.header.nonce, 78U);
  ASSERT_EQ(packet.services.size(), 2U);
  EXPECT_EQ(packet.services[0].record, one);
  EXPECT_EQ(packet.services[1].record, two);
}

TEST(MulticastPacket, APacketThatIsCutOrHasMoreIsMalformed) {
  const spi::ServiceRecord record = make_record(9);
  PacketBuilder builder(reply_header(), {});
  ASSERT_TRUE(builder.add(record, false));
  std::vector<std::byte> bytes = builder.finish();
  MulticastPacket packet;
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(spi::decode_packet(std::span(bytes).first(size), core::id_of_name, packet), DecodeStatus::malformed)
        << size;
  bytes.push_back(std::byte{0});
  EXPECT_EQ(spi::decode_packet(bytes, core::id_of_name, packet), DecodeStatus::malformed);
}

TEST(MulticastPacket, ASharedMemoryAddressThatNamesADirectoryIsMalformed) {
  spi::ServiceRecord record = make_record(9);
  record.addresses.back().locator = "/run#12";
  PacketBuilder builder(reply_header(), {});
  ASSERT_TRUE(builder.add(record, false));
  MulticastPacket packet;
  EXPECT_EQ(spi::decode_packet(builder.finish(), core::id_of_name, packet), DecodeStatus::malformed);
  EXPECT_EQ(spi::check_packet_record(record, core::id_of_name, {}, spi::kMaxPacket).code(), RIPC_INVALID_ARGUMENT);
}

TEST(MulticastPacket, AServiceThatLiesIsMalformed) {
  const auto decode = [](const spi::ServiceRecord& record, PacketType type = PacketType::reply, bool is_gone = false) {
    PacketHeader header = reply_header();
    header.type = type;
    if (type == PacketType::announcement) header = {.type = type, .context = 12, .timestamp = 56};
    PacketBuilder builder(header, {});
    EXPECT_TRUE(builder.add(record, is_gone));
    MulticastPacket packet;
    return spi::decode_packet(builder.finish(), core::id_of_name, packet);
  };
  EXPECT_EQ(decode(make_record(9)), DecodeStatus::ok);
  EXPECT_EQ(decode(make_record(9), PacketType::announcement, true), DecodeStatus::ok);
  EXPECT_EQ(decode(make_record(9), PacketType::reply, true), DecodeStatus::malformed) << "only announcements end one";
  EXPECT_EQ(decode(make_record(*core::id_of_name("files"), "logs")), DecodeStatus::malformed) << "another's name";
  EXPECT_EQ(decode(make_record(*core::id_of_name("files"))), DecodeStatus::malformed) << "a name's ID without it";
  EXPECT_EQ(decode(make_record(9, "a/b")), DecodeStatus::malformed);
  EXPECT_EQ(decode(make_record(9, "\xff")), DecodeStatus::malformed) << "not UTF-8";
  EXPECT_EQ(decode(make_record(0)), DecodeStatus::malformed);
  spi::ServiceRecord record = make_record(9);
  record.incarnation = 0;
  EXPECT_EQ(decode(record), DecodeStatus::malformed);
  record.incarnation = UINT64_MAX;
  EXPECT_EQ(decode(record), DecodeStatus::malformed) << "nobody could ever follow it";
  record = make_record(9);
  record.addresses.clear();
  EXPECT_EQ(decode(record), DecodeStatus::malformed);
  record.addresses = {{"Socket", "x"}};
  EXPECT_EQ(decode(record), DecodeStatus::malformed);
  record.addresses = {{"socket", "x\n"}};
  EXPECT_EQ(decode(record), DecodeStatus::malformed);
  record.addresses = {{"socket", ""}};
  EXPECT_EQ(decode(record), DecodeStatus::malformed);
}

TEST(MulticastPacket, AHeaderThatCannotBeIsMalformed) {
  const auto decode = [](const PacketHeader& header) {
    PacketBuilder builder(header, {});
    PacketHeader read;
    return spi::decode_header(builder.finish(), read);
  };
  PacketHeader header = reply_header();
  EXPECT_EQ(decode(header), DecodeStatus::ok);
  header.context = 0;
  EXPECT_EQ(decode(header), DecodeStatus::malformed);
  header = reply_header();
  header.timestamp = 0;
  EXPECT_EQ(decode(header), DecodeStatus::malformed);
  header = reply_header();
  header.nonce = 0;
  EXPECT_EQ(decode(header), DecodeStatus::malformed);
  header = reply_header();
  header.is_probe = true;
  EXPECT_EQ(decode(header), DecodeStatus::malformed);
  header = reply_header();
  header.number = 0x10000;
  EXPECT_EQ(decode(header), DecodeStatus::malformed);
  header = reply_header();
  header.type = static_cast<PacketType>(4);
  EXPECT_EQ(decode(header), DecodeStatus::malformed);
  header.type = PacketType::announcement;
  EXPECT_EQ(decode(header), DecodeStatus::malformed) << "an announcement answers nothing";
}

TEST(MulticastPacket, ServicesThatShareAddressesFillAPacketButNeverExceedIt) {
  const spi::ServiceRecord record = make_record(9);
  const auto keys = test::make_keys(test::kKeyText);
  PacketBuilder builder(reply_header(), spi::Seal(keys.get()));
  std::size_t count = 0;
  while (builder.add(record, false)) ++count;
  EXPECT_GT(count, 40U);
  EXPECT_LE(builder.finish().size(), spi::kFullPacket);
}

#ifdef RIPC_SOURCE_DIR
TEST(MulticastPacket, SeedsOfTheFuzzerAreUnderstoodUnlessTheirNameSaysRefused) {
  std::size_t count = 0;
  for (const std::string& name : test::names_in(RIPC_SOURCE_DIR "/tests/fuzz/corpus/multicast")) {
    const std::string content = test::read_file(RIPC_SOURCE_DIR "/tests/fuzz/corpus/multicast/" + name);
    const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
    MulticastPacket packet;
    const DecodeStatus status = spi::decode_packet(bytes, core::id_of_name, packet);
    EXPECT_EQ(status == DecodeStatus::ok, !name.starts_with("refused_")) << name;
    ++count;
  }
  EXPECT_GT(count, 0U);
}
#endif

// ---- Cache ---------------------------------------------------------------------------------------------------

TEST(MulticastCache, OnlyNewerIncarnationsTakeThePlace) {
  ServiceCache cache(10, 1000, 100);
  spi::ServiceRecord record = make_record(9);
  EXPECT_EQ(cache.learn(record, false, 1), ServiceCache::Learned::usable);
  spi::ServiceRecord other = record;
  other.context = 13;
  EXPECT_EQ(cache.learn(other, true, 2), ServiceCache::Learned::outdated) << "the same incarnation, another context";
  --other.incarnation;
  EXPECT_EQ(cache.learn(other, true, 2), ServiceCache::Learned::outdated);
  other.incarnation += 2;
  EXPECT_EQ(cache.learn(other, false, 2), ServiceCache::Learned::usable);
  EXPECT_EQ(cache.find(9, 3)->context, 13U);
}

TEST(MulticastCache, DoubtEndsWithAnAnswerOrANewerIncarnation) {
  ServiceCache cache(10, 1000, 100);
  spi::ServiceRecord record = make_record(9);
  static_cast<void>(cache.learn(record, false, 1));
  cache.doubt(record);
  EXPECT_EQ(cache.find(9, 1), nullptr);
  EXPECT_EQ(cache.learn(record, false, 2), ServiceCache::Learned::doubtful) << "it may be an old announcement";
  EXPECT_EQ(cache.find(9, 2), nullptr);
  EXPECT_EQ(cache.learn(record, true, 3), ServiceCache::Learned::usable);
  EXPECT_NE(cache.find(9, 3), nullptr);
  cache.doubt(record);
  ++record.incarnation;
  EXPECT_EQ(cache.learn(record, false, 4), ServiceCache::Learned::usable);
  --record.incarnation;
  cache.doubt(record);
  EXPECT_NE(cache.find(9, 4), nullptr) << "doubt about an older one does not count";
}

TEST(MulticastCache, AHolderThatTellsOtherAddressesIsBelievedAndWhatItHadSaidBeforeIsNot) {
  ServiceCache cache(10, 1000, 100);
  spi::ServiceRecord before = make_record(9);
  before.addresses = {{"socket", "10.0.0.1:7000"}};
  spi::ServiceRecord after = before;
  after.addresses = {{"socket", "10.0.0.2:7000"}};
  EXPECT_EQ(cache.learn(before, false, 1, 10), ServiceCache::Learned::usable);
  EXPECT_EQ(cache.learn(after, false, 2, 20), ServiceCache::Learned::usable);
  EXPECT_EQ(cache.find(9, 2)->addresses, after.addresses);
  EXPECT_EQ(cache.learn(before, false, 3, 15), ServiceCache::Learned::usable);
  EXPECT_EQ(cache.find(9, 3)->addresses, after.addresses) << "said before, came later";
  cache.doubt(after);
  EXPECT_EQ(cache.learn(before, false, 4, 16), ServiceCache::Learned::doubtful);
  EXPECT_EQ(cache.learn(after, false, 5, 30), ServiceCache::Learned::doubtful) << "the address that failed";
  EXPECT_EQ(cache.learn(before, false, 6, 40), ServiceCache::Learned::usable)
      << "another address than the one that failed";
  EXPECT_EQ(cache.find(9, 6)->addresses, before.addresses);
}

TEST(MulticastCache, AHolderWhoseClockWasSetBackIsBelieved) {
  ServiceCache cache(10, 1000, 100);
  spi::ServiceRecord record = make_record(9);
  EXPECT_EQ(cache.learn(record, false, 1, 1000), ServiceCache::Learned::usable);
  record.addresses = {{"socket", "10.0.0.2:7000"}};
  EXPECT_EQ(cache.learn(record, false, 2, 899), ServiceCache::Learned::usable);
  EXPECT_EQ(cache.find(9, 2)->addresses, record.addresses);
}

TEST(MulticastCache, AgeAndNumberAreBounded) {
  ServiceCache cache(3, 1000, 100);
  for (ripc_service_id id = 1; id <= 5; ++id) static_cast<void>(cache.learn(make_record(id), false, id));
  int count = 0;
  cache.visit(0, [&](const spi::ServiceRecord&) { ++count; });
  EXPECT_EQ(count, 3);
  EXPECT_EQ(cache.find(2, 5), nullptr) << "heard of longest ago";
  EXPECT_NE(cache.find(3, 5), nullptr);
  EXPECT_NE(cache.find(3, 1003), nullptr);
  EXPECT_EQ(cache.find(3, 1004), nullptr);
}

// ---- Replay guard --------------------------------------------------------------------------------------------

constexpr Nanoseconds kNow = 1'000'000;

TEST(MulticastReplayGuard, APacketIsFreshOnce) {
  ReplayGuard guard(10, 1000);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::copy);
  EXPECT_EQ(guard.accept({2}, kNow, kNow), ReplayGuard::Verdict::fresh) << "of another context";
  EXPECT_EQ(guard.accept({1}, kNow - 5, kNow), ReplayGuard::Verdict::fresh) << "overtaken on its way";
  EXPECT_EQ(guard.accept({1}, kNow - 5, kNow), ReplayGuard::Verdict::copy);
}

TEST(MulticastReplayGuard, PacketsWithTheContextOfAnotherSignerDoNotMakeItsOwnLookOld) {
  ReplayGuard guard(2, 1000);
  const ReplayGuard::Sender holder{1, {std::byte{7}}};
  const ReplayGuard::Sender thief{1, {std::byte{8}}};
  for (std::size_t i = 0; i <= ReplayGuard::kRemembered; ++i)
    EXPECT_EQ(guard.accept(thief, kNow + 900 + i, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept(holder, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept(holder, kNow, kNow), ReplayGuard::Verdict::copy);
}

TEST(MulticastReplayGuard, APacketOlderThanAllRememberedOnesWasReplayed) {
  ReplayGuard guard(10, 1000);
  for (std::size_t i = 0; i <= ReplayGuard::kRemembered; ++i)
    EXPECT_EQ(guard.accept({1}, kNow + i, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::replayed);
}

TEST(MulticastReplayGuard, ACopyByAnotherWayComesWithinASecond) {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  ReplayGuard guard(10, 10 * kSecond);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({1}, kNow, kNow + kSecond), ReplayGuard::Verdict::copy);
  EXPECT_EQ(guard.accept({1}, kNow, kNow + kSecond + 1), ReplayGuard::Verdict::replayed);
}

TEST(MulticastReplayGuard, TimesFarFromOursAreStale) {
  ReplayGuard guard(10, 1000);
  EXPECT_EQ(guard.accept({1}, kNow - 1001, kNow), ReplayGuard::Verdict::stale);
  EXPECT_EQ(guard.accept({1}, kNow + 1001, kNow), ReplayGuard::Verdict::stale);
  EXPECT_EQ(guard.accept({1}, UINT64_MAX, kNow), ReplayGuard::Verdict::stale);
  EXPECT_EQ(guard.accept({1}, kNow + 1000, kNow), ReplayGuard::Verdict::fresh);
}

TEST(MulticastReplayGuard, AContextIsForgottenOnlyWhenItsPacketsAreStale) {
  ReplayGuard guard(2, 1000);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({2}, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({3}, kNow, kNow), ReplayGuard::Verdict::full);
  EXPECT_EQ(guard.accept({3}, kNow + 1001, kNow + 1001), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({1}, kNow, kNow + 1001), ReplayGuard::Verdict::stale);
}

TEST(MulticastReplayGuard, AfterOurClockWasSetBackEachPacketIsFreshOnceAgain) {
  constexpr Nanoseconds kBack = kNow - 5000;
  ReplayGuard guard(1, 1000);
  for (std::size_t i = 0; i <= ReplayGuard::kRemembered; ++i)
    EXPECT_EQ(guard.accept({1}, kNow + i, kNow), ReplayGuard::Verdict::fresh);
  for (std::size_t i = 0; i <= ReplayGuard::kRemembered; ++i) {
    EXPECT_EQ(guard.accept({1}, kBack + i, kBack), ReplayGuard::Verdict::fresh) << i;
    EXPECT_EQ(guard.accept({1}, kBack + i, kBack), ReplayGuard::Verdict::copy) << i;
  }
  EXPECT_EQ(guard.accept({1}, kBack, kBack), ReplayGuard::Verdict::replayed);
  EXPECT_EQ(guard.accept({1}, kNow, kBack), ReplayGuard::Verdict::stale);
}

TEST(MulticastReplayGuard, AfterOurClockWasSetBackALittleAnOlderPacketIsStillOld) {
  ReplayGuard guard(1, 1000);
  for (std::size_t i = 0; i <= ReplayGuard::kRemembered; ++i)
    EXPECT_EQ(guard.accept({1}, kNow + 2 * i, kNow), ReplayGuard::Verdict::fresh);
  constexpr Nanoseconds kBack = kNow + ReplayGuard::kRemembered - 1000;  // half of them are too far ahead now
  EXPECT_EQ(guard.accept({1}, kNow + 3, kBack), ReplayGuard::Verdict::fresh) << "overtaken on its way";
  EXPECT_EQ(guard.accept({1}, kNow, kBack), ReplayGuard::Verdict::replayed);
}

TEST(MulticastReplayGuard, AContextFromBeforeOurClockWasSetBackGivesItsPlaceToAnother) {
  ReplayGuard guard(1, 1000);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({2}, kNow - 5000, kNow - 5000), ReplayGuard::Verdict::fresh);
}

TEST(MulticastReplayGuard, WithoutAuthenticTimesOneFromTheFutureDoesNotSilenceItsContext) {
  ReplayGuard guard(2, 0);
  for (std::size_t i = 0; i <= ReplayGuard::kRemembered; ++i)
    EXPECT_EQ(guard.accept({1}, UINT64_MAX - i, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::fresh);
  EXPECT_EQ(guard.accept({1}, kNow, kNow), ReplayGuard::Verdict::copy);
}

}  // namespace
}  // namespace ripc::internal::test
