// SPDX-License-Identifier: Apache-2.0
// Packets that lie. With a cluster key, no packet that is forged, replayed or unsigned has any effect.
#include "multicast_helpers.hpp"

namespace ripc::internal::test {
namespace {

spi::ServiceRecord false_record(ripc_service_id id, std::uint64_t incarnation = realtime_now()) {
  spi::ServiceRecord record;
  record.id = id;
  record.incarnation = incarnation;
  record.context = 4711;
  record.addresses = {{"socket", "ctx=evil"}};
  return record;
}

bool is_question_for(const PacketHeader& header, ripc_service_id id) {
  return header.type == PacketType::question && header.id == id;
}

class MulticastHostile : public MulticastTest {
 protected:
  const MulticastOptions options_ = loopback_options();
  MulticastContext victim_{options_};
  Outsider outsider_{options_};
};

TEST_F(MulticastHostile, RepliesNoOneAskedForChangeNothing) {
  // The victim asks, so that the outsider knows where it listens. The outsider then answers with another nonce or ID.
  std::thread asking([&] { EXPECT_FALSE(victim_->resolve(50, Deadline::after(500'000'000)).ok()); });
  spi::PeerAddress to;
  const std::vector<std::byte> question =
      outsider_.hear([](const PacketHeader& header) { return is_question_for(header, 50); }, &to);
  ASSERT_FALSE(question.empty());
  PacketHeader asked;
  ASSERT_EQ(spi::decode_header(question, asked), spi::DecodeStatus::ok);
  PacketHeader reply = outsider_.header(PacketType::reply);
  reply.is_last = true;
  reply.id = 50;
  outsider_.send_to(to, outsider_.packet(reply, {false_record(50)}));
  reply.nonce = asked.nonce;
  reply.id = 51;
  outsider_.send_to(to, outsider_.packet(reply, {false_record(51)}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().unsolicited == 2; }));
  asking.join();
  EXPECT_FALSE(victim_.look(50).ok());
  EXPECT_FALSE(victim_.look(51).ok());
}

TEST_F(MulticastHostile, AReplyThatComesAfterTheQuestionIsOverChangesNothing) {
  std::thread asking([&] { EXPECT_FALSE(victim_->resolve(50, Deadline::after(50'000'000)).ok()); });
  spi::PeerAddress to;
  const std::vector<std::byte> question =
      outsider_.hear([](const PacketHeader& header) { return is_question_for(header, 50); }, &to);
  asking.join();
  PacketHeader reply;
  ASSERT_EQ(spi::decode_header(question, reply), spi::DecodeStatus::ok);
  reply.type = PacketType::reply;
  reply.context = 4711;
  reply.is_last = true;
  outsider_.send_to(to, outsider_.packet(reply, {false_record(50)}));
  // The victim reads the late reply during its next question.
  EXPECT_FALSE(victim_->resolve(51, Deadline::after(50'000'000)).ok());
  EXPECT_EQ(victim_->counters().unsolicited, 1U);
  EXPECT_FALSE(victim_.look(50).ok());
}

TEST_F(MulticastHostile, AReplyToTheGroupIsRefused) {
  PacketHeader reply = outsider_.header(PacketType::reply);
  reply.is_last = true;
  reply.id = 50;
  outsider_.send(outsider_.packet(reply, {false_record(50)}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().malformed == 1; }));
}

TEST_F(MulticastHostile, OlderIncarnationsNeverTakeThePlaceOfNewerOnes) {
  MulticastContext holder(options_);
  const spi::ServiceRecord record = holder.publish(7);
  ASSERT_TRUE(victim_.learns(record));
  const PacketHeader header = outsider_.header(PacketType::announcement);
  outsider_.send(outsider_.packet(header, {false_record(7, record.incarnation - 1)}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().outdated == 1; }));
  EXPECT_EQ(*victim_.look(7), record);
}

