// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ripc::internal {
namespace {

TEST(Histogram, OfNothingIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.minimum(), 0u);
  EXPECT_EQ(histogram.maximum(), 0u);
  EXPECT_EQ(histogram.mean(), 0u);
  EXPECT_EQ(histogram.at(0.99), 0u);
}

TEST(Histogram, OfOneTimeIsThatTime) {
  for (const Nanoseconds time : {Nanoseconds{0}, Nanoseconds{1}, Nanoseconds{127}, Nanoseconds{128},
                                 Nanoseconds{1'000'003}, Histogram::kLargest}) {
    Histogram histogram;
    histogram.add(time);
    for (const double share : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.at(share), time);
    EXPECT_EQ(histogram.mean(), time);
  }
}

TEST(Histogram, TellsPercentilesAtMostATinyPartTooLarge) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> times(8, 3);
  std::vector<Nanoseconds> exact;
  Histogram histogram;
  for (int index = 0; index < 100'000; ++index) {
    exact.push_back(static_cast<Nanoseconds>(times(random)));
    histogram.add(exact.back());
  }
  std::sort(exact.begin(), exact.end());
  for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(exact.size())));
    const Nanoseconds expected = exact[rank - 1];
    EXPECT_GE(histogram.at(share), expected) << share;
    EXPECT_LE(static_cast<double>(histogram.at(share)), 1.016 * static_cast<double>(expected) + 1) << share;
  }
  EXPECT_EQ(histogram.minimum(), exact.front());
  EXPECT_EQ(histogram.maximum(), exact.back());
  EXPECT_EQ(histogram.count(), exact.size());
}

TEST(Histogram, CountsTheTimesOfEachPowerOfTwoExactly) {
  Histogram histogram;
  histogram.add(0);
  for (unsigned bit = 0; bit < Histogram::kBitsOfLargest; ++bit) {
    histogram.add(Nanoseconds{1} << bit);
    histogram.add((Nanoseconds{2} << bit) - 1);
  }
  histogram.add(UINT64_MAX);
  for (unsigned bit = 0; bit < Histogram::kBitsOfLargest; ++bit)
    EXPECT_EQ(histogram.count_of_power(bit), bit == 0 || bit == Histogram::kBitsOfLargest - 1 ? 3u : 2u) << bit;
}

TEST(Histogram, CountsLongerTimesAsTheLargest) {
  Histogram histogram;
  histogram.add(UINT64_MAX);
  EXPECT_EQ(histogram.maximum(), Histogram::kLargest);
  EXPECT_EQ(histogram.at(1), Histogram::kLargest);
}

}  // namespace
}  // namespace ripc::internal
