// SPDX-License-Identifier: Apache-2.0
#include "rpc/timer_wheel.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace ripc::internal::rpc {
namespace {

constexpr Nanoseconds kTick = TimerWheel::kTick;
using Timer = TimerWheel::Timer;

TEST(TimerWheel, GivesEachTimerOnceNeverEarlyAndAtMostATickLate) {
  TimerWheel wheel;
  std::mt19937_64 random(1);
  struct Waiting : Timer {
    explicit Waiting(Nanoseconds at) : Timer(Of::call), wanted(at) {}
    Nanoseconds wanted;
    int times = 0;
  };
  std::deque<Waiting> timers;
  Nanoseconds now = 77 * kTick;
  for (int step = 0; step < 5000; ++step) {
    // Up to several times around the wheel.
    Waiting& added = timers.emplace_back(now + random() % (3000 * kTick));
    wheel.set(added, added.wanted);
    const Nanoseconds before = now;
    now += random() % (2 * kTick);
    while (Timer* timer = wheel.take_due(now)) {
      auto& due = static_cast<Waiting&>(*timer);
      EXPECT_GE(now, due.wanted);
      EXPECT_GE(due.wanted + kTick, before);
      ++due.times;
    }
    ASSERT_GT(wheel.next_due(), now);
  }
  now += 4000 * kTick;
  while (Timer* timer = wheel.take_due(now)) ++static_cast<Waiting&>(*timer).times;
  for (const Waiting& timer : timers) EXPECT_EQ(timer.times, 1);
  EXPECT_EQ(wheel.next_due(), UINT64_MAX);
}

TEST(TimerWheel, ForgetsWhatIsRemovedAndSetAnew) {
  TimerWheel wheel;
  Timer removed(Timer::Of::call);
  Timer moved(Timer::Of::session);
  Timer never(Timer::Of::call);
  wheel.set(removed, 5 * kTick);
  wheel.set(moved, 5 * kTick);
  wheel.set(never, 5 * kTick);
  wheel.remove(removed);
  wheel.set(moved, 9 * kTick);
  wheel.set(never, UINT64_MAX);
  EXPECT_FALSE(removed.is_set());
  EXPECT_FALSE(never.is_set());
  EXPECT_EQ(wheel.take_due(8 * kTick), nullptr);
  EXPECT_EQ(wheel.next_due(), 9 * kTick);
  EXPECT_EQ(wheel.take_due(9 * kTick), &moved);
  EXPECT_EQ(moved.of(), Timer::Of::session);
  EXPECT_EQ(wheel.take_due(9 * kTick), nullptr);
  EXPECT_EQ(wheel.next_due(), UINT64_MAX);
}

}  // namespace
}  // namespace ripc::internal::rpc
