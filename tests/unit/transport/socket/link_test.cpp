// SPDX-License-Identifier: Apache-2.0
// Packets from a channel to a port, and the credits that keep them from being lost.
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <climits>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "link_ends.hpp"
#include "support/failing_allocation.hpp"

namespace {

// Of the sockets for datagrams.
std::atomic<int> sockets_that_can_be_watched{INT_MAX};

}  // namespace

// The executable's function takes precedence over that of the C library.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of the C library are reserved
extern "C" int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
  static const auto kReal = reinterpret_cast<decltype(&::epoll_ctl)>(::dlsym(RTLD_NEXT, "epoll_ctl"));
  int type = 0;
  socklen_t size = sizeof type;
  if (operation == EPOLL_CTL_ADD && sockets_that_can_be_watched != INT_MAX &&
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM &&
      sockets_that_can_be_watched-- <= 0) {
    errno = ENOSPC;
    return -1;
  }
  return kReal(set, operation, fd, event);
}

namespace ripc::internal::socket {
namespace {

// Links that use datagrams only.
class LinkTest : public LinkEnds {
 protected:
  LinkTest() : LinkEnds(false) {}
};

// Plain and sealed.
class LinkCosts : public LinkEnds, public ::testing::WithParamInterface<bool> {
 protected:
  LinkCosts() : LinkEnds(false, GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Sealed, LinkCosts, ::testing::Bool());

TEST_F(LinkTest, PacketsArriveOnceWholeAndInOrder) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  for (int number = 0; number < 100; ++number) ASSERT_EQ(send_text(*channel, std::to_string(number)), RIPC_OK);
  ASSERT_TRUE(poll_until(100));
  for (int number = 0; number < 100; ++number)
    EXPECT_EQ(sink_.packets[static_cast<std::size_t>(number)].second, std::to_string(number));
  EXPECT_EQ(port_->statistics().lost, 0u);
  EXPECT_EQ(port_->statistics().sources, 1u);
}

TEST_P(LinkCosts, AMessageTakesOneSystemCallToSend) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  for (int number = 0; number < 50; ++number) ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  EXPECT_EQ(channel->send_calls(), 50u);
}

TEST_F(LinkTest, ThatMayHaveNoConnectionTakesWhatFitsIntoADatagram) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->packet_limit(), channel->ready_limit());
  EXPECT_EQ(channel->widen(channel->packet_limit() + 1), RIPC_TOO_LARGE);
}

TEST_F(LinkTest, NothingIsLostOfManyMessagesThatFillTheCredit) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const Plains plains(std::vector<std::string>(64, std::string(100, 'x')));
  std::size_t taken = 0;
  for (int round = 0; round < 200; ++round) {
    std::size_t sent = 0;
    const ripc_status status = channel->send_many(plains.messages, sent);
    ASSERT_TRUE(status == RIPC_OK || status == RIPC_AGAIN) << status;
    taken += sent;
    if (status == RIPC_AGAIN) {
      ASSERT_TRUE(poll_until(taken));
    }
  }
  ASSERT_TRUE(poll_until(taken));
  EXPECT_EQ(port_->statistics().lost, 0u);
  EXPECT_GT(taken, 64u);
}

TEST_F(LinkTest, TheQuestionsOfASenderWithoutCreditAreFew) {
  // The questions lie in the receiver's buffer, where the receiver has set some room aside for them.
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::size_t sent = 0;
  const Deadline asking = Deadline::after(1'700'000'000);
  while (!asking.expired()) {
    if (send_text(*channel, "x") == RIPC_OK) ++sent;
  }
  EXPECT_GT(channel->probes(), 0u);
  EXPECT_LE(channel->probes(), 14u);
  ASSERT_TRUE(poll_until(sent)) << sink_.packets.size() << " of " << sent;
  EXPECT_EQ(port_->statistics().lost, 0u);
  EXPECT_TRUE(eventually([&] { return send_text(*channel, "x") == RIPC_OK; })) << "and it goes on";
}

TEST_P(LinkCosts, WaitingMessagesShareASystemCallToReceive) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  for (int number = 0; number < 64; ++number) ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  // On loopback, sent messages have arrived. One message at a time, as ripc_receive() takes them.
  for (std::size_t number = 0; number < 64; ++number) ASSERT_EQ(port_->poll(sink_, 1), 1u);
  EXPECT_LE(port_->counters().receive_calls.load(), 64u / 16 + 4) << "batches of 16, after 1, 2, 4 and 8";
}

