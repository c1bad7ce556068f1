// SPDX-License-Identifier: Apache-2.0
#include "base/thread_bias.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace ripc::internal {
namespace {

class ThreadBiasTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!ThreadEpoch::has_barrier()) GTEST_SKIP() << "no membarrier here: nobody gets a bias";
    (void)ThreadEpoch::current();
  }
  ThreadBias bias_;
};

bool enter_elsewhere(ThreadBias& bias) {
  bool entered = false;
  std::thread([&] {
    (void)ThreadEpoch::current();
    entered = bias.enter();
    if (entered) bias.leave();
  }).join();
  return entered;
}

TEST_F(ThreadBiasTest, BelongsToTheThreadThatAsksFirst) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(bias_.enter());
    bias_.leave();
    EXPECT_FALSE(enter_elsewhere(bias_));
  }
}

TEST_F(ThreadBiasTest, IsOverForGoodWhenAnotherThreadShares) {
  ASSERT_TRUE(bias_.enter());
  bias_.leave();
  std::thread([&] { bias_.share(); }).join();
  EXPECT_FALSE(bias_.enter());
  EXPECT_FALSE(enter_elsewhere(bias_));
}

TEST_F(ThreadBiasTest, IsNoOnesWhereAllShareBeforeAnyoneAsks) {
  bias_.share();
  EXPECT_FALSE(bias_.enter());
}

TEST_F(ThreadBiasTest, StaysWithAnOwnerThatSharesItself) {
  ASSERT_TRUE(bias_.enter());
  bias_.leave();
  bias_.share();
  ASSERT_TRUE(bias_.enter());
  bias_.leave();
}

TEST_F(ThreadBiasTest, EndsWithOneBarrier) {
  ASSERT_TRUE(bias_.enter());
  bias_.leave();
  const std::uint64_t before = ThreadEpoch::barriers();
  std::thread([&] {
    for (int i = 0; i < 100; ++i) bias_.share();
  }).join();
  EXPECT_EQ(ThreadEpoch::barriers(), before + 1);
}

TEST_F(ThreadBiasTest, SharingWaitsForTheOwnerToLeave) {
  for (int round = 0; round < 200; ++round) {
    ThreadBias bias;
    std::atomic<bool> entered{false}, shares{false};
    int value = 0;  // not atomic: the order alone makes the read correct
    std::thread owner([&] {
      (void)ThreadEpoch::current();
      ASSERT_TRUE(bias.enter());
      entered = true;
      while (!shares) std::this_thread::yield();
      value = 1;
      bias.leave();
    });
    while (!entered) std::this_thread::yield();
    shares = true;
    bias.share();
    EXPECT_EQ(value, 1);
    owner.join();
  }
}

// Three threads count up one word. Each of them may turn out to be the owner, and loses the bias at any moment.
TEST_F(ThreadBiasTest, NoChangeOfTheWordIsLostWhileItEnds) {
  constexpr std::uint64_t kEach = 2000;
  for (int round = 0; round < 200; ++round) {
    ThreadBias bias;
    std::atomic<std::uint64_t> word{0};
    const auto count = [&] {
      (void)ThreadEpoch::current();
      for (std::uint64_t i = 0; i < kEach; ++i) {
        if (bias.enter()) {
          word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          bias.leave();
        } else {
          bias.share();
          word.fetch_add(1, std::memory_order_relaxed);
        }
      }
    };
    std::array<std::thread, 3> threads;
    for (std::thread& thread : threads) thread = std::thread(count);
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(word.load(), threads.size() * kEach);
  }
}

}  // namespace
}  // namespace ripc::internal