TEST_F(MulticastHostile, ACopyOfAPacketIsDropped) {
  const PacketHeader header = outsider_.header(PacketType::announcement);
  const std::vector<std::byte> packet = outsider_.packet(header, {false_record(7)});
  outsider_.send(packet);
  outsider_.send(packet);
  EXPECT_TRUE(eventually([&] { return came_again(victim_->counters()) == 1; }));
  EXPECT_TRUE(victim_.look(7).ok()) << "without a key anybody may announce: docs/security.md says so";
}

TEST_F(MulticastHostile, PacketsOfAnotherVersionAndBrokenOnesAreCountedApart) {
  const PacketHeader header = outsider_.header(PacketType::announcement);
  std::vector<std::byte> packet = outsider_.packet(header, {false_record(7)});
  packet[4] = std::byte{1};
  outsider_.send(packet);
  packet[4] = std::byte{spi::kPacketVersion};
  packet.resize(packet.size() - 1);
  outsider_.send(packet);
  outsider_.send(std::vector<std::byte>(1));
  EXPECT_TRUE(eventually([&] { return victim_->counters().other_version == 1 && victim_->counters().malformed == 2; }));
  const Status status = victim_->resolve(7, Deadline::after(100'000'000)).status();
  EXPECT_EQ(status.code(), RIPC_NO_SERVICE);
  EXPECT_NE(status.text().find("another version of libripc"), std::string_view::npos) << status.text();
}

TEST_F(MulticastHostile, QuestionsAreAnsweredAtALimitedRate) {
  victim_.publish(7);
  for (int i = 0; i < 100; ++i) outsider_.send(outsider_.packet(outsider_.header(PacketType::question), {}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().packets_received >= 100; }));
  EXPECT_GT(victim_->counters().limited, 0U) << "for all services";
}

// ---- With a key ----------------------------------------------------------------------------------------------

class MulticastKeyed : public MulticastTest {
 protected:
  std::uint64_t packets_refused() const {
    return security::Counters::read(options_.credentials.counters->packets_forged);
  }
  const MulticastOptions options_ = loopback_options(kKeyText);
  MulticastContext victim_{options_};
  Outsider outsider_{options_};
};

TEST_F(MulticastKeyed, MembersFindEachOther) {
  MulticastContext holder(options_);
  const spi::ServiceRecord record = holder.publish(7);
  MulticastContext asker(options_);
  EXPECT_EQ(*asker.resolve(7), record);
}

TEST_F(MulticastKeyed, UnsignedPacketsChangeNothingAndGetNoReply) {
  victim_.publish(8);
  outsider_.send(outsider_.packet(outsider_.header(PacketType::announcement), {false_record(7)}));
  PacketHeader question = outsider_.header(PacketType::question);
  question.id = 8;
  outsider_.send(outsider_.packet(question, {false_record(9)}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().unsigned_ones == 2; }));
  EXPECT_TRUE(eventually([&] { return packets_refused() == 2; }));
  EXPECT_FALSE(victim_.look(7).ok());
  EXPECT_FALSE(victim_.look(9).ok());
  EXPECT_EQ(victim_->counters().replies_sent, 0U);
}

TEST_F(MulticastKeyed, PacketsWithAWrongMacChangeNothing) {
  const auto other = make_keys(kOtherKeyText);
  outsider_.send(outsider_.packet(outsider_.header(PacketType::announcement), {false_record(7)}, other.get()));
  std::vector<std::byte> changed =
      outsider_.packet(outsider_.header(PacketType::announcement), {false_record(7)}, options_.credentials.keys.get());
  // One bit of the incarnation's time stamp.
  changed[16] ^= std::byte{1};
  outsider_.send(changed);
  EXPECT_TRUE(eventually([&] { return victim_->counters().forged == 2; }));
  EXPECT_TRUE(eventually([&] { return packets_refused() == 2; }));
  EXPECT_FALSE(victim_.look(7).ok());
}