TEST_F(LinkTest, APollThatFindsNothingTakesOneSystemCall) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  for (int greeting = 0; greeting < 3; ++greeting) (void)port_->poll(sink_, 1);
  const std::uint64_t before = port_->counters().receive_calls.load();
  for (int look = 0; look < 10; ++look) EXPECT_EQ(port_->poll(sink_, 1), 0u);
  EXPECT_EQ(port_->counters().receive_calls.load() - before, 10u);
}

TEST_F(LinkTest, APortWithoutSourcesMakesNoSystemCall) {
  for (int look = 0; look < 10; ++look) {
    EXPECT_EQ(port_->poll(sink_, 1), 0u);
    (void)port_->arm(true);
    (void)port_->arm(false);
  }
  EXPECT_EQ(port_->counters().receive_calls.load(), 0u);
}

TEST_F(LinkTest, AFullReceiverMakesTheSenderWaitAndLosesNothing) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const std::string large(1000, 'x');
  std::size_t sent = 0;
  while (send_text(*channel, large) == RIPC_OK) ++sent;
  EXPECT_EQ(send_text(*channel, large), RIPC_AGAIN);
  EXPECT_FALSE(channel->has_room(false));
  ASSERT_TRUE(poll_until(sent));
  EXPECT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return channel->has_room(false);
  }));
  EXPECT_EQ(send_text(*channel, large), RIPC_OK);
  ASSERT_TRUE(poll_until(sent + 1));
  EXPECT_EQ(port_->statistics().lost, 0u);
}

TEST_F(LinkTest, TheLargestPacketsFillTheQueueWithoutLoss) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const std::string largest(channel->ready_limit(), 'x');
  std::size_t sent = 0;
  for (int round = 0; round < 20; ++round) {
    while (send_text(*channel, largest) == RIPC_OK) ++sent;
    ASSERT_TRUE(poll_until(sent));
    ASSERT_TRUE(eventually([&] {
      (void)port_->poll(sink_, 64);
      return channel->has_room(false);
    }));
  }
  EXPECT_GE(sent, 20u);
  EXPECT_EQ(port_->statistics().lost, 0u);
  EXPECT_EQ(send_text(*channel, largest + 'x'), RIPC_TOO_LARGE);
}

TEST_F(LinkTest, EverySizeMayFillTheQueueWithoutLoss) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::size_t sent = 0;
  for (const std::size_t size : {1u, 100u, 101u, 540u, 700u, 1500u, 3000u, 3700u, 7600u, 9000u, 15000u, 17000u}) {
    const std::string packet(size, 'x');
    while (send_text(*channel, packet) == RIPC_OK) ++sent;
    ASSERT_TRUE(poll_until(sent)) << size;
    ASSERT_TRUE(eventually([&] {
      (void)port_->poll(sink_, 64);
      return channel->has_room(false);
    })) << size;
  }
  EXPECT_EQ(port_->statistics().lost, 0u);
}

TEST_F(LinkTest, ASenderThatAsksForRoomIsNotifiedOnceThereIsSome) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::size_t sent = 0;
  while (send_text(*channel, "x") == RIPC_OK) ++sent;
  ASSERT_FALSE(channel->has_room(true));
  EXPECT_EQ(sender_.host().rooms(), 0);
  ASSERT_TRUE(poll_until(sent));
  EXPECT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return sender_.host().rooms() == 1;
  }));
  EXPECT_TRUE(channel->has_room(false));
}

