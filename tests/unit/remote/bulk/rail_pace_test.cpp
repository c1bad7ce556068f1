// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/rail_pace.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace ripc::internal::remote {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
constexpr Nanoseconds kTick = 1'000'000;

// The pace of a rail that has brought `bytes` in `time`, after a question that took `delay`.
RailPace pace_of(std::uint64_t bytes, Nanoseconds time, Nanoseconds delay = 0) {
  RailPace pace;
  pace.asked(bytes, 1);
  pace.began(1 + delay);
  pace.arrived(bytes, 1 + delay + time);
  return pace;
}

TEST(RailPace, OneThatIsNotKnownIsTriedAtOnceAndOnce) {
  RailPace pace;
  EXPECT_EQ(pace.time_for(kPiece), 0);
  EXPECT_EQ(pace.segment(0, kPiece), RailPace::kLeastSegment);
  pace.asked(RailPace::kLeastSegment, 1);
  EXPECT_EQ(pace.time_for(kPiece), std::numeric_limits<double>::infinity());
}

TEST(RailPace, TheRateIsThatOfTheBytesAndNotOfTheQuestion) {
  const RailPace near = pace_of(kPiece, 10 * kTick);
  const RailPace far = pace_of(kPiece, 10 * kTick, 500 * kTick);
  EXPECT_DOUBLE_EQ(near.rate(), static_cast<double>(kPiece) / (10 * kTick));
  EXPECT_DOUBLE_EQ(far.rate(), near.rate());
}

TEST(RailPace, TheTimeForMoreIncludesOwedBytes) {
  RailPace pace = pace_of(kPiece, 10 * kTick);
  EXPECT_DOUBLE_EQ(pace.time_for(kPiece), 10 * kTick);
  pace.asked(2 * kPiece, 20 * kTick);
  EXPECT_DOUBLE_EQ(pace.time_for(kPiece), 30 * kTick);
  pace.forget(2 * kPiece);
  EXPECT_DOUBLE_EQ(pace.time_for(kPiece), 10 * kTick);
}

TEST(RailPace, SegmentsTakeTheSameTimeOnSlowAndFastOnes) {
  const RailPace slow = pace_of(kPiece, 80 * kTick);
  EXPECT_EQ(slow.segment(0, kPiece), kPiece / 4);
  EXPECT_EQ(pace_of(kPiece, 1000 * kTick).segment(0, kPiece), RailPace::kLeastSegment);
  EXPECT_EQ(pace_of(kPiece, kTick).segment(0, kPiece), kPiece);
}

TEST(RailPace, OneThatIsNotKnownIsTriedWithWhatWouldSuitTheOthers) {
  const double rate = static_cast<double>(kPiece) / (40 * kTick);
  EXPECT_EQ(RailPace().segment(rate, kPiece), kPiece / 2);
  EXPECT_EQ(pace_of(kPiece, 800 * kTick).segment(rate, kPiece), kPiece / 2);
}

TEST(RailPace, FollowsARateThatChanges) {
  RailPace pace = pace_of(kPiece, 10 * kTick);
  Nanoseconds now = 100 * kTick;
  for (int count = 0; count < 20; ++count) {
    pace.asked(kPiece, now);
    pace.began(now);
    now += 40 * kTick;
    pace.arrived(kPiece, now);
  }
  EXPECT_NEAR(pace.rate(), static_cast<double>(kPiece) / (40 * kTick), 1);
}

TEST(RailPace, TheRateOfABurstCountsTheTimeBeforeIt) {
  RailPace pace;
  Nanoseconds now = 1;
  for (int round = 0; round < 8; ++round) {
    pace.asked(12 * kPiece, now);
    pace.began(now);
    now += 100 * kTick;
    for (int count = 0; count < 12; ++count) pace.arrived(kPiece, ++now);
  }
  const double rate = static_cast<double>(12 * kPiece) / (100 * kTick);
  EXPECT_GT(pace.rate(), rate / 2);
  EXPECT_LT(pace.rate(), rate * 2);
}

}  // namespace
}  // namespace ripc::internal::remote
