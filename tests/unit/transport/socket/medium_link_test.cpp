// SPDX-License-Identifier: Apache-2.0
// Links that get their own connection, for packets that are larger than a datagram.
#include "medium_link.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ripc::internal::socket {
namespace {

// Plain and sealed.
class MediumLinkCosts : public MediumLink, public ::testing::WithParamInterface<bool> {
 protected:
  MediumLinkCosts() : MediumLink(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Sealed, MediumLinkCosts, ::testing::Bool());

TEST_F(MediumLink, PacketsLargerThanADatagramGoOnceThePathIsPreparedForThem) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->packet_limit(), wire::datagram::kMaxRecordPacket);
  ASSERT_LT(channel->ready_limit(), wire::datagram::kMaxRecordPacket);
  const std::string large(wire::datagram::kMaxRecordPacket, 'x');
  EXPECT_EQ(send_text(*channel, large), RIPC_TOO_LARGE);
  EXPECT_EQ(channel->widen(wire::datagram::kMaxRecordPacket + 1), RIPC_TOO_LARGE);
  ASSERT_EQ(channel->widen(wire::datagram::kMaxRecordPacket), RIPC_OK);
  EXPECT_EQ(channel->ready_limit(), wire::datagram::kMaxRecordPacket);
  ASSERT_EQ(send_text(*channel, large), RIPC_OK);
  EXPECT_EQ(send_text(*channel, large + 'x'), RIPC_TOO_LARGE);
  ASSERT_TRUE(poll_until(1));
  EXPECT_EQ(sink_.packets[0].second, large);
  EXPECT_EQ(sink_.large, 1) << "it is not copied";
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("messages go over TCP"), std::string::npos);
}

TEST_F(MediumLink, AConnectionMayBeBegunWithoutWaitingForIt) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const std::size_t largest = wire::datagram::kMaxRecordPacket;
  EXPECT_EQ(channel->begin_to_widen(largest + 1), RIPC_TOO_LARGE);
  {
    const Halt halt(receiver_);
    EXPECT_EQ(channel->begin_to_widen(largest), RIPC_PENDING);
    EXPECT_EQ(channel->begin_to_widen(largest), RIPC_PENDING);
  }
  EXPECT_TRUE(eventually([&] { return channel->begin_to_widen(largest) == RIPC_OK; }));
}

TEST_F(MediumLink, ThreadsThatWidenAtOnceShareOneConnection) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const std::size_t before = streams().size();
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int count = 0; count < 4; ++count) threads.emplace_back([&] { done += grows(*channel) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done.load(), 4);
  EXPECT_EQ(streams().size(), before + 2) << "both ends are in this process";
}

// No one answers: the peer's responder does not run.
TEST_F(MediumLink, APeerThatMakesNoConnectionLowersTheLimitForAWhile) {
  TransportOptions options;
  options.peer_timeout = 400'000'000;
  Node impatient(options);
  const auto channel = impatient.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  {
    const Halt halt(receiver_);
    EXPECT_EQ(channel->widen(wire::datagram::kMaxRecordPacket), RIPC_TOO_LARGE);
    EXPECT_EQ(channel->packet_limit(), channel->ready_limit());
    EXPECT_EQ(send_text(*channel, "small"), RIPC_OK);
  }
  ASSERT_TRUE(eventually([&] { return channel->packet_limit() == wire::datagram::kMaxRecordPacket; }));
  EXPECT_TRUE(grows(*channel));
}