TEST_F(LinkTest, ASenderThatLacksSeveralReturnBuffersIsNotNotifiedOfFewer) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::array<std::byte, 1> memory{};
  std::vector<wire::Grant> grants(remote::kMaxGrants);
  for (wire::Grant& grant : grants) ASSERT_EQ(channel->grant(memory, grant), RIPC_OK);
  wire::Grant more{};
  ASSERT_EQ(channel->grant(memory, more), RIPC_AGAIN);
  // One is free, and a message wants two.
  ASSERT_EQ(channel->end_grant(grants[0]), RIPC_EMPTY);
  ASSERT_EQ(channel->grant(memory, grants[0]), RIPC_OK);
  ASSERT_EQ(channel->grant(memory, more), RIPC_AGAIN);
  ASSERT_EQ(channel->end_grant(grants[0]), RIPC_EMPTY);
  EXPECT_FALSE(channel->has_room(true));
  for (int turn = 0; turn < 3; ++turn) {
    std::promise<void> looked;
    sender_.loop().post([&] { looked.set_value(); });
    looked.get_future().wait();
  }
  EXPECT_EQ(sender_.host().rooms(), 0);
  ASSERT_EQ(channel->end_grant(grants[1]), RIPC_EMPTY);
  EXPECT_TRUE(eventually([&] { return sender_.host().rooms() == 1; }));
  EXPECT_TRUE(channel->has_room(false));
}

TEST_F(LinkTest, ABlockedSourceKeepsItsPacketsInOrderAndOthersGoOn) {
  Node other;
  const auto first = sender_.channel(receiver_);
  const auto second = other.channel(receiver_);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  ASSERT_EQ(send_text(*first, "who"), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  sink_.refused = sink_.packets[0].first;
  sink_.answer = spi::Delivery::blocked;
  for (int number = 0; number < 20; ++number) ASSERT_EQ(send_text(*first, std::to_string(number)), RIPC_OK);
  ASSERT_EQ(send_text(*second, "passes"), RIPC_OK);
  ASSERT_TRUE(poll_until(2));
  EXPECT_EQ(sink_.packets[1].second, "passes");
  sink_.answer = spi::Delivery::taken;
  ASSERT_TRUE(poll_until(22));
  for (int number = 0; number < 20; ++number)
    EXPECT_EQ(sink_.packets[static_cast<std::size_t>(number) + 2].second, std::to_string(number));
}

TEST_F(LinkTest, ASinkThatStopsIsOfferedTheSamePacketAgain) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channel, "one"), RIPC_OK);
  ASSERT_EQ(send_text(*channel, "two"), RIPC_OK);
  sink_.answer = spi::Delivery::stop;
  EXPECT_EQ(port_->poll(sink_, 8), 0u);
  sink_.answer = spi::Delivery::taken;
  ASSERT_TRUE(poll_until(2));
  EXPECT_EQ(sink_.packets[0].second, "one");
  EXPECT_EQ(sink_.packets[1].second, "two");
}

TEST_F(LinkTest, ManySendersHaveTheirTurns) {
  constexpr std::size_t kSenders = 12;
  constexpr std::size_t kEach = 40;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::shared_ptr<remote::UdpChannel>> channels;
  for (std::size_t index = 0; index < kSenders; ++index) {
    nodes.push_back(std::make_unique<Node>());
    channels.push_back(nodes.back()->channel(receiver_));
    ASSERT_NE(channels.back(), nullptr);
  }
  EXPECT_EQ(port_->statistics().sources, kSenders);
  for (const auto& channel : channels) {
    for (std::size_t number = 0; number < kEach; ++number) ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  }
  ASSERT_TRUE(poll_until(kSenders * kEach / 2));
  std::map<spi::Source*, std::size_t> shares;
  for (std::size_t index = 0; index < kSenders * kEach / 2; ++index) ++shares[sink_.packets[index].first];
  EXPECT_EQ(shares.size(), kSenders) << "nobody waits until the others are through";
  ASSERT_TRUE(poll_until(kSenders * kEach));
  channels.clear();
}

