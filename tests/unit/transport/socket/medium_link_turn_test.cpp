// SPDX-License-Identifier: Apache-2.0
// Links with their own connection beside others: each has its turn.
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "medium_link.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::socket {
namespace {

TEST_F(MediumLink, ABlockedSourceWaitsAndOthersHaveTheirTurn) {
  const auto channel = grown();
  const auto other = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  ASSERT_NE(other, nullptr);
  sink_.refused = source_;
  sink_.answer = spi::Delivery::blocked;
  for (const char* text : {"one", "two", "three"}) ASSERT_EQ(send_text(*channel, text), RIPC_OK);
  ASSERT_EQ(send_text(*other, "by the other"), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  sink_.answer = spi::Delivery::taken;
  ASSERT_TRUE(poll_until(4));
  std::vector<std::string> texts;
  for (const auto& [source, text] : sink_.packets) texts.push_back(text);
  EXPECT_EQ(texts, (std::vector<std::string>{"by the other", "one", "two", "three"}));
}

TEST_F(MediumLink, AConnectionThatBringsOnlyRefusedRecordsLeavesOthersTheirTurn) {
  constexpr std::size_t kRecords = 1000;
  const auto other = sender_.channel(receiver_);
  ASSERT_NE(other, nullptr);
  const std::set<int> before = streams();
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  // A packet of one byte, without the token of the link.
  std::vector<std::byte> records;
  wire::datagram::HeaderBytes head;
  wire::datagram::encode({.sequence = 2}, head);
  std::array<std::byte, remote::kRecordPrefix> prefix;
  wire::store_le<std::uint32_t>(prefix.data(), head.size() + 1);
  for (std::size_t count = 0; count < kRecords; ++count) {
    records.insert(records.end(), prefix.begin(), prefix.end());
    records.insert(records.end(), head.begin(), head.end());
    records.push_back(std::byte{'x'});
  }
  const std::uint16_t listening = remote::Locator::parse(receiver_.transport().address().locator)->port;
  int to = -1;
  int from = -1;
  for (const int fd : streams()) {
    if (!before.contains(fd)) (remote::Endpoint::remote_of(fd).port() == listening ? to : from) = fd;
  }
  ASSERT_EQ(::send(to, records.data(), records.size(), MSG_NOSIGNAL), static_cast<ssize_t>(records.size()));
  ASSERT_TRUE(eventually([&] {
    int arrived = 0;
    return ioctl(from, FIONREAD, &arrived) == 0 && arrived == static_cast<int>(records.size());
  }));
  ASSERT_EQ(send_text(*other, "by the other"), RIPC_OK);
  (void)port_->poll(sink_, 64);
  EXPECT_LT(port_->statistics().corrupt, kRecords);
  EXPECT_TRUE(poll_until(1));
  while (port_->statistics().corrupt < kRecords) {
    ASSERT_EQ(events_.sleep(Deadline::after(kLimit), monotonic_now()), RIPC_OK);
    events_.drain();
    (void)port_->poll(sink_, 64);
  }
}

TEST_F(MediumLink, IsReceivedBesideMoreLinksThanAreReadDirectly) {
  std::vector<std::unique_ptr<Node>> others;
  std::vector<std::shared_ptr<remote::UdpChannel>> channels;
  for (int count = 0; count < 8; ++count) {
    others.push_back(std::make_unique<Node>());
    channels.push_back(others.back()->channel(receiver_));
    ASSERT_NE(channels.back(), nullptr);
    if (count % 2 == 0) {
      ASSERT_TRUE(grows(*channels.back()));
    }
  }
  for (int round = 0; round < 50; ++round) {
    for (const auto& channel : channels) {
      ASSERT_EQ(send_text(*channel, std::to_string(round)), RIPC_OK);
    }
    ASSERT_TRUE(poll_until(8 * static_cast<std::size_t>(round + 1))) << round;
  }
}

// The receiver has read the packet already, so the system does not tell that the link has something.
TEST_F(MediumLink, APacketBehindALostDatagramArrivesBesideMoreLinksThanAreReadDirectly) {
  ASSERT_NO_FATAL_FAILURE(add_other_links());
  const auto channel = sender_.channel(receiver_);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channel, "lost"), RIPC_OK);
  ASSERT_GE(lose_datagrams(), 1u);
  ASSERT_TRUE(grows(*channel));
  ASSERT_EQ(send_text(*channel, "after it"), RIPC_OK);
  ASSERT_TRUE(poll_until(1));
  EXPECT_EQ(sink_.packets[0].second, "after it");
  EXPECT_EQ(port_->statistics().lost, 1u);
}

// The last records of both have been read when the first packet is whole.
TEST_F(SealedMediumLink, TheSecondOfTwoPacketsArrivesBesideMoreLinksThanAreReadDirectly) {
  ASSERT_NO_FATAL_FAILURE(add_other_links());
  const auto channel = grown();
  ASSERT_NE(channel, nullptr);
  const std::string medium(40'000, 'm');
  ASSERT_EQ(send_text(*channel, medium), RIPC_OK);
  ASSERT_EQ(send_text(*channel, medium), RIPC_OK);
  ASSERT_TRUE(poll_until(2));
  EXPECT_EQ(sink_.packets[1].second, medium);
}

}  // namespace
}  // namespace ripc::internal::socket
