// SPDX-License-Identifier: Apache-2.0
// The multicast resolver over several networks at once.
#include <string>
#include <thread>
#include <vector>

#include "fake_network.hpp"
#include "spi/holder_rules.hpp"

namespace ripc::internal::test {
namespace {

class MulticastNetworks : public ::testing::Test {
 protected:
  // A record that takes about `size` bytes, which no other ID shares.
  static spi::ServiceRecord large_record(const MulticastContext& holder, ripc_service_id id, std::size_t size) {
    spi::ServiceRecord record = holder.record(id);
    record.addresses.push_back({"socket", std::string(size, static_cast<char>('a' + id))});
    return record;
  }

  FakeWire one_, other_;
  const MulticastOptions options_ = test::wire_options();
};

TEST_F(MulticastNetworks, AQuestionGoesOutOnEachAndAnAnswerFromAnyIsTaken) {
  MulticastContext here(options_, networks_on(one_));
  MulticastContext there(options_, networks_on(other_));
  MulticastContext asker(options_, networks_on(one_, other_));
  const spi::ServiceRecord first = here.publish(7);
  const spi::ServiceRecord second = there.publish(8);
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, first);
  const Result<spi::ServiceRecord> found_there = asker.resolve(8);
  ASSERT_TRUE(found_there.ok()) << found_there.status().text();
  EXPECT_EQ(*found_there, second);
}

TEST_F(MulticastNetworks, AQuestionHeardByBothIsAnsweredOnce) {
  MulticastContext holder(options_, networks_on(one_, other_));
  const spi::ServiceRecord record = holder.publish(7);
  ASSERT_TRUE(eventually([&] { return one_.to_group == 2 && other_.to_group == 2; })) << "both announcements";
  MulticastContext asker(options_, networks_on(one_, other_));
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
  // On a busy machine the asker may ask again.
  const auto questions = asker->counters().questions_sent;
  EXPECT_TRUE(eventually([&] { return holder->counters().copies == questions; }));
  EXPECT_EQ(holder->counters().replies_sent, questions);
}

TEST_F(MulticastNetworks, IfRepliesByOneAreLostThoseByTheOtherAreReceived) {
  for (FakeWire* lossy : {&one_, &other_}) {
    one_.loses_replies = other_.loses_replies = false;
    lossy->loses_replies = true;
    MulticastContext holder(options_, networks_on(one_, other_));
    const spi::ServiceRecord record = holder.publish(7);
    // From here on no announcements are sent.
    ASSERT_TRUE(eventually([&] { return holder->counters().announcements_sent == 2; }));
    MulticastContext asker(options_, networks_on(one_, other_));
    const Result<spi::ServiceRecord> found = asker.resolve(7);
    ASSERT_TRUE(found.ok()) << found.status().text();
    EXPECT_EQ(*found, record);
  }
}

TEST_F(MulticastNetworks, ASecondAnswerChangesNothing) {
  MulticastContext holder(options_, networks_on(one_, other_));
  const spi::ServiceRecord record = holder.publish(7);
  ASSERT_TRUE(eventually([&] { return holder->counters().announcements_sent == 2; }));
  MulticastContext asker(options_, networks_on(one_, other_));
  one_.lost_questions = other_.lost_questions = 1;
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  ASSERT_TRUE(eventually([&] { return asker->counters().packets_received >= 2; })) << "one by each network";
  const Result<spi::ServiceRecord> known = asker.look(7);
  ASSERT_TRUE(known.ok()) << known.status().text();
  EXPECT_EQ(*known, record);
  EXPECT_EQ(asker->counters().malformed, 0U);
}

TEST_F(MulticastNetworks, OneThatCannotSendIsCountedAndTheOtherFinds) {
  MulticastContext holder(options_, networks_on(one_, other_));
  const spi::ServiceRecord record = holder.publish(7);
  one_.cannot_send = true;
  MulticastContext asker(options_, networks_on(one_, other_));
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
  EXPECT_GE(asker->counters().send_failures, 1U);
}

TEST_F(MulticastNetworks, AnnouncementsAreReceivedByEither) {
  MulticastContext left(options_, networks_on(one_));
  MulticastContext right(options_, networks_on(other_));
  MulticastContext holder(options_, networks_on(one_, other_));
  const spi::ServiceRecord record = holder.publish(7);
  EXPECT_TRUE(left.learns(record));
  EXPECT_TRUE(right.learns(record));
}

TEST_F(MulticastNetworks, ARecordTooLargeForOneIsSentByTheOther) {
  one_.packet_limit = 512;
  MulticastContext holder(options_, networks_on(one_, other_));
  spi::ServiceRecord record = large_record(holder, 7, 800);
  ASSERT_TRUE(holder->publish(record, false, nullptr).ok());
  ASSERT_TRUE(eventually([&] { return holder->counters().announcements_sent == 2; }));
  MulticastContext asker(options_, networks_on(one_, other_));
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
  MulticastContext lister(options_, networks_on(one_, other_));
  EXPECT_TRUE(eventually([&] {
    bool is_listed = false;
    EXPECT_TRUE(
        lister->list([&](const spi::ServiceRecord& listed) { is_listed = is_listed || listed == record; }).ok());
    return is_listed;
  }));
  EXPECT_EQ(holder->counters().send_failures, 0U);
}

TEST_F(MulticastNetworks, ARecordTooLargeForAllIsRefusedWithTheLimit) {
  one_.packet_limit = 512;
  other_.packet_limit = 700;
  MulticastContext holder(options_, networks_on(one_, other_));
  spi::ServiceRecord record = large_record(holder, 7, 800);
  const Status status = holder->publish(record, false, nullptr);
  EXPECT_EQ(status.code(), RIPC_LIMIT);
  EXPECT_TRUE(mentions(status, "700 bytes")) << status.text();
}

// For example because a port of the fabric comes later.
TEST_F(MulticastNetworks, ALimitThatShrinksCountsFromThenOn) {
  MulticastContext holder(options_, networks_on(one_));
  MulticastContext listener(options_, networks_on(one_));
  one_.packet_limit = 512;
  std::vector<spi::ServiceRecord> records;
  for (ripc_service_id id = 7; id <= 10; ++id) records.push_back(large_record(holder, id, 300));
  for (spi::ServiceRecord& record : records) ASSERT_TRUE(holder->publish(record, false, nullptr).ok());
  for (const spi::ServiceRecord& record : records) EXPECT_TRUE(listener.learns(record));
  spi::ServiceRecord large = large_record(holder, 11, 800);
  EXPECT_EQ(holder->publish(large, false, nullptr).code(), RIPC_LIMIT);
}

// Another context wants the same ID, over a network that cannot carry the record.
TEST_F(MulticastNetworks, AnIdUnderProbeIsNotAnnounced) {
  one_.packet_limit = 512;
  MulticastOptions asking = options_;
  asking.probe_time = kMulticastPatience;
  MulticastContext asker(asking, networks_on(one_, other_));
  MulticastContext listener(options_, networks_on(other_));
  FakeNetwork rival(one_);
  std::thread thread([&] {
    spi::ServiceRecord record = large_record(asker, 7, 800);
    EXPECT_EQ(asker->publish(record, false, nullptr).code(), RIPC_ID_IN_USE);
  });
  std::vector<std::byte> buffer(spi::kMaxPacket);
  spi::ReceivedPacket received;
  EXPECT_TRUE(eventually([&] { return rival.receive(0, buffer, received) == spi::Arrival::packet; }));
  PacketHeader probe;
  EXPECT_EQ(spi::decode_header(received.bytes, probe), spi::DecodeStatus::ok);
  probe.context = 4711;
  ++probe.nonce;
  probe.number = spi::kMaxIncarnation;
  EXPECT_EQ(rival.send_to_groups(PacketBuilder(probe, spi::Seal()).finish()).packets, 1U);
  // Now the holder of the ID answers.
  PacketHeader reply = probe;
  reply.type = PacketType::reply;
  reply.is_probe = false;
  --reply.nonce;
  reply.number = 0;
  spi::ServiceRecord held = listener.record(7);
  held.context = reply.context;
  held.incarnation = 1;
  PacketBuilder answer(reply, spi::Seal());
  EXPECT_TRUE(answer.add(held, false));
  EXPECT_EQ(rival.send_to(received.from, answer.finish(true)).packets, 1U);
  thread.join();
  EXPECT_TRUE(listener.learns(asker.publish(ripc_service_id{3} << 62)));
  EXPECT_FALSE(listener.look(7).ok()) << "it was not the asker's";
}

TEST_F(MulticastNetworks, AWaitingThreadAsksAgainWhenAGroupIsJoined) {
  one_.joins_at_first_question = true;
  MulticastContext asker(options_, networks_on(one_));
  EXPECT_TRUE(asker->list([](const spi::ServiceRecord&) {}).ok());
  EXPECT_EQ(asker->counters().questions_sent, 2U) << "a list that hears nothing has one round otherwise";
}

TEST_F(MulticastNetworks, WithoutAnyTheErrorSaysWhatIsWrong) {
  MulticastContext asker(options_);
  const Result<spi::ServiceRecord> found = asker->resolve(7, Deadline::after(30'000'000));
  EXPECT_EQ(found.status().code(), RIPC_NO_SERVICE);
  EXPECT_TRUE(mentions(found.status(), "could not be asked")) << found.status().text();
}

}  // namespace
}  // namespace ripc::internal::test
