// SPDX-License-Identifier: Apache-2.0
// The pool used by several threads at once. This is most useful under ThreadSanitizer, which notices if two threads get
// the same memory without synchronization.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "memory/pool.hpp"
#include "pool_helpers.hpp"

namespace ripc::internal::memory {
namespace {

constexpr int kThreads = 4;

// Runs the function in threads that all start at about the same time.
template <typename Function>
void run_threads(Function function) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      function(index);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A held range on its way to another thread.
struct Parcel {
  Hold hold;
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::byte mark{};
};

class Queue {
 public:
  void put(Parcel parcel) {
    const std::lock_guard guard(mutex_);
    parcels_.push_back(std::move(parcel));
  }
  bool take(Parcel& parcel) {
    const std::lock_guard guard(mutex_);
    if (parcels_.empty()) return false;
    parcel = std::move(parcels_.front());
    parcels_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<Parcel> parcels_;
};

TEST(PoolThreads, MemoryHeldByAnotherThreadStaysUntouchedAfterItsRelease) {
  constexpr int kRounds = 10000;
  Pool pool(256 * kMebi);
  Queue queue;
  std::atomic<int> damaged{0};
  std::atomic<int> refused{0};
  run_threads([&](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    for (int i = 0; i < kRounds; ++i) {
      const std::size_t size = std::size_t{1} << (random() % 18);
      Result<std::byte*> data = pool.lease(size);
      if (!data.ok()) {
        ++refused;
        continue;
      }
      const auto mark = static_cast<std::byte>(random());
      (*data)[0] = mark;
      (*data)[size - 1] = mark;
      Result<Hold> hold = pool.hold(*data, size);
      if (!hold.ok() || !pool.release(*data).ok()) {
        ++refused;
        continue;
      }
      queue.put(Parcel{std::move(hold).value(), *data, size, mark});
      Parcel parcel;
      if (!queue.take(parcel)) continue;
      if (parcel.data[0] != parcel.mark || parcel.data[parcel.size - 1] != parcel.mark) ++damaged;
    }
  });
  Parcel rest;
  while (queue.take(rest)) {
  }
  rest = Parcel();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(refused, 0);
  const ripc_pool_statistics now = statistics_of(pool);
  EXPECT_EQ(now.leases, static_cast<std::uint64_t>(kThreads) * kRounds);
  EXPECT_EQ(now.releases, now.leases);
  EXPECT_EQ(now.deferred_releases, now.leases);
  EXPECT_EQ(now.leased, 0u);
}

TEST(PoolThreads, FirstLeasesOfAllThreadsShareOneArena) {
  for (int round = 0; round < 20; ++round) {
    for (const std::uint64_t limit : {64 * kMebi, 1024 * kMebi}) {
      Pool pool(limit);
      std::atomic<int> failed{0};
      run_threads([&](int) {
        if (!pool.lease(1000).ok()) ++failed;
      });
      EXPECT_EQ(failed, 0) << "a thread did not wait for the arena that another one was creating";
      EXPECT_EQ(statistics_of(pool).arenas, 1u);
    }
  }
}

TEST(PoolThreads, LimitHoldsAndNoLeaseFailsThatWouldFit) {
  // In every round one lease takes the whole limit, as one arena. Then all threads need a part of it at once. A thread
  // that comes while another is still freeing that arena has to wait.
  constexpr std::size_t kPart = 36 * kMebi;
  constexpr std::uint64_t kLimit = kThreads * kPart + 2 * kMebi;
  constexpr std::uint64_t kRounds = 10;
  Pool pool(kLimit);
  std::atomic<int> failed{0};
  std::atomic<int> exceeded{0};
  std::barrier<> barrier(kThreads);
  const auto lease_and_touch = [&](std::size_t size) {
    Result<std::byte*> data = pool.lease(size);
    if (statistics_of(pool).reserved > kLimit) ++exceeded;
    if (!data.ok()) {
      ++failed;
      return static_cast<std::byte*>(nullptr);
    }
    (*data)[0] = std::byte{1};
    (*data)[size - 1] = std::byte{1};
    return *data;
  };
  run_threads([&](int index) {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      if (index == 0) {
        std::byte* const whole = lease_and_touch(kLimit);
        // Freeing many pages takes long enough for the others to come.
        if (whole != nullptr) std::memset(whole, 1, 32 * kMebi);
        if (!pool.release(whole).ok()) ++failed;
      }
      barrier.arrive_and_wait();
      std::byte* const data = lease_and_touch(kPart);
      barrier.arrive_and_wait();
      if (!pool.release(data).ok()) ++failed;
      barrier.arrive_and_wait();
    }
  });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(exceeded, 0);
  const ripc_pool_statistics now = statistics_of(pool);
  EXPECT_EQ(now.leases - now.reuses, kRounds * (kThreads + 1)) << "every arena was to be a new one";
}

TEST(PoolThreads, MixedSizesAtTheLimitNeverExceedItAndThePoolRecovers) {
  constexpr std::uint64_t kLimit = 100 * kMebi;
  Pool pool(kLimit);
  std::atomic<int> wrong{0};
  run_threads([&](int index) {
    std::mt19937 random(static_cast<unsigned>(index) + 100);
    for (int i = 0; i < 2000; ++i) {
      const std::size_t size = std::size_t{1} << (random() % 27);
      Result<std::byte*> data = pool.lease(size);
      if (!data.ok() && data.status().code() != RIPC_NO_MEMORY) ++wrong;
      if (statistics_of(pool).reserved > kLimit) ++wrong;
      if (!data.ok()) continue;
      (*data)[size / 2] = std::byte{1};
      Result<std::span<std::byte>> found = pool.find(*data + size / 2);
      if (!found.ok() || found->data() != *data || found->size() != size) ++wrong;
      if (!pool.release(*data).ok()) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(statistics_of(pool).leased, 0u);
  EXPECT_TRUE(pool.lease(kLimit).ok());
}

TEST(PoolThreads, RegistrationsAreCountedAcrossThreads) {
  Pool pool(64 * kMebi);
  std::vector<std::byte> memory(1000);
  std::atomic<int> wrong{0};
  run_threads([&](int index) {
    for (int i = 0; i < 1000; ++i) {
      std::byte* const data = memory.data() + (i + index) % 7;
      if (!pool.register_memory(data, 100).ok()) ++wrong;
      if (!pool.find(data + 50).ok()) ++wrong;
      if (!pool.hold(data, 100).ok()) ++wrong;
      if (!pool.unregister_memory(data).ok()) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(statistics_of(pool).registrations, 0u);
}

}  // namespace
}  // namespace ripc::internal::memory
