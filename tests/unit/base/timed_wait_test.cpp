// SPDX-License-Identifier: Apache-2.0
#include "base/timed_wait.hpp"

#include <gtest/gtest.h>

#include <mutex>

namespace ripc::internal {
namespace {

// Remembers how long it was to wait at most.
struct NotedWait {
  template <typename Lock>
  void wait_for(Lock&, std::chrono::nanoseconds time) {
    last = time;
  }
  std::chrono::nanoseconds last{0};
};

TEST(TimedWait, WaitsAsLongAsItIsTold) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  NotedWait changed;
  for (const Nanoseconds time : {Nanoseconds{0}, Nanoseconds{1}, Nanoseconds{3'600'000'000'000}}) {
    wait_at_most(changed, lock, time);
    EXPECT_EQ(changed.last.count(), static_cast<std::int64_t>(time));
  }
}

TEST(TimedWait, NoTimeIsTooLongForTheClockOfTheStandardLibrary) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  for (const Nanoseconds time : {UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX}) {
    NotedWait changed;
    wait_at_most(changed, lock, time);
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    EXPECT_GT(changed.last, std::chrono::hours(1)) << time;
    EXPECT_LT(changed.last, std::chrono::nanoseconds::max() - since_start) << time;
  }
}

}  // namespace
}  // namespace ripc::internal
