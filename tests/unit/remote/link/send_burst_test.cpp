// SPDX-License-Identifier: Apache-2.0
#include "remote/link/send_burst.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::remote {
namespace {

class Sends : public ::testing::Test {
 protected:
  bool send_after(Nanoseconds gap) { return burst_.begins(now_ += gap); }
  // How many of so many prompt sends were part of a burst.
  unsigned prompt(unsigned count) {
    unsigned found = 0;
    for (unsigned number = 0; number < count; ++number) found += send_after(SendBurst::kGap - 1) ? 1u : 0u;
    return found;
  }

  SendBurst burst_;
  Nanoseconds now_ = 1'000'000'000;
};

TEST_F(Sends, AreABurstFromThe32ndPromptOneOn) {
  EXPECT_FALSE(send_after(0));
  EXPECT_EQ(prompt(SendBurst::kSends - 1), 0u);
  EXPECT_EQ(prompt(10), 10u);
}

TEST_F(Sends, ThatTakeTimeThemselvesAreABurstToo) {
  for (unsigned number = 0; number < 2 * SendBurst::kSends; ++number) {
    EXPECT_EQ(send_after(1), number >= SendBurst::kSends) << number;
    burst_.ended(now_ += 10 * SendBurst::kGap);
  }
}

TEST_F(Sends, GoOnWithALongBurstAfterAPreemption) {
  (void)prompt(1000);
  EXPECT_FALSE(send_after(SendBurst::kPreempted - 1)) << "what it held before goes at once";
  EXPECT_EQ(prompt(10), 10u);
}

TEST_F(Sends, AreNoBurstAfterAPause) {
  (void)prompt(1000);
  EXPECT_FALSE(send_after(SendBurst::kPreempted));
  EXPECT_EQ(prompt(SendBurst::kSends - 1), 0u);
}

TEST_F(Sends, AreNoBurstWithManyGaps) {
  (void)prompt(1000);
  for (int number = 0; number < 100; ++number) {
    EXPECT_FALSE(send_after(SendBurst::kGap));
    EXPECT_EQ(send_after(1), number == 0) << number;
  }
}

}  // namespace
}  // namespace ripc::internal::remote
