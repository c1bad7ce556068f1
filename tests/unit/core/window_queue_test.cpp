// SPDX-License-Identifier: Apache-2.0
#include "core/state/window_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace ripc::internal::core {
namespace {

std::vector<std::uint64_t> take_all(WindowQueue& queue) {
  std::vector<std::uint64_t> cookies;
  for (auto window = queue.take(); !window.empty(); window = queue.take()) cookies.push_back(window.front().cookie);
  return cookies;
}

TEST(WindowQueue, GivesWindowsInPostingOrder) {
  WindowQueue queue;
  std::array<std::byte, 64> memory{};
  EXPECT_TRUE(queue.take().empty());
  for (std::uint64_t cookie = 0; cookie < 5; ++cookie)
    ASSERT_TRUE(queue.post(memory.data() + cookie, 10 + cookie, cookie).ok());
  for (std::uint64_t cookie = 0; cookie < 5; ++cookie) {
    const auto window = queue.take();
    ASSERT_FALSE(window.empty());
    EXPECT_EQ(window.front().data, memory.data() + cookie);
    EXPECT_EQ(window.front().size, 10 + cookie);
    EXPECT_EQ(window.front().cookie, cookie);
  }
  EXPECT_TRUE(queue.take().empty());
}

TEST(WindowQueue, PutsUnusedWindowsBackAtTheirOldPlaces) {
  WindowQueue queue;
  std::byte byte{};
  for (std::uint64_t cookie = 0; cookie < 5; ++cookie) ASSERT_TRUE(queue.post(&byte, 1, cookie).ok());
  auto first = queue.take(), second = queue.take(), third = queue.take();
  queue.give_back(std::move(second));
  queue.give_back(std::move(third));
  queue.give_back(std::move(first));
  EXPECT_EQ(take_all(queue), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  for (std::uint64_t cookie = 0; cookie < 3; ++cookie) ASSERT_TRUE(queue.post(&byte, 1, cookie).ok());
  first = queue.take();
  (void)queue.take();
  third = queue.take();
  queue.give_back(std::move(third));
  ASSERT_TRUE(queue.post(&byte, 1, 9).ok());
  queue.give_back(std::move(first));
  EXPECT_EQ(take_all(queue), (std::vector<std::uint64_t>{0, 2, 9}));
}

TEST(WindowQueue, WithdrawsEveryWindowWithTheCookie) {
  WindowQueue queue;
  std::byte byte{};
  for (const std::uint64_t cookie : {1u, 2u, 1u, 3u, 1u}) ASSERT_TRUE(queue.post(&byte, 1, cookie).ok());
  EXPECT_EQ(queue.withdraw(1), 3u);
  EXPECT_EQ(queue.withdraw(1), 0u);
  EXPECT_EQ(take_all(queue), (std::vector<std::uint64_t>{2, 3}));
}

TEST(WindowQueue, HoldsSoManyAndNoMore) {
  WindowQueue queue;
  std::byte byte{};
  for (std::size_t i = 0; i < WindowQueue::kLimit; ++i) ASSERT_TRUE(queue.post(&byte, 1, 0).ok());
  EXPECT_EQ(queue.post(&byte, 1, 0), RIPC_LIMIT);
  EXPECT_FALSE(queue.take().empty());
  EXPECT_TRUE(queue.post(&byte, 1, 0).ok());
}

TEST(WindowQueue, GivesEachWindowToOneThread) {
  constexpr std::uint64_t kWindows = 5000;
  WindowQueue queue;
  std::byte byte{};
  std::vector<std::atomic<int>> seen(kWindows);
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      while (taken < kWindows) {
        const auto window = queue.take();
        if (window.empty()) {
          std::this_thread::yield();
          continue;
        }
        ++seen[window.front().cookie];
        ++taken;
      }
    });
  }
  for (std::uint64_t cookie = 0; cookie < kWindows; ++cookie) ASSERT_TRUE(queue.post(&byte, 1, cookie).ok());
  for (std::thread& thread : threads) thread.join();
  for (const auto& count : seen) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace ripc::internal::core
