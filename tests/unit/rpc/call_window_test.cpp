// SPDX-License-Identifier: Apache-2.0
#include "rpc/call_window.hpp"

#include <gtest/gtest.h>

#include "rpc/round_trip.hpp"

namespace ripc::internal::rpc {
namespace {

constexpr Nanoseconds kRoundTrip = 100'000;

CallWindow window_of(std::size_t limit) {
  CallWindow window;
  window.start(limit);
  return window;
}
std::size_t size_of(const CallWindow& window) {
  std::size_t size = 0;
  while (window.admits(size)) ++size;
  return size;
}

TEST(CallWindow, GrowsWithEachAnswerUpToTheSlots) {
  CallWindow window = window_of(32);
  EXPECT_EQ(size_of(window), 8u);
  for (int answer = 0; answer < 10; ++answer) window.answered(kRoundTrip);
  EXPECT_EQ(size_of(window), 18u);
  for (int answer = 0; answer < 100; ++answer) window.answered(kRoundTrip);
  EXPECT_EQ(size_of(window), 32u);
  EXPECT_EQ(size_of(window_of(2)), 2u);
}

TEST(CallWindow, IsHalvedOncePerRoundTripAndGrowsSlowlyThen) {
  CallWindow window = window_of(64);
  for (int answer = 0; answer < 56; ++answer) window.answered(kRoundTrip);
  EXPECT_EQ(size_of(window), 64u);
  for (Nanoseconds now = 0; now < kRoundTrip; now += kRoundTrip / 10) window.lost(1, now, kRoundTrip);
  EXPECT_EQ(size_of(window), 32u);
  for (int answer = 0; answer < 33; ++answer) window.answered(kRoundTrip);
  EXPECT_EQ(size_of(window), 33u);
  for (Nanoseconds now = kRoundTrip; now < 20 * kRoundTrip; now += kRoundTrip) window.lost(1, now, kRoundTrip);
  EXPECT_EQ(size_of(window), 1u);
}

TEST(CallWindow, ShrinksWhileRoundTripsAreManyTimesTheShortest) {
  CallWindow window = window_of(64);
  for (int answer = 0; answer < 56; ++answer) window.answered(kRoundTrip);
  for (int answer = 0; answer < 100'000; ++answer) window.answered(20 * kRoundTrip);
  EXPECT_EQ(size_of(window), 1u);
}

TEST(CallWindow, IsRestoredIfTheServerHasTheCallThatSeemedLost) {
  CallWindow window = window_of(64);
  window.lost(1, 0, kRoundTrip);
  window.lost(2, 0, kRoundTrip);
  window.was_not_lost(2);
  EXPECT_EQ(size_of(window), 4u) << "nothing is known about the call that counted";
  window.was_not_lost(1);
  EXPECT_EQ(size_of(window), 8u);
  window.answered(kRoundTrip);
  EXPECT_EQ(size_of(window), 9u) << "it still starts";
  window.was_not_lost(1);
  EXPECT_EQ(size_of(window), 9u);
}

TEST(CallWindow, GrowsWithAnswersThatTheirHandlersDelayed) {
  CallWindow window = window_of(64);
  window.answered(kRoundTrip);
  for (int answer = 0; answer < 55; ++answer) window.answered_late();
  EXPECT_EQ(size_of(window), 64u);
}

TEST(CallWindow, DoesNotMindFewSlowAnswers) {
  CallWindow window = window_of(64);
  for (int answer = 0; answer < 10'000; ++answer) window.answered(answer % 100 == 0 ? 1000 * kRoundTrip : kRoundTrip);
  EXPECT_GE(size_of(window), 60u);
}

TEST(RoundTrip, GivesOverdueCallsMoreTimeUntilOneIsMeasured) {
  RoundTrip round_trip;
  EXPECT_EQ(round_trip.overdue(), RoundTrip::kFirst);
  for (int sample = 0; sample < 100; ++sample) round_trip.add(kRoundTrip);
  EXPECT_EQ(round_trip.overdue(), RoundTrip::kShortest);
  round_trip.back_off();
  round_trip.back_off();
  EXPECT_EQ(round_trip.overdue(), 4 * RoundTrip::kShortest);
  for (int times = 0; times < 20; ++times) round_trip.back_off();
  EXPECT_EQ(round_trip.overdue(), RoundTrip::kLongest);
  round_trip.add(kRoundTrip);
  EXPECT_EQ(round_trip.overdue(), RoundTrip::kShortest);
}

}  // namespace
}  // namespace ripc::internal::rpc
