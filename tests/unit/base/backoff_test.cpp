// SPDX-License-Identifier: Apache-2.0
#include "base/backoff.hpp"

#include <gtest/gtest.h>

namespace ripc::internal {
namespace {

TEST(Backoff, EachPauseIsTwiceAsLongUpToTheLongest) {
  Backoff pauses(10, 75);
  EXPECT_EQ(pauses.next(), 10u);
  EXPECT_EQ(pauses.next(), 20u);
  EXPECT_EQ(pauses.next(), 40u);
  EXPECT_EQ(pauses.next(), 75u);
  EXPECT_EQ(pauses.next(), 75u);
}

TEST(Backoff, BeginsAnewAfterReset) {
  Backoff pauses(10, 75);
  for (int pause = 0; pause < 5; ++pause) (void)pauses.next();
  pauses.reset();
  EXPECT_EQ(pauses.next(), 10u);
  EXPECT_EQ(pauses.next(), 20u);
}

TEST(Backoff, PeekTakesNoPause) {
  Backoff pauses(10, 75);
  EXPECT_EQ(pauses.peek(), 10u);
  EXPECT_EQ(pauses.next(), 10u);
  EXPECT_EQ(pauses.peek(), 20u);
}

}  // namespace
}  // namespace ripc::internal
