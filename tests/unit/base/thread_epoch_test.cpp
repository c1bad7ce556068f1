// SPDX-License-Identifier: Apache-2.0
#include "base/thread_epoch.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <semaphore>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "process_helpers.hpp"

namespace ripc::internal {
namespace {

using Section = ThreadEpoch::Section;

TEST(ThreadEpoch, HasOneRecordForEachLivingThread) {
  ThreadEpoch::Record& mine = ThreadEpoch::current();
  EXPECT_EQ(&mine, &ThreadEpoch::current());
  const ThreadEpoch::Record* other = nullptr;
  std::thread([&] { other = &ThreadEpoch::current(); }).join();
  EXPECT_NE(other, &mine);
}

TEST(ThreadEpoch, UsesTheRecordsOfEndedThreadsAgain) {
  std::set<const ThreadEpoch::Record*> records;
  for (int i = 0; i < 50; ++i) std::thread([&] { records.insert(&ThreadEpoch::current()); }).join();
  EXPECT_EQ(records.size(), 1u);
}

// Runs after its thread has given its record back, if the thread makes it before it takes the record.
struct LateDestructor {
  std::function<void()> body;
  ~LateDestructor() {
    if (body) body();
  }
};

TEST(ThreadEpoch, SharesNoRecordWithADestructorThatRunsLate) {
  bool in_use = false;
  bool is_shared = true;
  std::thread([&] {
    static thread_local LateDestructor late;
    late.body = [&] {
      const ThreadEpoch::Record& mine = ThreadEpoch::current();
      in_use = mine.in_use;
      std::thread([&] { is_shared = &ThreadEpoch::current() == &mine; }).join();
    };
    (void)ThreadEpoch::current();
  }).join();
  EXPECT_TRUE(in_use);
  EXPECT_FALSE(is_shared);
}

TEST(ThreadEpoch, UsesTheRecordsOfDestructorsThatRunLateAgain) {
  std::set<const ThreadEpoch::Record*> records;
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      static thread_local LateDestructor last, late;
      last.body = late.body = [&] { records.insert(&ThreadEpoch::current()); };
      (void)ThreadEpoch::current();
    }).join();
  }
  EXPECT_EQ(records.size(), 1u);
}

TEST(ThreadEpoch, CounterIsOddInASectionAlsoWhenSectionsNest) {
  ThreadEpoch::Record& record = ThreadEpoch::current();
  const std::uint64_t before = record.counter;
  EXPECT_EQ(before % 2, 0u);
  {
    const Section outer(record);
    EXPECT_EQ(record.counter % 2, 1u);
    {
      const Section inner(record);
      EXPECT_EQ(record.counter, before + 1);
    }
    EXPECT_EQ(record.counter, before + 1) << "the outer one is still going on";
  }
  EXPECT_EQ(record.counter, before + 2);
}

TEST(ThreadEpoch, SynchronizeReturnsAtOnceWithoutASection) {
  std::thread other([] { ThreadEpoch::synchronize(ThreadEpoch::current()); });
  other.join();
  ThreadEpoch::synchronize(ThreadEpoch::current());
}

TEST(ThreadEpoch, SynchronizeWaitsForTheSectionThatHadBegun) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<const ThreadEpoch::Record*> record{nullptr};
    std::atomic<bool> go{false};
    int value = 0;  // not atomic: the order alone makes the read correct
    std::thread reader([&] {
      const Section section(ThreadEpoch::current());
      record = &ThreadEpoch::current();
      while (!go) std::this_thread::yield();
      value = 7;
    });
    while (record == nullptr) std::this_thread::yield();
    go = true;
    ThreadEpoch::synchronize(*record);
    EXPECT_EQ(value, 7);
    reader.join();
  }
}

TEST(ThreadEpoch, SynchronizeDoesNotWaitForSectionsThatBeginLater) {
  std::atomic<const ThreadEpoch::Record*> record{nullptr};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    record = &ThreadEpoch::current();
    while (!stop) const Section section(ThreadEpoch::current());
  });
  while (record == nullptr) std::this_thread::yield();
  for (int i = 0; i < 500; ++i) ThreadEpoch::synchronize(*record);
  stop = true;
  reader.join();
}

TEST(Waiting, IsOverWhenNoSectionHadBegun) {
  EXPECT_TRUE(ThreadEpoch::Waiting().over());
  EXPECT_TRUE(ThreadEpoch::Waiting::for_all().over());
}

