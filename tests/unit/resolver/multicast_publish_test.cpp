// SPDX-License-Identifier: Apache-2.0
// Who gets an ID, when contexts know of each other only by multicast.
#include <thread>

#include "multicast_helpers.hpp"

namespace ripc::internal::test {
namespace {

class MulticastPublish : public MulticastTest {
 protected:
  // Asks for longer than a busy machine takes to answer.
  static MulticastOptions patient(MulticastOptions options) {
    options.probe_time = 1'000'000'000;
    return options;
  }

  const MulticastOptions options_ = loopback_options();
  MulticastContext holder_{options_};
  MulticastContext other_{patient(options_)};
};

TEST_F(MulticastPublish, AnIdThatLivesElsewhereIsRefused) {
  holder_.publish(7, "");
  spi::ServiceRecord record = other_.record(7);
  const Status status = other_->publish(record, false, nullptr);
  EXPECT_EQ(status.code(), RIPC_ID_IN_USE);
  EXPECT_TRUE(mentions(status, "takeover"));
  EXPECT_EQ(other_.resolve(7)->context, holder_.id());
}

TEST_F(MulticastPublish, TheHashOfAnotherNameIsRefusedEvenWithTakeover) {
  // No two names with the same ID are known, so this record has the ID of one name and the text of another.
  holder_.publish(*core::id_of_name("files"), "files");
  spi::ServiceRecord record = other_.record(*core::id_of_name("files"), "logs");
  EXPECT_EQ(other_->publish(record, true, nullptr).code(), RIPC_INVALID_ARGUMENT);
}

TEST_F(MulticastPublish, TakeoverGetsALargerIncarnationNamesTheFormerHolderAndSilencesIt) {
  const spi::ServiceRecord before = holder_.publish(7);
  spi::ServiceRecord record = other_.record(7);
  std::vector<spi::ServiceRecord> displaced;
  ASSERT_TRUE(other_->publish(record, true, &displaced).ok());
  EXPECT_GT(record.incarnation, before.incarnation);
  ASSERT_EQ(displaced.size(), 1U);
  EXPECT_EQ(displaced.front(), before);
  ASSERT_TRUE(eventually([&] { return holder_->counters().conflicts != 0; })) << "it hears the announcement";
  EXPECT_EQ(*holder_.resolve(7), record) << "and knows the new holder";
  MulticastContext asker(options_);
  EXPECT_EQ(*asker.resolve(7), record);
  holder_->withdraw(before);
  MulticastContext late(options_);
  EXPECT_EQ(*late.resolve(7), record) << "the end of the former holder does not count";
}

TEST_F(MulticastPublish, AFormerHolderLearnsOfItsSuccessorByAskingThoughItHasTheIdItself) {
  const spi::ServiceRecord former = holder_.publish(7);
  EXPECT_EQ(holder_->successor(former, Deadline::after(100'000'000)).status().code(), RIPC_NO_SERVICE);
  spi::ServiceRecord record = other_.record(7);
  ASSERT_TRUE(other_->publish(record, true, nullptr).ok());
  // Asks at once, while the announcement may still be on its way.
  const Result<spi::ServiceRecord> found = holder_->successor(former, Deadline::after(5'000'000'000));
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
  EXPECT_EQ(other_->successor(record, Deadline::after(100'000'000)).status().code(), RIPC_NO_SERVICE)
      << "the former is not the successor of the new one";
}

TEST_F(MulticastPublish, AnIncarnationAheadOfTheClockIsExceeded) {
  spi::ServiceRecord ahead = holder_.record(7);
  ahead.incarnation = realtime_now() + 3'600'000'000'000;
  ASSERT_TRUE(holder_->publish(ahead, false, nullptr).ok());
  spi::ServiceRecord record = other_.record(7);
  ASSERT_TRUE(other_->publish(record, true, nullptr).ok());
  EXPECT_GT(record.incarnation, ahead.incarnation);
}

TEST_F(MulticastPublish, AnIncarnationThatIsAlreadyLargerIsKept) {
  spi::ServiceRecord record = holder_.record(7);
  const std::uint64_t wanted = realtime_now() + 1'000'000;
  record.incarnation = wanted;
  ASSERT_TRUE(holder_->publish(record, false, nullptr).ok());
  EXPECT_EQ(record.incarnation, wanted);
}

TEST_F(MulticastPublish, AnIdThatWasWithdrawnIsFree) {
  const spi::ServiceRecord before = holder_.publish(7);
  holder_->withdraw(before);
  EXPECT_GT(other_.publish(7).incarnation, before.incarnation);
}

TEST_F(MulticastPublish, OneOfTwoContextsThatWantAnIdGetsIt) {
  // Both ask for so long that each hears the other's question.
  MulticastContext one(patient(options_));
  MulticastContext two(patient(options_));
  for (ripc_service_id id = 20; id < 22; ++id) {
    Status first;
    Status second;
    std::thread thread([&] {
      spi::ServiceRecord record = one.record(id);
      first = one->publish(record, false, nullptr);
    });
    spi::ServiceRecord record = two.record(id);
    second = two->publish(record, false, nullptr);
    thread.join();
    EXPECT_NE(first.ok(), second.ok()) << id;
    EXPECT_EQ(first.ok() ? second.code() : first.code(), RIPC_ID_IN_USE);
  }
}

TEST_F(MulticastPublish, RandomIdsAreNotAskedFor) {
  const std::uint64_t asked = holder_->counters().questions_sent;
  holder_.publish((ripc_service_id{3} << 62) | 5);
  EXPECT_EQ(holder_->counters().questions_sent, asked);
}

TEST_F(MulticastPublish, PublicationsThatComeTogetherShareAnnouncements) {
  std::vector<spi::ServiceRecord> records;
  const Nanoseconds started = monotonic_now();
  for (ripc_service_id id = 1; id <= 100; ++id) records.push_back(holder_.publish((ripc_service_id{3} << 62) | id));
  // One packet announces everything that is published within 10 ms, or a few packets if it does not fit into one. The
  // announcement is repeated a second later.
  const std::uint64_t gathered = (monotonic_now() - started) / 10'000'000 + 1;
  for (const spi::ServiceRecord& record : records) EXPECT_TRUE(other_.learns(record));
  EXPECT_LE(holder_->counters().announcements_sent, 2 * (gathered + 2));
}

TEST_F(MulticastPublish, TheEndOfAContextTellsWhatWasWithdrawn) {
  const spi::ServiceRecord record = holder_.publish(7);
  ASSERT_TRUE(other_.learns(record));
  holder_->withdraw(record);
  holder_.end();
  EXPECT_TRUE(eventually([&] { return !other_.look(7).ok(); }));
}

TEST_F(MulticastPublish, ARecordThatFitsInNoPacketIsRefusedWithARemedy) {
  spi::ServiceRecord record = holder_.record(7);
  record.addresses = {
      {"socket", std::string(4000, 'a')}, {"verbs", std::string(4000, 'b')}, {"x", std::string(300, 'c')}};
  const Status status = holder_->publish(record, false, nullptr);
  EXPECT_EQ(status.code(), RIPC_LIMIT);
  EXPECT_TRUE(mentions(status, "RIPC_MULTICAST=off"));
  record.addresses.pop_back();
  ASSERT_TRUE(holder_->publish(record, false, nullptr).ok());
  EXPECT_EQ(*other_.resolve(7), record) << "8 KiB travel, in pieces";
  record.addresses = {{"socket", "a\nb"}};
  EXPECT_EQ(holder_->publish(record, false, nullptr).code(), RIPC_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ripc::internal::test
