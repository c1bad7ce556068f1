// SPDX-License-Identifier: Apache-2.0
// How often a waiting receiver looks for messages before it sleeps, and when it wakes again. The tests set the clock.
// Also how often the receiver asks the system whether other threads want the processor.
#include "core/receive/adaptive_spin.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/busy_processor.hpp"
#include "support/descriptor_scarcity.hpp"

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
  // Waits once while nothing comes; returns how often the wait looked before it slept or ended.
  int looks_in_vain(AdaptiveSpin& spin, Nanoseconds timeout = kForever) {
    int looks = 0;
    const Nanoseconds until = spin.begin(now_, Deadline::after(timeout, now_).at(), messages_);
    for (; now_ < until; ++looks) now_ += kLook;
    return looks;
  }

  // Waits once for each of these times, after which messages come.
  void wait_for_messages(AdaptiveSpin& spin, std::initializer_list<Nanoseconds> times) {
    for (const Nanoseconds time : times) {
      (void)spin.begin(now_, kForever, messages_++);
      spin.came(now_ += time);
    }
  }
  void wait_regularly(AdaptiveSpin& spin, Nanoseconds time) {
    const Nanoseconds little = time / 100;
    wait_for_messages(spin, {time, time + little, time, time, time + 30 * little, time - little, time + little, time});
  }
  // How long after its start a wait wakes again, its spin included; kForever: it sleeps with no time to wake.
  Nanoseconds sleeps_for(AdaptiveSpin& spin, Nanoseconds timeout = kForever) {
    const Nanoseconds begin = now_;
    (void)looks_in_vain(spin, timeout);
    const Nanoseconds at = spin.wake_at(now_);
    return at == kForever ? at : at - begin;
  }

  static constexpr int kAll = static_cast<int>(kTime / kLook);
  static constexpr int kFew = static_cast<int>(AdaptiveSpin::kBusyTime / kLook);
  static constexpr Nanoseconds kMillisecond = 1'000'000;
  Nanoseconds now_ = 1'000'000'000;
  std::uint64_t messages_ = 0;
  AdaptiveSpin spin_{Spin{.time = kTime, .adapts = true}, fake_percent};
};

TEST_F(AdaptiveSpinTest, OnACalmProcessorEachWaitSpinsForTheWholeTime) {
  waits_for_processor = AdaptiveSpin::kBusyPercent;
  for (int wait = 0; wait < 1000; ++wait) EXPECT_EQ(looks_in_vain(spin_), kAll);
}