TEST_F(MediumLink, LinksOfTheSideThatAcceptedTheSessionWidenToo) {
  const auto there = sender_.channel(receiver_);
  ASSERT_NE(there, nullptr);
  EventSet events(std::move(EventSet::create().value()));
  const auto port = sender_.open_port(events, 8);
  const auto back = receiver_.channel(sender_, 8);
  ASSERT_NE(back, nullptr);
  ASSERT_TRUE(back->session()->incoming) << "the same session";
  ASSERT_TRUE(grows(*back));
  const std::string large(100'000, 'y');
  ASSERT_EQ(send_text(*back, large), RIPC_OK);
  CollectingSink sink;
  ASSERT_TRUE(eventually([&] {
    (void)port->poll(sink, 64);
    return sink.packets.size() == 1;
  }));
  EXPECT_EQ(sink.packets[0].second, large);
}

TEST_F(MediumLink, PacketsOfAllSizesArriveOnceWholeAndInOrderAlsoThoseFromBeforeTheConnection) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  constexpr std::size_t kCount = 3000;
  const auto text_of = [](std::size_t number) {
    return std::to_string(number) + std::string(number % 7 == 0 ? number * 37 % 60'000 : 10, 'x');
  };
  for (std::size_t number = 0; number < kCount; ++number) {
    if (number == kCount / 3) {
      ASSERT_TRUE(grows(*channel));
    }
    ASSERT_TRUE(eventually([&] {
      const ripc_status status = send_text(*channel, text_of(number));
      if (status == RIPC_AGAIN) (void)port_->poll(sink_, 64);
      return status == RIPC_OK;
    })) << number;
  }
  ASSERT_TRUE(poll_until(kCount));
  for (std::size_t number = 0; number < kCount; ++number) ASSERT_EQ(sink_.packets[number].second, text_of(number));
  const spi::PortStatistics statistics = port_->statistics();
  EXPECT_EQ(statistics.lost + statistics.late + statistics.duplicates + statistics.corrupt, 0u);
}

TEST_P(MediumLinkCosts, AMediumMessageTakesOneSystemCallOnEachSide) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::uint64_t sent = channel->send_calls();
  const std::uint64_t received = port_->counters().receive_calls.load();
  const std::uint64_t credits = port_->counters().credit_calls.load();
  const std::string medium(16'000, 'z');
  for (std::size_t number = 0; number < 20; ++number) {
    ASSERT_EQ(send_text(*channel, medium), RIPC_OK);
    // On loopback, the message has arrived when the call returns.
    ASSERT_EQ(port_->poll(sink_, 64), 1u);
  }
  EXPECT_EQ(channel->send_calls() - sent, 20u);
  EXPECT_EQ(port_->counters().receive_calls.load() - received, 20u);
  EXPECT_EQ(port_->counters().credit_calls.load(), credits);
}

TEST_P(MediumLinkCosts, ManyMessagesOfOneCallTakeOneSystemCallToSend) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::string body(50, 'm');
  const Plains plains(std::vector<std::string>(64, body));
  const std::uint64_t before = channel->send_calls();
  std::size_t sent = 0;
  ASSERT_EQ(channel->send_many(plains.messages, sent), RIPC_OK);
  EXPECT_EQ(sent, 64u);
  EXPECT_EQ(channel->send_calls() - before, 1u);
  ASSERT_TRUE(poll_until(64));
  for (const auto& [source, packet] : sink_.packets) EXPECT_EQ(packet.substr(wire::packet_size(1, 0)), body);
}

TEST_F(MediumLink, ManyMessagesOfOneCallMakeAConnectionAndNoneIsLostOnTheWayToIt) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::size_t taken = 0;
  const auto send_batch = [&] {
    std::vector<std::string> texts;
    for (std::size_t number = 0; number < 16; ++number) texts.push_back(std::to_string(taken + number));
    const Plains plains(std::move(texts));
    std::size_t sent = 0;
    (void)channel->send_many(plains.messages, sent);
    taken += sent;
    (void)port_->poll(sink_, 64);
  };
  ASSERT_TRUE(eventually([&] {
    send_batch();
    return channel->ready_limit() == wire::datagram::kMaxRecordPacket;
  }));
  for (int round = 0; round < 10; ++round) send_batch();
  ASSERT_TRUE(poll_until(taken));
  for (std::size_t number = 0; number < taken; ++number)
    ASSERT_EQ(sink_.packets[number].second.substr(wire::packet_size(1, 0)), std::to_string(number));
  EXPECT_EQ(port_->statistics().lost, 0u);
}

TEST_F(MediumLink, AThreadThatWaitsLetsGoWhatWasHeldForIt) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  for (std::size_t burst = 1; burst <= 20; ++burst) {
    for (std::size_t number = 0; number < 50; ++number) ASSERT_EQ(send_text(*channel, "burst"), RIPC_OK);
    HeldSends::let_all_go();
    // On loopback, everything has arrived when the call returns.
    while (port_->poll(sink_, 64) != 0) {
    }
    ASSERT_EQ(sink_.packets.size(), 50 * burst);
  }
}

