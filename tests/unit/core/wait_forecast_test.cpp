// SPDX-License-Identifier: Apache-2.0
#include "core/receive/wait_forecast.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::core {
namespace {

TEST(WaitForecast, KnowsNothingAfterAFew) {
  WaitForecast forecast;
  for (std::size_t wait = 1; wait < WaitForecast::kWaits; ++wait) forecast.add(1000);
  EXPECT_EQ(forecast.from(), UINT64_MAX);
  EXPECT_EQ(forecast.to(), UINT64_MAX);
  forecast.add(1000);
  EXPECT_EQ(forecast.from(), 1000u);
  EXPECT_EQ(forecast.to(), 1000u);
}

TEST(WaitForecast, LeavesOutOneAtEitherEndAndAddsTheirDifference) {
  WaitForecast forecast;
  for (const int wait : {1000, 1010, 1, 1003, 9999, 1005, 1004, 1001}) forecast.add(static_cast<Nanoseconds>(wait));
  EXPECT_EQ(forecast.from(), 990u);
  EXPECT_EQ(forecast.to(), 1020u);
}

TEST(WaitForecast, ForgetsWhatWasBeforeTheLastOnes) {
  WaitForecast forecast;
  for (std::size_t wait = 0; wait < 1000; ++wait) forecast.add(wait * 7919 % 5000);
  EXPECT_EQ(forecast.from(), 0u) << "it cannot be less";
  for (std::size_t wait = 0; wait < WaitForecast::kWaits; ++wait) forecast.add(70'000);
  EXPECT_EQ(forecast.from(), 70'000u);
  EXPECT_EQ(forecast.to(), 70'000u);
}

}  // namespace
}  // namespace ripc::internal::core
