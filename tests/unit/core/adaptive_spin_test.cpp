// SPDX-License-Identifier: Apache-2.0
// How many looks the waits of a receiver make before they sleep, by a clock that the test turns. Also how often it asks
// the system whether others want the processor.
#include "core/receive/adaptive_spin.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/busy_processor.hpp"

namespace ripc::internal::core {
namespace {

constexpr Nanoseconds kTime = 50'000;
constexpr Nanoseconds kLook = 1000;  // between two readings of the clock
constexpr Nanoseconds kForever = UINT64_MAX;

unsigned waits_for_processor = 0;  // percent
int questions = 0;
unsigned fake_percent(Nanoseconds) noexcept {
  ++questions;
  return waits_for_processor;
}

class AdaptiveSpinTest : public testing::Test {
 protected:
  void SetUp() override {
    waits_for_processor = 0;
    questions = 0;
  }
  // One wait in which nothing comes: how often it has looked when it sleeps, or ends.
  int looks_in_vain(AdaptiveSpin& spin, Nanoseconds timeout = kForever) {
    int looks = 0;
    const Nanoseconds until = spin.begin(now_, Deadline::after(timeout, now_).at());
    for (; now_ < until; ++looks) now_ += kLook;
    return looks;
  }

  static constexpr int kAll = static_cast<int>(kTime / kLook);
  static constexpr int kFew = static_cast<int>(AdaptiveSpin::kBusyTime / kLook);
  Nanoseconds now_ = 1'000'000'000;
  AdaptiveSpin spin_{Spin{.time = kTime, .adapts = true}, fake_percent};
};

TEST_F(AdaptiveSpinTest, OnACalmProcessorEachWaitSpinsForTheWholeTime) {
  waits_for_processor = AdaptiveSpin::kBusyPercent;
  for (int wait = 0; wait < 1000; ++wait) EXPECT_EQ(looks_in_vain(spin_), kAll);
}

TEST_F(AdaptiveSpinTest, WhereOthersWantItWaitsEndSoonUntilTheyDoNot) {
  EXPECT_EQ(looks_in_vain(spin_), kAll);
  waits_for_processor = AdaptiveSpin::kBusyPercent + 1;
  now_ += AdaptiveSpin::kInterval;
  questions = 0;
  constexpr int kIntervals = 10;
  for (const Nanoseconds end = now_ + kIntervals * AdaptiveSpin::kBusyInterval; now_ < end;)
    EXPECT_EQ(looks_in_vain(spin_), kFew);
  EXPECT_TRUE(spin_.is_short());
  EXPECT_EQ(questions, kIntervals) << "fewer than on a calm one";
  waits_for_processor = 0;
  now_ += AdaptiveSpin::kBusyInterval;
  EXPECT_EQ(looks_in_vain(spin_), kAll);
  EXPECT_FALSE(spin_.is_short());
}

TEST_F(AdaptiveSpinTest, AWaitNoLongerThanASpinHasNoSleepAlsoWhereOthersWantTheProcessor) {
  waits_for_processor = 100;
  EXPECT_EQ(looks_in_vain(spin_), kFew);
  questions = 0;
  for (int wait = 0; wait < 1000; ++wait) {
    EXPECT_EQ(looks_in_vain(spin_, kTime), kAll);
    EXPECT_EQ(looks_in_vain(spin_, kLook), 1);
  }
  EXPECT_EQ(questions, 0) << "whose answer it would not use";
  EXPECT_EQ(looks_in_vain(spin_, kTime + kLook), kFew);
}

TEST_F(AdaptiveSpinTest, TheSystemIsAskedOnceInAnInterval) {
  constexpr int kIntervals = 10;
  const Nanoseconds end = now_ + kIntervals * AdaptiveSpin::kInterval;
  while (now_ < end) (void)looks_in_vain(spin_);
  EXPECT_EQ(questions, kIntervals);
}

TEST_F(AdaptiveSpinTest, WhoHasSaidHowLongGetsThat) {
  waits_for_processor = 100;
  AdaptiveSpin fixed(Spin{.time = kTime, .adapts = false}, fake_percent);
  for (int wait = 0; wait < 1000; ++wait) EXPECT_EQ(looks_in_vain(fixed), kAll);
  EXPECT_EQ(questions, 0);
  EXPECT_TRUE(AdaptiveSpin(Spin{.time = 0, .adapts = false}).is_off());
}

// Two threads that compute on one processor: each waits for the other's turn to end.
TEST(PercentWaited, IsMuchBesideAThreadThatComputes) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "this system does not tell of waits";
  const support::BusyProcessor busy;
  (void)percent_waited(monotonic_now());
  const Nanoseconds deadline = monotonic_now() + 60'000'000'000;
  unsigned percent = 0;
  while (percent <= AdaptiveSpin::kBusyPercent && monotonic_now() < deadline) percent = percent_waited(monotonic_now());
  EXPECT_GT(percent, AdaptiveSpin::kBusyPercent);
}

}  // namespace
}  // namespace ripc::internal::core