TEST_F(MulticastKeyed, AForgedReplyToAQuestionChangesNothing) {
  std::thread asking([&] { EXPECT_FALSE(victim_->resolve(50, Deadline::after(500'000'000)).ok()); });
  spi::PeerAddress to;
  const std::vector<std::byte> question =
      outsider_.hear([](const PacketHeader& header) { return is_question_for(header, 50); }, &to);
  PacketHeader reply;
  ASSERT_EQ(spi::decode_header(question, reply), spi::DecodeStatus::ok);
  reply.type = PacketType::reply;
  reply.context = 4711;
  reply.is_last = true;
  outsider_.send_to(to, outsider_.packet(reply, {false_record(50)}, make_keys(kOtherKeyText).get()));
  outsider_.send_to(to, outsider_.packet(reply, {false_record(50)}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().forged == 1 && victim_->counters().unsigned_ones == 1; }));
  asking.join();
  EXPECT_FALSE(victim_.look(50).ok());
}

// Every asker gets the hint that there are hosts with another key, whatever it asks for.
TEST_F(MulticastKeyed, AnAskerWithAnotherKeyOrNoneLearnsThatThereIsOne) {
  victim_.publish(8);
  for (const std::string& key : {kOtherKeyText, std::string()}) {
    MulticastOptions strange = options_;
    strange.credentials.keys = key.empty() ? nullptr : make_keys(key);
    MulticastContext stranger(strange);
    for (const ripc_service_id id : {ripc_service_id{8}, ripc_service_id{9}}) {
      std::string text;
      // Hints are sent rarely, so the second question may have to wait for its hint.
      EXPECT_TRUE(eventually([&] {
        const Result<spi::ServiceRecord> found = stranger->resolve(id, Deadline::after(100'000'000));
        EXPECT_EQ(found.status().code(), RIPC_NO_SERVICE);
        text = found.status().text();
        return text.find("key file") != std::string::npos;
      })) << text;
    }
  }
}

TEST_F(MulticastKeyed, AHintSaysNothingElseAndIsOfNoUseToItsReceiver) {
  victim_.publish(8);
  std::vector<std::size_t> sizes;
  for (const ripc_service_id id : {ripc_service_id{8}, ripc_service_id{9}}) {
    PacketHeader question = outsider_.header(PacketType::question);
    question.id = id;
    std::vector<std::byte> hint;
    const auto is_answer = [&](const PacketHeader& header) {
      return header.type == PacketType::reply && header.nonce == question.nonce;
    };
    EXPECT_TRUE(eventually([&] {
      outsider_.send(outsider_.packet(question, {}));
      hint = outsider_.hear(is_answer, nullptr, 50'000'000);
      return !hint.empty();
    }));
    sizes.push_back(hint.size());
    EXPECT_FALSE(spi::verify_packet(hint, *options_.credentials.keys)) << "a member would believe it";
  }
  EXPECT_EQ(sizes[0], sizes[1]) << "it says whether the service is there";
  EXPECT_LT(sizes[0], 100U) << "it makes an attack larger";
}

TEST_F(MulticastKeyed, HintsAreFew) {
  victim_.publish(8);
  const PacketHeader question = outsider_.header(PacketType::question);
  for (int i = 0; i < 100; ++i) outsider_.send(outsider_.packet(question, {}));
  EXPECT_TRUE(eventually([&] { return victim_->counters().unsigned_ones == 100; }));
  EXPECT_GE(victim_->counters().hints_sent, 1U);
  EXPECT_LE(victim_->counters().hints_sent, 30U);
}

TEST_F(MulticastKeyed, ReplayedPacketsChangeNothing) {
  MulticastContext holder(options_);
  const spi::ServiceRecord record = holder.publish(7);
  // The packet of a member, byte for byte.
  const std::vector<std::byte> packet =
      outsider_.hear([](const PacketHeader& header) { return header.type == PacketType::announcement; });
  ASSERT_FALSE(packet.empty());
  ASSERT_TRUE(victim_.learns(record));
  holder->withdraw(record);
  ASSERT_TRUE(eventually([&] { return !victim_.look(7).ok(); }));
  outsider_.send(packet);
  EXPECT_TRUE(eventually([&] { return came_again(victim_->counters()) == 1; }));
  EXPECT_FALSE(victim_.look(7).ok());
}