TEST(Waiting, IsOverWhenTheSectionsThatHadBegunAreEvenIfOthersHaveBegunSince) {
  std::atomic<int> step{0};
  const auto wait_for = [&](int value) {
    while (step < value) std::this_thread::yield();
  };
  std::thread reader([&] {
    {
      const Section section(ThreadEpoch::current());
      step = 1;
      wait_for(2);
    }
    const Section section(ThreadEpoch::current());
    step = 3;
    wait_for(4);
  });
  wait_for(1);
  ThreadEpoch::Waiting waiting = ThreadEpoch::Waiting::for_all();
  EXPECT_FALSE(waiting.over());
  step = 2;
  wait_for(3);
  EXPECT_TRUE(waiting.over());
  EXPECT_TRUE(waiting.over());
  step = 4;
  reader.join();
}

void retire(EpochDomain& domain, std::function<void()> destroy) {
  domain.retire(EpochDomain::prepare(std::move(destroy)));
}

// ForkGuard calls forget_other_threads() in every child.
TEST(ThreadEpoch, DoesNotWaitInAForkedChildForSectionsOfTheParentsOtherThreads) {
  (void)ForkGuard::generation();
  std::binary_semaphore inside(0), leave(0);
  std::jthread reader([&] {
    const ThreadEpoch::Section section(ThreadEpoch::current());
    inside.release();
    leave.acquire();
  });
  inside.acquire();
  EXPECT_EQ(test::run_in_child([] {
              EpochDomain domain;
              bool destroyed = false;
              domain.retire(EpochDomain::prepare([&] { destroyed = true; }));
              domain.reclaim_all();
              return destroyed ? 0 : 1;
            }),
            0);
  leave.release();
}

TEST(EpochDomain, DestroysFromReclaimOnly) {
  EpochDomain domain;
  EXPECT_TRUE(domain.reclaim()) << "nothing to do";
  int destroyed = 0;
  retire(domain, [&] { ++destroyed; });
  retire(domain, [&] { ++destroyed; });
  EXPECT_EQ(destroyed, 0);
  EXPECT_TRUE(domain.reclaim());
  EXPECT_EQ(destroyed, 2);
  EXPECT_TRUE(domain.reclaim());
  EXPECT_EQ(destroyed, 2) << "once";
}

TEST(EpochDomain, KeepsWhatASectionMaySee) {
  EpochDomain domain;
  int destroyed = 0;
  {
    const Section section(ThreadEpoch::current());
    retire(domain, [&] { ++destroyed; });
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(domain.reclaim());
    retire(domain, [&] { ++destroyed; });
    EXPECT_FALSE(domain.reclaim());
    EXPECT_EQ(destroyed, 0);
  }
  domain.reclaim_all();
  EXPECT_EQ(destroyed, 2);
}

TEST(EpochDomain, MayRetireMoreWhileItDestroys) {
  EpochDomain domain;
  int destroyed = 0;
  retire(domain, [&] { retire(domain, [&] { ++destroyed; }); });
  domain.reclaim_all();
  domain.reclaim_all();
  EXPECT_EQ(destroyed, 1);
}

TEST(EpochDomain, DestroysEverythingBeforeItGoes) {
  int destroyed = 0;
  {
    EpochDomain domain;
    for (int i = 0; i < 5; ++i) retire(domain, [&] { ++destroyed; });
  }
  EXPECT_EQ(destroyed, 5);
}

// An object is never destroyed while a reader uses it. A sanitizer would see that; without one, the values show it.
TEST(EpochDomain, NeverDestroysWhatAReaderReads) {
  struct Object {
    explicit Object(std::uint64_t number) : value(number), check(~number) {}
    ~Object() { value = check = 0; }
    std::uint64_t value, check;
  };
  EpochDomain domain;
  std::atomic<Object*> current{new Object(0)};
  std::atomic<bool> stop{false}, wrong{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      while (!stop) {
        const Section section(ThreadEpoch::current());
        const Object* object = current.load(std::memory_order_acquire);
        for (int look = 0; look < 4; ++look) {
          if (object->value != ~object->check) wrong = true;
        }
      }
    });
  }
  for (std::uint64_t number = 1; number <= 5000; ++number) {
    Object* former = current.exchange(new Object(number), std::memory_order_acq_rel);
    retire(domain, [former] { delete former; });
    (void)domain.reclaim();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  domain.reclaim_all();
  delete current.load();
  EXPECT_FALSE(wrong);
}

TEST(EpochDomain, TakesRetirementsFromManyThreads) {
  EpochDomain domain;
  std::atomic<int> destroyed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Section section(ThreadEpoch::current());
        retire(domain, [&] { ++destroyed; });
        (void)domain.reclaim();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  domain.reclaim_all();
  EXPECT_EQ(destroyed, 2000);
}

}  // namespace
}  // namespace ripc::internal
