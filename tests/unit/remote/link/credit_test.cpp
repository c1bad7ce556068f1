// SPDX-License-Identifier: Apache-2.0
#include "remote/link/credit.hpp"

#include <gtest/gtest.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "remote/link/link_socket.hpp"
#include "remote/session/endpoint.hpp"

namespace ripc::internal::remote {
namespace {

// How much of a socket's buffer one datagram of this size takes, as the system counts it.
std::uint32_t measured(const char* ip, std::size_t size) {
  Endpoint here;
  EXPECT_TRUE(Endpoint::parse(ip, 0, here));
  Result<GuardedSocket> receiver = open_socket(here.family(), SOCK_DGRAM);
  Result<GuardedSocket> sender = open_socket(here.family(), SOCK_DGRAM);
  if (!receiver.ok() || !sender.ok() || !bind_in_range(receiver->fd.get(), here, {}).ok()) return 0;
  const Endpoint target = Endpoint::local_of(receiver->fd.get());
  const std::vector<char> bytes(size);
  if (::sendto(sender->fd.get(), bytes.data(), size, 0, target.address(), target.size()) < 0) return 0;
  std::array<std::uint32_t, SK_MEMINFO_VARS> numbers{};
  socklen_t length = sizeof numbers;
  EXPECT_EQ(getsockopt(receiver->fd.get(), SOL_SOCKET, SO_MEMINFO, numbers.data(), &length), 0);
  return numbers[SK_MEMINFO_RMEM_ALLOC];
}

TEST(DatagramCost, IsNeverLessThanTheSystemCounts) {
  for (const char* ip : {"127.0.0.1", "::1"}) {
    if (measured(ip, 64) == 0) {
      EXPECT_STREQ(ip, "::1") << "every machine has IPv4 on loopback";
      continue;
    }
    for (std::size_t size = 28; size <= 65000; size += size < 5000 ? 61 : 997) {
      const std::uint32_t real = measured(ip, size);
      EXPECT_GE(datagram_cost(size) * kCreditUnit, real) << size << ' ' << ip;
      EXPECT_LE(datagram_bytes(size), 2u * real + 512) << size << ' ' << ip << ": an estimate, not a fantasy";
    }
  }
}

TEST(SenderCredit, SpendsWhatItHasAndNoMore) {
  SenderCredit sender(100);
  EXPECT_EQ(sender.left(), 100u);
  sender.spend(60);
  EXPECT_EQ(sender.left(), 40u);
  sender.spend(40);
  EXPECT_EQ(sender.left(), 0u);
  EXPECT_TRUE(sender.grant(150));
  EXPECT_EQ(sender.left(), 50u);
}

TEST(SenderCredit, OldGrantsChangeNothing) {
  SenderCredit sender(100);
  EXPECT_TRUE(sender.grant(200));
  EXPECT_FALSE(sender.grant(200));
  EXPECT_FALSE(sender.grant(150));
  EXPECT_EQ(sender.left(), 200u);
}

TEST(Credits, GoOnAfterTheLargestNumber) {
  SenderCredit sender(1000);
  ReceiverCredit receiver(1000);
  receiver.granted(1000);
  std::uint32_t expected = 0;
  for (int step = 0; step < 9'000'000; ++step) {  // twice around
    ASSERT_GE(sender.left(), 960u);
    sender.spend(960);
    expected += 960;
    ASSERT_EQ(sender.spent(), expected);
    receiver.consumed(sender.spent());
    ASSERT_EQ(receiver.due(), 960u);
    (void)sender.grant(receiver.credit());
    receiver.granted(receiver.credit());
  }
}

TEST(ReceiverCredit, GrantsWhatWasConsumedAndTellsWhatItOwes) {
  ReceiverCredit receiver(1000);
  EXPECT_EQ(ReceiverCredit::first_credit(1000), 750u);
  EXPECT_EQ(receiver.credit(), 1000u);
  EXPECT_EQ(receiver.due(), 250u);
  receiver.consumed(300);
  EXPECT_EQ(receiver.credit(), 1300u);
  EXPECT_EQ(receiver.due(), 550u);
  receiver.granted(1300);
  EXPECT_EQ(receiver.due(), 0u);
}

TEST(ReceiverCredit, IgnoresMoreThanASenderCanHaveSpent) {
  ReceiverCredit receiver(1000);
  receiver.consumed(751);
  receiver.consumed(0x80000000u);
  receiver.consumed(UINT32_MAX);
  EXPECT_EQ(receiver.credit(), 1000u);
  receiver.consumed(750);
  EXPECT_EQ(receiver.credit(), 1750u);
  receiver.consumed(500);
  EXPECT_EQ(receiver.credit(), 1750u) << "a packet that was overtaken";
}

TEST(ReceiverCredit, ASmallerBudgetTakesNothingBackAndGrantsAgainLater) {
  ReceiverCredit receiver(1000);
  receiver.granted(1000);
  receiver.set_budget(400);
  EXPECT_EQ(receiver.due(), 0u);
  receiver.consumed(500);
  EXPECT_EQ(receiver.due(), 0u) << "the sender was told 1000";
  receiver.consumed(700);
  EXPECT_EQ(receiver.due(), 100u);
}

}  // namespace
}  // namespace ripc::internal::remote