TEST_F(AdaptiveSpinTest, SpinsAreShortWhileOthersWantTheProcessor) {
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

TEST_F(AdaptiveSpinTest, WaitsSleepAtOnceAfterVainSpinsOnABusyProcessor) {
  waits_for_processor = 100;
  const auto wait_in_vain = [&] {
    const int looks = looks_in_vain(spin_);
    (void)spin_.wake_at(now_);
    spin_.came(now_ += kMillisecond);
    return looks;
  };
  const auto spins_of_many = [&] {
    unsigned spins = 0;
    for (unsigned wait = 0; wait < AdaptiveSpin::kMany; ++wait) {
      const int looks = wait_in_vain();
      EXPECT_EQ(looks, looks != 0 ? kFew : 0);
      spins += looks != 0;
    }
    return spins;
  };
  EXPECT_EQ(spins_of_many(), AdaptiveSpin::kTries);
  EXPECT_EQ(spins_of_many(), AdaptiveSpin::kTries) << "it tries again now and then";
  for (unsigned wait = 0; wait < AdaptiveSpin::kTries; ++wait) EXPECT_EQ(wait_in_vain(), kFew);
  EXPECT_EQ(wait_in_vain(), 0);
  // After a wait that ends in time, the next ones spin.
  (void)looks_in_vain(spin_);
  spin_.came(now_);
  EXPECT_EQ(wait_in_vain(), kFew);
}

TEST_F(AdaptiveSpinTest, AWaitNoLongerThanASpinHasNoSleep) {
  for (int wait = 0; wait < 1000; ++wait) {
    EXPECT_EQ(looks_in_vain(spin_, kTime), kAll);
    EXPECT_EQ(looks_in_vain(spin_, kLook), 1);
  }
}

TEST_F(AdaptiveSpinTest, OnlyWaitsUpToAShortSpinDoNotSleepOnABusyProcessor) {
  waits_for_processor = 100;
  for (int wait = 0; wait < 10; ++wait) {
    EXPECT_EQ(looks_in_vain(spin_, AdaptiveSpin::kBusyTime), kFew);
    EXPECT_EQ(looks_in_vain(spin_, kLook), 1);
  }
  for (unsigned wait = 0; wait < AdaptiveSpin::kTries; ++wait) {
    EXPECT_EQ(looks_in_vain(spin_, kTime), kFew);
    EXPECT_EQ(spin_.wake_at(now_), now_ + kTime - AdaptiveSpin::kBusyTime) << "its end";
  }
  EXPECT_EQ(looks_in_vain(spin_, kTime), 0) << "after some in vain";
  EXPECT_EQ(spin_.begin(now_, now_ + kTime, messages_, true), now_ + kTime)
      << "another thread waits for the descriptor";
}

TEST_F(AdaptiveSpinTest, TheSystemIsAskedOnceInAnInterval) {
  constexpr int kIntervals = 10;
  const Nanoseconds end = now_ + kIntervals * AdaptiveSpin::kInterval;
  while (now_ < end) (void)looks_in_vain(spin_);
  EXPECT_EQ(questions, kIntervals);
}

TEST_F(AdaptiveSpinTest, AFixedTimeIsKeptOnABusyProcessor) {
  waits_for_processor = 100;
  AdaptiveSpin fixed(Spin{.time = kTime, .adapts = false}, fake_percent);
  for (int wait = 0; wait < 1000; ++wait) EXPECT_EQ(looks_in_vain(fixed), kAll);
  EXPECT_EQ(questions, 0);
  EXPECT_TRUE(AdaptiveSpin(Spin{.time = 0, .adapts = false}).is_off());
}

TEST_F(AdaptiveSpinTest, WithOneProcessorWaitsSpinOnceAllPeersSeenAreOnOtherHosts) {
  AdaptiveSpin spin(Spin{.time = kTime, .remote_only = true}, fake_percent);
  EXPECT_TRUE(spin.is_off());
  EXPECT_EQ(looks_in_vain(spin), 0) << "no peer is known";
  EXPECT_EQ(questions, 0);
  spin.met(false);
  EXPECT_FALSE(spin.is_off());
  EXPECT_EQ(looks_in_vain(spin), kAll);
  spin.met(true);
  EXPECT_TRUE(spin.is_off());
  wait_regularly(spin, 100'000);
  EXPECT_EQ(looks_in_vain(spin), 0) << "it expects no message either";
  spin.met(false);
  EXPECT_EQ(looks_in_vain(spin), 0);
}

TEST_F(AdaptiveSpinTest, PeersOnThisHostChangeNothingWithMoreProcessors) {
  spin_.met(true);
  EXPECT_EQ(looks_in_vain(spin_), kAll);
  spin_.met(false);
  EXPECT_EQ(looks_in_vain(spin_), kAll);
}

TEST_F(AdaptiveSpinTest, WaitsSpinOnForMessagesThatComeSoonAfterASpin) {
  wait_regularly(spin_, 100'000);
  const int looks = looks_in_vain(spin_);
  EXPECT_GT(looks, 101);
  EXPECT_LT(looks, 110) << "the one that took longer was an accident";
  wait_regularly(spin_, AdaptiveSpin::kMostExpecting);
  EXPECT_EQ(looks_in_vain(spin_), kAll) << "that is too long";
}

TEST_F(AdaptiveSpinTest, AWaitWakesJustBeforeARegularMessage) {
  wait_regularly(spin_, kMillisecond);
  const Nanoseconds begin = now_;
  const Nanoseconds sleeps = sleeps_for(spin_);
  EXPECT_LE(sleeps + AdaptiveSpin::kEarly, kMillisecond - 10'000);
  EXPECT_GE(sleeps + AdaptiveSpin::kEarly, kMillisecond - 50'000);
  now_ = begin + sleeps;
  EXPECT_GE(spin_.watch_until(), begin + kMillisecond + 10'000);
  EXPECT_LE(spin_.watch_until() - now_, AdaptiveSpin::kMostExpecting);
  // Nothing came, so it sleeps with no time to wake.
  now_ = spin_.watch_until();
  EXPECT_EQ(spin_.wake_at(now_), kForever);
}

TEST_F(AdaptiveSpinTest, AWaitForRandomMessagesSleepsToItsEnd) {
  const Nanoseconds ms = kMillisecond;
  wait_for_messages(spin_, {ms, 3 * ms, 2 * ms, ms / 2, 7 * ms, ms / 4, ms, 2 * ms});
  EXPECT_EQ(sleeps_for(spin_), kForever);
  wait_regularly(spin_, 3 * AdaptiveSpin::kEarly);
  EXPECT_EQ(sleeps_for(spin_), kForever) << "which would spin for a third of the time";
}

TEST_F(AdaptiveSpinTest, AWaitIsAwakeAtItsEndUnlessItIsOneOfManyInVain) {
  constexpr Nanoseconds kTimeout = kMillisecond;
  ++messages_;
  EXPECT_EQ(sleeps_for(spin_, kTimeout), kTimeout - AdaptiveSpin::kEarly);
  EXPECT_EQ(spin_.watch_until(), now_ - kTime + kTimeout);
  EXPECT_EQ(sleeps_for(spin_, kTimeout), kTimeout - AdaptiveSpin::kEarly);
  for (int wait = 0; wait < 10; ++wait) EXPECT_EQ(sleeps_for(spin_, kTimeout), kTimeout);
  EXPECT_EQ(looks_in_vain(spin_, AdaptiveSpin::kMostExpecting), kAll);
  ++messages_;
  EXPECT_EQ(looks_in_vain(spin_, AdaptiveSpin::kMostExpecting), 5 * kAll) << "a sleep would not end in time";
}

TEST_F(AdaptiveSpinTest, NothingIsExpectedOnABusyProcessorOrWithAFixedTime) {
  AdaptiveSpin fixed(Spin{.time = kTime, .adapts = false}, fake_percent);
  for (AdaptiveSpin* const spin : {&fixed, &spin_}) {
    waits_for_processor = spin == &spin_ ? 100 : 0;
    wait_regularly(*spin, 100'000);
    EXPECT_EQ(looks_in_vain(*spin), spin == &spin_ ? kFew : kAll);
    wait_regularly(*spin, kMillisecond);
    EXPECT_EQ(sleeps_for(*spin), kForever);
    EXPECT_EQ(sleeps_for(*spin, kMillisecond), kMillisecond);
  }
}

// Two threads compute on one processor, so each waits while the other runs.
TEST(PercentWaited, IsMuchBesideAThreadThatComputes) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "this system does not tell of waits";
  const support::BusyProcessor busy;
  (void)percent_waited(monotonic_now());
  const Nanoseconds deadline = monotonic_now() + 60'000'000'000;
  unsigned percent = 0;
  while (percent <= AdaptiveSpin::kBusyPercent && monotonic_now() < deadline) percent = percent_waited(monotonic_now());
  EXPECT_GT(percent, AdaptiveSpin::kBusyPercent);
}

TEST(PercentWaited, IsNothingIfTheSystemDoesNotSayAnyMore) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "this system does not tell of waits";
  const support::BusyProcessor busy;
  const Nanoseconds deadline = monotonic_now() + 60'000'000'000;
  while (percent_waited(monotonic_now()) == 0 && monotonic_now() < deadline) continue;
  const support::DescriptorScarcity scarcity(0);
  for (int question = 0; question < 2; ++question) EXPECT_EQ(percent_waited(monotonic_now()), 0u);
}

TEST_F(AdaptiveSpinTest, AWaitThatBringsWhatItWaitsForGoesOnWhileThatComes) {
  AdaptiveSpin spin({.time = kTime}, fake_percent);
  (void)spin.begin(now_, now_ + 3 * kTime, messages_);
  EXPECT_EQ(spin.go_on(now_ + kTime), now_ + 2 * kTime);
  EXPECT_EQ(spin.go_on(now_ + 5 * kTime / 2), now_ + 3 * kTime) << "its end";
  waits_for_processor = AdaptiveSpin::kBusyPercent + 1;
  now_ += AdaptiveSpin::kBusyInterval;
  (void)spin.begin(now_, kForever, messages_);
  EXPECT_EQ(spin.go_on(now_), now_) << "others want the processor";
}

}  // namespace
}  // namespace ripc::internal::core
