// SPDX-License-Identifier: Apache-2.0
#include "base/biased_mutex.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ripc::internal {
namespace {

// How many barriers are executed while another thread locks the mutex `count` times.
std::uint64_t barriers_of_visits(BiasedMutex& mutex, int count) {
  const std::uint64_t before = ThreadEpoch::barriers();
  std::thread([&] {
    for (int visit = 0; visit < count; ++visit) const std::lock_guard lock(mutex);
  }).join();
  return ThreadEpoch::barriers() - before;
}

class BiasedMutexTest : public testing::Test {
 protected:
  void adopt() {
    if (!ThreadEpoch::has_barrier()) GTEST_SKIP() << "no membarrier here: nobody gets a bias";
    mutex_.adopt();
  }
  BiasedMutex mutex_;
};

TEST_F(BiasedMutexTest, IsAPlainMutexUntilAThreadAdoptsIt) {
  EXPECT_EQ(barriers_of_visits(mutex_, 3), 0u);
  adopt();
  EXPECT_EQ(barriers_of_visits(mutex_, 3), 3u);
}

TEST_F(BiasedMutexTest, StaysWithTheThreadThatAdoptedItFirst) {
  adopt();
  std::thread([&] { mutex_.adopt(); }).join();
  EXPECT_EQ(barriers_of_visits(mutex_, 1), 1u);
}

TEST_F(BiasedMutexTest, CostsItsOwnerNoBarrier) {
  adopt();
  const std::uint64_t before = ThreadEpoch::barriers();
  for (int i = 0; i < 1000; ++i) const std::lock_guard lock(mutex_);
  EXPECT_EQ(ThreadEpoch::barriers(), before);
}

TEST_F(BiasedMutexTest, LosesItsBiasToThreadsThatLockOften) {
  adopt();
  EXPECT_LT(barriers_of_visits(mutex_, 1000), 100u);
  EXPECT_EQ(barriers_of_visits(mutex_, 10), 0u);
}

TEST_F(BiasedMutexTest, KeepsItsBiasWhereTheOwnerLocksMuchMore) {
  adopt();
  std::uint64_t barriers = 0;
  for (int visit = 0; visit < 100; ++visit) {
    for (int i = 0; i < 8192; ++i) const std::lock_guard lock(mutex_);
    barriers += barriers_of_visits(mutex_, 1);
  }
  EXPECT_EQ(barriers, 100u);
}

// The owner and other threads compete, while the bias lasts and after it ends.
TEST_F(BiasedMutexTest, LetsOneThreadInAtATime) {
  adopt();
  std::uint64_t count = 0;  // not atomic: the mutex guards it
  constexpr int kVisitors = 3, kVisits = 400, kOwners = 200'000;
  std::vector<std::thread> visitors;
  for (int i = 0; i < kVisitors; ++i) {
    visitors.emplace_back([&] {
      for (int visit = 0; visit < kVisits; ++visit) {
        const std::lock_guard lock(mutex_);
        ++count;
      }
    });
  }
  for (int i = 0; i < kOwners; ++i) {
    const std::lock_guard lock(mutex_);
    ++count;
  }
  for (std::thread& visitor : visitors) visitor.join();
  EXPECT_EQ(count, std::uint64_t{kOwners} + kVisitors * kVisits);
}

TEST_F(BiasedMutexTest, WorksWithAConditionVariable) {
  adopt();
  std::condition_variable_any changed;
  int turn = 0;  // guarded by the mutex
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) {
      std::unique_lock lock(mutex_);
      changed.wait(lock, [&] { return turn % 2 == 1; });
      ++turn;
      changed.notify_all();
    }
  });
  for (int i = 0; i < 50; ++i) {
    std::unique_lock lock(mutex_);
    ++turn;
    changed.notify_all();
    changed.wait(lock, [&] { return turn % 2 == 0; });
  }
  other.join();
  EXPECT_EQ(turn, 100);
}

}  // namespace
}  // namespace ripc::internal
