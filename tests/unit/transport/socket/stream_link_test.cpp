// SPDX-License-Identifier: Apache-2.0
// Links whose datagrams go over the session's control connection, because UDP does not get through.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "link_ends.hpp"

namespace ripc::internal::socket {
namespace {

class StreamLink : public LinkEnds {
 protected:
  // A link that is opened after another one of its session has found that UDP does not get through.
  std::shared_ptr<remote::UdpChannel> stream_channel(Node& sender) {
    const auto first = sender.channel(receiver_);
    if (!first) return nullptr;
    first->session()->no_datagrams_until.store(UINT64_MAX);
    return sender.channel(receiver_);
  }
};

TEST_F(StreamLink, PacketsArriveOnceWholeAndInOrderAndCreditsDoNotRunOut) {
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("UDP does not get through: short messages go over TCP"),
            std::string::npos)
      << channel->describe(Deadline::after(0)).text;
  // Far more than there is credit for at once.
  constexpr std::size_t kCount = 5000;
  for (std::size_t number = 0; number < kCount; ++number) {
    const std::string text = std::to_string(number) + std::string(number % 3000, 'x');
    ASSERT_TRUE(eventually([&] {
      const ripc_status status = send_text(*channel, text);
      if (status == RIPC_AGAIN) (void)port_->poll(sink_, 64);
      return status == RIPC_OK;
    }));
  }
  ASSERT_TRUE(poll_until(kCount));
  for (std::size_t number = 0; number < kCount; ++number)
    ASSERT_EQ(sink_.packets[number].second, std::to_string(number) + std::string(number % 3000, 'x'));
  const spi::PortStatistics statistics = port_->statistics();
  EXPECT_EQ(statistics.lost + statistics.late + statistics.duplicates + statistics.corrupt, 0u);
}

TEST_F(StreamLink, TheLargestPacketFits) {
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  const std::string largest(channel->ready_limit(), 'x');
  ASSERT_EQ(send_text(*channel, largest), RIPC_OK);
  EXPECT_EQ(send_text(*channel, largest + 'x'), RIPC_TOO_LARGE);
  ASSERT_TRUE(poll_until(1));
  EXPECT_EQ(sink_.packets[0].second, largest);
}

TEST_F(StreamLink, IsReceivedBesideMoreLinksThanAreReadDirectly) {
  std::vector<std::unique_ptr<Node>> others;
  std::vector<std::shared_ptr<remote::UdpChannel>> channels;
  for (int count = 0; count < 8; ++count) {
    others.push_back(std::make_unique<Node>());
    channels.push_back(others.back()->channel(receiver_));
    ASSERT_NE(channels.back(), nullptr);
  }
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channels.front(), "by UDP"), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  for (int number = 0; number < 3; ++number) {
    ASSERT_EQ(send_text(*channel, "by TCP"), RIPC_OK);
    ASSERT_TRUE(poll_until(static_cast<std::size_t>(number) + 2)) << number;
  }
}

TEST_F(StreamLink, WhatTheReceiverCannotTakeYetWaits) {
  const auto channel = stream_channel(sender_);
  ASSERT_NE(channel, nullptr);
  for (const char* text : {"one", "two", "three"}) ASSERT_EQ(send_text(*channel, text), RIPC_OK);
  sink_.answer = spi::Delivery::blocked;
  ASSERT_TRUE(eventually([&] {
    (void)port_->poll(sink_, 64);
    return channel->session()->stream.has_room();
  }));
  ASSERT_EQ(send_text(*channel, "four"), RIPC_OK);
  sink_.answer = spi::Delivery::taken;
  ASSERT_TRUE(poll_until(4));
  EXPECT_EQ(sink_.packets[0].second, "one");
  EXPECT_EQ(sink_.packets[3].second, "four");
}

TEST_F(StreamLink, AHealthyLinkIsProvenAndKeepsToUdp) {
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("UDP packets"), std::string::npos)
      << channel->describe(Deadline::after(0)).text;
}

// A receiver that does not read proves nothing about the path.
TEST_F(StreamLink, AReceiverThatReadsNothingForLongKeepsItsSendersOnUdp) {
  TransportOptions options;
  options.peer_timeout = 400'000'000;
  Node impatient(options);
  const auto channel = impatient.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  std::size_t sent = 0;
  const Deadline sending = Deadline::after(1'500'000'000);
  while (!sending.expired()) {
    if (send_text(*channel, "x") == RIPC_OK) ++sent;
  }
  EXPECT_NE(channel->describe(Deadline::after(0)).text.find("UDP packets"), std::string::npos)
      << channel->describe(Deadline::after(0)).text;
  ASSERT_TRUE(poll_until(sent)) << sink_.packets.size() << " of " << sent;
  EXPECT_EQ(port_->statistics().lost, 0u);
}

}  // namespace
}  // namespace ripc::internal::socket
