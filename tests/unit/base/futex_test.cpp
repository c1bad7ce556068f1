// SPDX-License-Identifier: Apache-2.0
#include "base/futex.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <thread>
#include <vector>

namespace ripc::internal {
namespace {

constexpr Nanoseconds kWakePatience = 20'000'000'000;

TEST(Futex, ReturnsAtOnceIfTheWordHasChanged) {
  const std::atomic<std::uint32_t> word{5};
  EXPECT_EQ(futex_wait(word, 4, Deadline::never()), RIPC_OK);
}

TEST(Futex, TimesOut) {
  const std::atomic<std::uint32_t> word{5};
  const Nanoseconds begin = monotonic_now();
  EXPECT_EQ(futex_wait(word, 5, Deadline::after(5'000'000)), RIPC_TIMEOUT);
  EXPECT_GE(monotonic_now() - begin, 5'000'000u);
  EXPECT_EQ(futex_wait(word, 5, Deadline::after(0)), RIPC_TIMEOUT);
}

TEST(Futex, WakesEveryThread) {
  std::atomic<std::uint32_t> word{5};
  std::vector<std::jthread> threads;
  for (int count = 0; count < 4; ++count) {
    threads.emplace_back([&] {
      while (word == 5) EXPECT_EQ(futex_wait(word, 5, Deadline::after(kWakePatience)), RIPC_OK);
    });
  }
  word = 6;
  futex_wake(word);
}

TEST(Futex, ASignalHandlerEndsTheWaitThoughItAsksForARestart) {
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  for (const Deadline deadline : {Deadline::never(), Deadline::after(kWakePatience)}) {
    const std::atomic<std::uint32_t> word{5};
    std::atomic<bool> returned{false};
    std::jthread sleeper([&] {
      EXPECT_EQ(futex_wait(word, 5, deadline), RIPC_INTERRUPTED);
      returned = true;
    });
    // A signal that comes before the sleep does not end it, so the loop sends more.
    while (!returned) {
      pthread_kill(sleeper.native_handle(), SIGUSR1);
      std::this_thread::yield();
    }
  }
  sigaction(SIGUSR1, &previous, nullptr);
}

}  // namespace
}  // namespace ripc::internal