TEST_F(LinkTest, ALinkThatCannotBeWatchedIsRefusedAndTheOthersAreStillRead) {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::shared_ptr<remote::UdpChannel>> channels;
  for (int count = 0; count < 6; ++count) nodes.push_back(std::make_unique<Node>(options(false, false)));
  for (int count = 0; count < 4; ++count) {
    channels.push_back(nodes[static_cast<std::size_t>(count)]->channel(receiver_));
    ASSERT_NE(channels.back(), nullptr);
  }
  // From the fifth on, the system is asked which sockets are ready. It has room for one of them.
  sockets_that_can_be_watched = 1;
  EXPECT_FALSE(nodes[4]->connect(receiver_).ok());
  sockets_that_can_be_watched = INT_MAX;
  channels.push_back(nodes[5]->channel(receiver_));
  ASSERT_NE(channels.back(), nullptr);
  for (std::size_t packets = 1; packets <= 20; ++packets) {
    ASSERT_EQ(send_text(*channels[packets % channels.size()], "x"), RIPC_OK);
    ASSERT_TRUE(poll_until(packets)) << packets;
  }
}

TEST_F(LinkTest, AClosedChannelIsDrainedAndThenGone) {
  auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  for (int number = 0; number < 30; ++number) ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  channel.reset();
  ASSERT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 1);
    return sink_.gone == 1;
  }));
  EXPECT_EQ(sink_.packets.size(), 30u);
  EXPECT_EQ(port_->statistics().sources, 0u);
}

TEST_F(LinkTest, AClosedPortEndsItsChannels) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  port_->close();
  EXPECT_TRUE(eventually([&] { return !channel->alive(); }));
  EXPECT_EQ(send_text(*channel, "x"), RIPC_CLOSED);
  EXPECT_TRUE(eventually([&] { return sender_.host().losses() == 1; }));
  EXPECT_EQ(sender_.connect(receiver_).status().code(), RIPC_NO_SERVICE);
}

TEST_F(LinkTest, NotificationsGoToTheResponder) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  const std::string text = "hello";
  const spi::Bytes bytes = std::as_bytes(std::span(text.data(), text.size()));
  ASSERT_EQ(channel->send({.kind = spi::Outgoing::Kind::control, .packet = std::span(&bytes, 1)}), RIPC_OK);
  ASSERT_TRUE(eventually([&] { return receiver_.host().control_packets().size() == 1; }));
  EXPECT_EQ(receiver_.host().control_packets()[0], (std::pair<ripc_service_id, std::string>(7, text)));
}

TEST_F(LinkTest, AnythingThatCanBePolledWakesASleeper) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  (void)port_->poll(sink_, 1);
  events_.drain();
  (void)port_->arm(true);
  ASSERT_EQ(port_->poll(sink_, 1), 0u);
  ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  EXPECT_EQ(events_.sleep(Deadline::after(kLimit), monotonic_now()), RIPC_OK);
  (void)port_->arm(false);
  EXPECT_EQ(port_->poll(sink_, 1), 1u) << "waking reads nothing";
}

class LinkMemoryTest : public LinkEnds {};

TEST_F(LinkMemoryTest, ALinkThatFindsNoMemoryIsNotLeftOpenAtThePeer) {
  ASSERT_NE(sender_.channel(receiver_), nullptr) << "there is a session from now on";
  const auto is_closed = [&] {
    (void)port_->poll(sink_, 64);
    return port_->statistics().sources == 0;
  };
  ASSERT_TRUE(eventually(is_closed));
  const spi::Address address = receiver_.transport().address();
  std::uint64_t nth = 1;
  for (bool has_failed = true; has_failed && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    {
      const support::FailingAllocation failing(nth);
      try {
        (void)test::connect(sender_.transport(), address, 7, Deadline::after(kLimit));
      } catch (const std::bad_alloc&) {
        // Core reports it.
      }
      has_failed = failing.failed();
    }
    EXPECT_TRUE(eventually(is_closed));
  }
  EXPECT_GT(nth, 5u);
}

}  // namespace
}  // namespace ripc::internal::socket
