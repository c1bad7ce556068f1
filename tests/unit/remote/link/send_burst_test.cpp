// SPDX-License-Identifier: Apache-2.0
#include "remote/link/send_burst.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::remote {
namespace {

class Sends : public ::testing::Test {
 protected:
  bool send_after(Nanoseconds gap) { return burst_.begins(now_ += gap); }
  // How many of so many prompt sends may be held.
  unsigned prompt(unsigned count) {
    unsigned found = 0;
    for (unsigned number = 0; number < count; ++number) found += send_after(SendBurst::kGap - 1) ? 1u : 0u;
    return found;
  }

  // Sends pairs, which are no long burst.
  unsigned sends_until_held() {
    for (unsigned number = 1;; ++number) {
      if (send_after(number % 2 == 0 ? 1 : SendBurst::kPreempted)) return number;
    }
  }

  SendBurst burst_;
  Nanoseconds now_ = 1'000'000'000;
};

TEST_F(Sends, MayBeHeldIfTheyFollowAnotherAtOnce) {
  EXPECT_FALSE(send_after(0));
  EXPECT_TRUE(send_after(SendBurst::kGap - 1));
  EXPECT_FALSE(send_after(SendBurst::kGap));
  EXPECT_TRUE(send_after(0));
}

TEST_F(Sends, MayBeHeldThoughTheOneBeforeTookTime) {
  EXPECT_FALSE(send_after(0));
  burst_.ended(now_ += 10 * SendBurst::kGap);
  EXPECT_TRUE(send_after(1));
}

TEST_F(Sends, AreHeldOnlyInLongBurstsAfterAFlushByTheTimer) {
  EXPECT_EQ(prompt(10), 9u);
  burst_.was_late();
  EXPECT_FALSE(send_after(SendBurst::kPreempted));
  EXPECT_EQ(prompt(SendBurst::kLong - 1), 0u);
  EXPECT_EQ(prompt(10), 10u) << "the sender is faster than its path";
}

TEST_F(Sends, MayBeHeldAgainSomeTimeAfterAFlushByTheTimer) {
  burst_.was_late();
  EXPECT_EQ(sends_until_held(), SendBurst::kStrict);
}

TEST_F(Sends, OfAThreadThatNeverWaitsAreHeldMoreAndMoreRarely) {
  burst_.was_late();
  burst_.was_late();
  burst_.was_late();
  EXPECT_EQ(sends_until_held(), 4 * SendBurst::kStrict);
  for (int flush = 0; flush < 40; ++flush) burst_.was_late();
  EXPECT_EQ(sends_until_held(), SendBurst::kMostStrict);
  burst_.was_prompt();
  burst_.was_late();
  EXPECT_EQ(sends_until_held(), SendBurst::kStrict) << "the thread waited once";
}

TEST_F(Sends, GoOnWithALongBurstAfterAPreemption) {
  (void)prompt(1000);
  burst_.was_late();
  EXPECT_FALSE(send_after(SendBurst::kPreempted - 1)) << "what was held before goes at once";
  EXPECT_EQ(prompt(10), 10u);
  EXPECT_TRUE(burst_.is_long());
}

TEST_F(Sends, AreNoLongBurstAfterAPauseOrManyGaps) {
  (void)prompt(1000);
  EXPECT_TRUE(burst_.is_long());
  EXPECT_FALSE(send_after(SendBurst::kPreempted));
  EXPECT_FALSE(burst_.is_long());
  (void)prompt(1000);
  (void)send_after(SendBurst::kGap);
  (void)send_after(SendBurst::kGap);
  EXPECT_FALSE(burst_.is_long());
}

}  // namespace
}  // namespace ripc::internal::remote