TEST_F(MediumLink, TheLastMessagesOfABurstNeedNoFurtherOneToArrive) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  for (std::size_t burst = 1; burst <= 20; ++burst) {
    for (std::size_t number = 0; number < 500; ++number) ASSERT_EQ(send_text(*channel, "burst"), RIPC_OK);
    ASSERT_TRUE(poll_until(500 * burst));
  }
  EXPECT_EQ(sink_.packets.size(), 500u * 20);
}

TEST_F(MediumLink, AFullConnectionTakesNothingMoreUntilTheReceiverReadsAndNothingIsLost) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::string large(100'000, 'f');
  std::size_t sent = 0;
  while (send_text(*channel, large) == RIPC_OK) {
    ASSERT_LT(++sent, 100u) << "what lies in buffers has a bound";
  }
  EXPECT_FALSE(channel->has_room(true));
  ASSERT_TRUE(poll_until(sent));
  ASSERT_TRUE(eventually([&] { return sender_.host().rooms() == 1; }));
  EXPECT_EQ(send_text(*channel, large), RIPC_OK);
  ASSERT_TRUE(poll_until(sent + 1));
  for (const auto& [source, packet] : sink_.packets) ASSERT_EQ(packet, large);
  EXPECT_EQ(port_->statistics().lost, 0u);
}

// The kernel enlarges a socket's buffer while it is read fast, and then lets the peer send more ahead.
TEST_F(MediumLink, HowMuchLiesUnreadIsBoundedHoweverMuchWasReadBefore) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::string small(40, 's');
  constexpr std::size_t kMostBytes = std::size_t{12} << 20;
  for (int round = 0; round < 30; ++round) {
    std::size_t taken = 0;
    while (send_text(*channel, small) == RIPC_OK) ++taken;
    ASSERT_LT(taken * small.size(), kMostBytes) << "in round " << round;
    ASSERT_TRUE(poll_until(taken));
    ASSERT_TRUE(eventually([&] { return channel->has_room(false); }));
    sink_.packets.clear();
  }
}

TEST_F(MediumLink, AReceiverThatDoesNotReadForLongLosesNothing) {
  constexpr Nanoseconds kTimeout = 100'000'000;
  TransportOptions options;
  options.peer_timeout = kTimeout;
  Node impatient(options);
  const auto channel = impatient.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  ASSERT_TRUE(grows(*channel));
  std::size_t taken = 0;
  while (send_text(*channel, "waits") == RIPC_OK) ++taken;
  const Nanoseconds full = monotonic_now();
  ASSERT_TRUE(eventually([&] { return monotonic_now() - full > 10 * kTimeout; }));
  while (send_text(*channel, "waits") == RIPC_OK) ++taken;
  ASSERT_TRUE(poll_until(taken));
  EXPECT_EQ(port_->statistics().lost, 0u);
}

// Its last record is read together with others, and stays where no event tells of it.
TEST_F(SealedMediumLink, ASleepingReceiverTakesTheFirstPacketOfAConnectionWhole) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  ASSERT_TRUE(grows(*channel));
  const std::string medium(80'000, 'm');
  ASSERT_EQ(send_text(*channel, medium), RIPC_OK);
  while (sink_.packets.empty()) {
    ASSERT_EQ(events_.sleep(Deadline::after(kLimit), monotonic_now()), RIPC_OK);
    events_.drain();
    (void)port_->poll(sink_, 64);
  }
  EXPECT_EQ(sink_.packets[0].second, medium);
}

TEST_F(MediumLink, ASleepingReceiverIsWoken) {
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  for (int number = 0; number < 20; ++number) {
    (void)port_->arm(true);
    while (port_->poll(sink_, 64) != 0) continue;
    events_.drain();
    ASSERT_EQ(send_text(*channel, std::string(30'000, 'w')), RIPC_OK);
    ASSERT_EQ(events_.sleep(Deadline::after(kLimit), monotonic_now()), RIPC_OK) << number;
    (void)port_->arm(false);
    ASSERT_TRUE(poll_until(static_cast<std::size_t>(number) + 1));
  }
}

}  // namespace
}  // namespace ripc::internal::socket
