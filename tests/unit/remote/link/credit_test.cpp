// SPDX-License-Identifier: Apache-2.0
#include "remote/link/credit.hpp"

#include <gtest/gtest.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "remote/link/link_socket.hpp"
#include "remote/session/endpoint.hpp"

namespace ripc::remote {
namespace {

// What one datagram of this size takes of a socket's buffer, as the system counts it.
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

TEST(Purse, SpendsWhatItHasAndNoMore) {
  Purse purse(100);
  EXPECT_EQ(purse.left(), 100u);
  purse.spend(60);
  EXPECT_EQ(purse.left(), 40u);
  purse.spend(40);
  EXPECT_EQ(purse.left(), 0u);
  EXPECT_TRUE(purse.grant(150));
  EXPECT_EQ(purse.left(), 50u);
}

TEST(Purse, OldGrantsChangeNothing) {
  Purse purse(100);
  EXPECT_TRUE(purse.grant(200));
  EXPECT_FALSE(purse.grant(200));
  EXPECT_FALSE(purse.grant(150));
  EXPECT_EQ(purse.left(), 200u);
}

TEST(Credits, GoOnAfterTheLargestNumber) {
  Purse purse(1000);
  Granter granter(1000);
  granter.granted(1000);
  std::uint32_t expected = 0;
  for (int step = 0; step < 9'000'000; ++step) {  // twice around
    ASSERT_GE(purse.left(), 960u);
    purse.spend(960);
    expected += 960;
    ASSERT_EQ(purse.spent(), expected);
    granter.consumed(purse.spent());
    ASSERT_EQ(granter.due(), 960u);
    (void)purse.grant(granter.credit());
    granter.granted(granter.credit());
  }
}

TEST(Granter, GrantsWhatWasConsumedAndTellsWhatItOwes) {
  Granter granter(1000);
  EXPECT_EQ(Granter::first_credit(1000), 750u);
  EXPECT_EQ(granter.credit(), 1000u);
  EXPECT_EQ(granter.due(), 250u);
  granter.consumed(300);
  EXPECT_EQ(granter.credit(), 1300u);
  EXPECT_EQ(granter.due(), 550u);
  granter.granted(1300);
  EXPECT_EQ(granter.due(), 0u);
}

TEST(Granter, WhatASenderCannotHaveSpentIsIgnored) {
  Granter granter(1000);
  granter.consumed(751);
  granter.consumed(0x80000000u);
  granter.consumed(UINT32_MAX);
  EXPECT_EQ(granter.credit(), 1000u);
  granter.consumed(750);
  EXPECT_EQ(granter.credit(), 1750u);
  granter.consumed(500);
  EXPECT_EQ(granter.credit(), 1750u) << "a packet that was overtaken";
}

TEST(Granter, ASmallerBudgetTakesNothingBackAndGrantsAgainLater) {
  Granter granter(1000);
  granter.granted(1000);
  granter.set_budget(400);
  EXPECT_EQ(granter.due(), 0u);
  granter.consumed(500);
  EXPECT_EQ(granter.due(), 0u) << "the sender was told 1000";
  granter.consumed(700);
  EXPECT_EQ(granter.due(), 100u);
}

}  // namespace
}  // namespace ripc::remote
