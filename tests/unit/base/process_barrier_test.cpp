// SPDX-License-Identifier: Apache-2.0
#include "base/process_barrier.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>

#include "base/clock.hpp"
#include "process_helpers.hpp"

namespace ripc::internal {
namespace {

TEST(ProcessBarrier, CanBeRegisteredTwiceAndThenWorks) {
  const bool registered = register_process_barrier();
  EXPECT_EQ(register_process_barrier(), registered);
  if (!registered) GTEST_SKIP() << "the kernel has no membarrier";
  EXPECT_TRUE(process_barrier());
}

// Two processes each store a value and then load the other's. Only one of them executes a barrier. Even so, at least
// one must see the other's store.
TEST(ProcessBarrier, OrdersStoresAndLoadsOfBothProcesses) {
  if (!register_process_barrier()) GTEST_SKIP() << "the kernel has no membarrier";
  constexpr int kRounds = 2000;
  struct Shared {
    alignas(64) std::atomic<int> frequent{0};
    alignas(64) std::atomic<int> rare{0};
    alignas(64) std::atomic<int> round{0}, child_done{0}, child_saw{0};
  };
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& shared = *new (memory) Shared;
  test::Child child([&] {
    CHILD_CHECK(register_process_barrier());
    for (int round = 1; round <= kRounds; ++round) {
      while (shared.round.load(std::memory_order_acquire) < round) sched_yield();
      shared.frequent.store(round, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      shared.child_saw.store(shared.rare.load(std::memory_order_relaxed), std::memory_order_relaxed);
      shared.child_done.store(round, std::memory_order_release);
    }
    return 0;
  });
  // On a busy machine each round waits for a time slice, and fewer are enough.
  const Deadline enough = Deadline::after(20'000'000'000u);
  int both_blind = 0;
  for (int round = 1; round <= kRounds && !enough.expired(); ++round) {
    shared.round.store(round, std::memory_order_release);
    shared.rare.store(round, std::memory_order_relaxed);
    ASSERT_TRUE(process_barrier());
    const bool saw = shared.frequent.load(std::memory_order_relaxed) == round;
    const Deadline patience = Deadline::after(50'000'000'000u);
    while (shared.child_done.load(std::memory_order_acquire) < round) {
      ASSERT_FALSE(patience.expired());
      sched_yield();
    }
    if (!saw && shared.child_saw.load(std::memory_order_relaxed) != round) ++both_blind;
  }
  shared.round.store(kRounds, std::memory_order_release);  // the child need not wait for the others
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(both_blind, 0);
  munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace ripc::internal