TEST_F(MulticastKeyed, PacketsRecordedLongAgoChangeNothing) {
  PacketHeader old = outsider_.header(PacketType::announcement);
  old.timestamp = realtime_now() - options_.clock_tolerance - 1'000'000'000;
  outsider_.send(outsider_.packet(old, {false_record(7)}, options_.credentials.keys.get()));
  old.timestamp = realtime_now() + options_.clock_tolerance + 60'000'000'000;
  outsider_.send(outsider_.packet(old, {false_record(7)}, options_.credentials.keys.get()));
  EXPECT_TRUE(eventually([&] { return victim_->counters().stale == 2; }));
  EXPECT_EQ(options_.credentials.counters->packets_replayed, 2U);
  EXPECT_FALSE(victim_.look(7).ok());
}

TEST_F(MulticastKeyed, APacketThatComesAgainAfterManyOthersCountsAsRefused) {
  std::vector<std::vector<std::byte>> packets;
  for (std::size_t index = 0; index <= resolver::ReplayGuard::kRemembered; ++index) {
    const PacketHeader header = outsider_.header(PacketType::announcement);
    packets.push_back(outsider_.packet(header, {false_record(7)}, options_.credentials.keys.get()));
  }
  for (const std::vector<std::byte>& packet : packets) outsider_.send(packet);
  const std::uint64_t sent = packets.size();
  ASSERT_TRUE(eventually([&] { return victim_->counters().packets_received >= sent; }));
  EXPECT_EQ(victim_->counters().replayed, 0U);
  outsider_.send(packets.front());
  EXPECT_TRUE(eventually([&] { return victim_->counters().replayed == 1; }));
  EXPECT_EQ(options_.credentials.counters->packets_replayed, 1U);
}

TEST_F(MulticastKeyed, AForgedPacketDoesNotMakeTheTrueOneACopy) {
  PacketHeader header = outsider_.header(PacketType::announcement);
  outsider_.send(outsider_.packet(header, {false_record(7)}, make_keys(kOtherKeyText).get()));
  ASSERT_TRUE(eventually([&] { return victim_->counters().forged == 1; }));
  outsider_.send(outsider_.packet(header, {false_record(7)}, options_.credentials.keys.get()));
  EXPECT_TRUE(eventually([&] { return victim_.look(7).ok(); }));
}

TEST_F(MulticastKeyed, WithoutAKeySignedPacketsAreNotBelieved) {
  MulticastOptions open = options_;
  open.credentials.keys = nullptr;
  MulticastContext keyless(open);
  outsider_.send(
      outsider_.packet(outsider_.header(PacketType::announcement), {false_record(7)}, options_.credentials.keys.get()));
  EXPECT_TRUE(eventually([&] { return keyless->counters().signed_ones == 1; }));
  EXPECT_FALSE(keyless.look(7).ok());
}

TEST_F(MulticastKeyed, AChangeOfTheKeyHasNoGap) {
  const std::array<std::string, 4> states{kKeyText, kKeyText + "\n" + kOtherKeyText, kOtherKeyText + "\n" + kKeyText,
                                          kOtherKeyText};
  const auto with = [&](std::size_t state) {
    MulticastOptions options = options_;
    options.credentials.keys = make_keys(states[state]);
    return options;
  };
  for (std::size_t state = 0; state + 1 < states.size(); ++state) {
    MulticastContext before(with(state));
    MulticastContext after(with(state + 1));
    const spi::ServiceRecord one = before.publish(100 + state);
    const spi::ServiceRecord other = after.publish(200 + state);
    EXPECT_EQ(*before.resolve(other.id), other) << state;
    EXPECT_EQ(*after.resolve(one.id), one) << state;
  }
  MulticastContext old(with(0));
  MulticastContext fresh(with(3));
  fresh.publish(300);
  EXPECT_FALSE(old->resolve(300, Deadline::after(100'000'000)).ok());
}

}  // namespace
}  // namespace ripc::internal::test
