// SPDX-License-Identifier: Apache-2.0
// A registration is never used again once its memory is not what it was, whatever made it so.
#include <sys/wait.h>

#include <barrier>
#include <latch>
#include <thread>
#include <vector>

#include "registration_cache_fixture.hpp"

namespace ripc::verbs {
namespace {

class CacheChange : public CacheTest {
 protected:
  // What is used now shows the bytes that the memory has now.
  void expect_current(const Memory& memory) {
    const Held held = use(memory);
    ASSERT_EQ(held->byte(), *static_cast<const volatile char*>(memory.data()));
  }
};

constexpr int kRounds = 2000;

// So that the tests below mean something.
TEST_F(CacheChange, APlainOldRegistrationWouldShowTheOldBytes) {
  Memory memory = Memory::apart(1, 'a');
  char* const address = memory.data();
  const Held old = use(memory);
  memory.unmap();
  memory = Memory(1, 'b', address);
  ASSERT_EQ(memory.data(), address);
  EXPECT_EQ(old->byte(), 'a');
  expect_current(memory);
}

TEST_F(CacheChange, MemoryMappedAgainAtTheSameAddressIsRegisteredAnew) {
  Memory memory = Memory::apart(4, 'a');
  char* const address = memory.data();
  for (int round = 1; round <= kRounds; ++round) {
    expect_current(memory);
    if (HasFatalFailure()) return;
    ASSERT_EQ(made_, round);
    memory.unmap();
    memory = Memory(4, static_cast<char>('a' + round % 26), address);
    ASSERT_EQ(memory.data(), address);
  }
  EXPECT_EQ(counters().hits, 0u);
}

// The address is free some time before munmap() returns, and before anything is told.
TEST_F(CacheChange, MappedAgainBeforeTheOtherThreadsUnmappingHasReturnedItIsRegisteredAnew) {
  constexpr std::size_t kPages = 2;
  // Before the thread begins: its memory could come to lie there.
  Memory memory = Memory::apart(kPages, 'a');
  void* const address = memory.data();
  std::barrier meet(2);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (;;) {
      meet.arrive_and_wait();
      if (stop) return;
      ::munmap(address, kPages * kPage);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    const Held before = use(memory);
    const std::weak_ptr<const HeldPages> old = before;
    memory.release();
    meet.arrive_and_wait();
    const char fill = static_cast<char>('a' + round % 26);
    do memory = Memory(kPages, fill, address);
    while (memory.data() == nullptr);
    const Held now = use(memory);
    if (now == before || now->byte() != fill) {
      ADD_FAILURE() << "round " << round << ": the old registration was used";
      break;
    }
  }
  stop = true;
  meet.arrive_and_wait();
  other.join();
}

TEST_F(CacheChange, MappingOverItIsNoticed) {
  const Memory memory(4, 'a');
  use(memory);
  ASSERT_EQ(::mmap(memory.page(1), kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            memory.page(1));
  EXPECT_EQ(find(memory.data(), memory.size()), nullptr);
  EXPECT_EQ(find(memory.data(), kPage), nullptr) << "the registration is gone as a whole";
}

TEST_F(CacheChange, PagesGivenBackAreNoticed) {
  const Memory memory(4, 'a');
  int rounds = 0;
  for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
    for (int round = 0; round < 1000; ++round) {
      std::fill_n(memory.data(), memory.size(), static_cast<char>('a' + rounds % 26));
      expect_current(memory);
      if (HasFatalFailure()) return;
      ASSERT_EQ(made_, ++rounds);
      ASSERT_EQ(::madvise(memory.page(2), kPage, advice), 0);
    }
  }
}

// The kernel tells before it takes the pages. Who registers in between has registered pages that will go.
TEST_F(CacheChange, PagesGivenBackWhileTheyAreRegisteredAreNoticedAfterwards) {
  const Memory memory(2, 'a');
  std::barrier meet(2);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (;;) {
      meet.arrive_and_wait();
      if (stop) return;
      ::madvise(memory.data(), memory.size(), MADV_DONTNEED);
      meet.arrive_and_wait();
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    meet.arrive_and_wait();
    for (int turn = 0; turn < 3; ++turn) use(memory);
    meet.arrive_and_wait();
    // Touched or not, what is registered now are the pages that are seen.
    if (round % 2 != 0) std::fill_n(memory.data(), memory.size(), static_cast<char>('a' + round % 26));
    const Held held = use(memory);
    if (held->byte() != *static_cast<const volatile char*>(memory.data())) {
      ADD_FAILURE() << "round " << round << ": the old pages were used";
      break;
    }
  }
  stop = true;
  meet.arrive_and_wait();
  other.join();
}

// Guard pages (Linux 6.13) take pages without an event.
TEST_F(CacheChange, PagesThatWentWithoutAnEventAreNoticed) {
  constexpr int kInstall = 102;
  constexpr int kRemove = 103;
  const Memory memory(4, 'a');
  for (const bool touched : {false, true}) {
    const Held before = use(memory);
    if (::madvise(memory.page(2), kPage, kInstall) != 0) GTEST_SKIP() << "this kernel has no guard pages";
    EXPECT_EQ(find(memory.data(), memory.size()), nullptr);
    EXPECT_NE(use(memory.data(), kPage), nullptr);
    ASSERT_EQ(::madvise(memory.page(2), kPage, kRemove), 0);
    if (touched) *memory.page(2) = 'b';
    const Held now = use(memory.page(2), kPage);
    EXPECT_EQ(now->byte(), *static_cast<const volatile char*>(memory.page(2)));
  }
}

TEST_F(CacheChange, MovedMemoryIsNoticedAtBothPlaces) {
  Memory memory = Memory::apart(4, 'a');
  char* const from = memory.data();
  use(memory);
  Memory target = Memory::apart(8, 'b');
  use(target);
  ASSERT_EQ(::mremap(from, memory.size(), 8 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target.data()), target.data());
  memory.release();
  // Before anything else takes the place.
  memory = Memory(4, 'c', from);
  ASSERT_EQ(memory.data(), from);
  EXPECT_EQ(find(target.data(), target.size()), nullptr);
  EXPECT_EQ(find(from, memory.size()), nullptr);
  // The new pages behind those that were moved are nobody's yet.
  std::fill_n(target.data(), target.size(), 'd');
  expect_current(memory);
  expect_current(target);
}

TEST_F(CacheChange, MemoryEnlargedInPlaceStaysKeptAndItsNewPagesCanBeUsed) {
  Memory room = Memory::apart(600);
  char* const start = room.data();
  ::munmap(start + kPage, room.size() - kPage);
  const Held kept = use(start, kPage);
  ASSERT_EQ(::mremap(start, kPage, room.size(), 0), start);
  std::fill_n(start, room.size(), 'z');
  // By the kernel too, for a system call.
  const Pipe pipe;
  const char byte = 'y';
  ASSERT_EQ(::write(pipe.in(), &byte, 1), 1);
  ASSERT_EQ(::read(pipe.out(), start + room.size() - 1, 1), 1);
  EXPECT_EQ(find(start, kPage), kept);
  EXPECT_EQ(kept->byte(), 'z');
}

// A read(2) into pages that were given back a moment ago works as ever.
TEST_F(CacheChange, SystemCallsIntoPagesGivenBackWork) {
  const Memory memory(16);
  const Pipe pipe;
  const std::string bytes(memory.size() / 2, 'r');
  for (int round = 0; round < 500; ++round) {
    use(memory);
    ASSERT_EQ(::madvise(memory.data(), memory.size(), MADV_DONTNEED), 0);
    ASSERT_EQ(::write(pipe.in(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::read(pipe.out(), memory.data(), bytes.size()), static_cast<ssize_t>(bytes.size())) << "round " << round;
    expect_current(memory);
  }
}

TEST_F(CacheChange, WhatChangesWhileItIsRegisteredIsNotKept) {
  const Memory memory(2, 'a');
  const RegistrationCache::Making making = cache_->begin(&alive_, memory.data(), memory.size());
  ASSERT_TRUE(making);
  Held held = hold(memory.data(), memory.size());
  ASSERT_EQ(::madvise(memory.data(), kPage, MADV_DONTNEED), 0);
  cache_->commit(making, held);
  EXPECT_EQ(find(memory.data(), memory.size()), nullptr);
  EXPECT_EQ(counters().bytes, 0u);
  held.reset();
  EXPECT_EQ(alive_, 0);
}

TEST_F(CacheChange, RangesThatOverlapAreWatchedUntilTheLastOfThemIsGone) {
  make_cache({.count = 2});
  const Memory memory(12), other(1);
  use(memory.page(0), 8 * kPage);
  const Held kept = use(memory.page(4), 8 * kPage);
  use(other);  // the first goes
  EXPECT_EQ(counters().evictions, 1u);
  EXPECT_EQ(find(memory.page(4), 8 * kPage), kept);
  ASSERT_EQ(::madvise(memory.page(6), kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(find(memory.page(4), 8 * kPage), nullptr);
}

TEST_F(CacheChange, AChangeDropsAllThatOverlapsAndNothingThatIsNextToIt) {
  const Memory memory(12);
  const Held left = use(memory.page(0), 4 * kPage);
  use(memory.page(5), kPage + 1);
  use(memory.page(4), 4 * kPage);
  const Held right = use(memory.page(8), 4 * kPage);
  ASSERT_EQ(::madvise(memory.page(6), kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(find(memory.page(4), 4 * kPage), nullptr);
  EXPECT_EQ(find(memory.page(5), kPage + 1), nullptr);
  EXPECT_EQ(find(memory.page(0), 4 * kPage), left);
  EXPECT_EQ(find(memory.page(8), 4 * kPage), right);
  EXPECT_EQ(counters().invalidations, 2u);
}

TEST_F(CacheChange, OneRegistrationOverSeveralMappingsIsDroppedWithAnyOfThem) {
  Memory memory = Memory::apart(4);
  // Mappings of different protection are not joined.
  ASSERT_EQ(::mprotect(memory.page(2), 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
  const Held kept = use(memory);
  EXPECT_EQ(use(memory), kept);
  ::munmap(memory.page(3), kPage);
  EXPECT_EQ(find(memory.data(), 2 * kPage), nullptr);
}

// The child has the memory, and nobody watches it there.
TEST_F(CacheChange, AForkChangesNothingForTheParentAndWatchesNothingInTheChild) {
  Memory memory = Memory::apart(4, 'a');
  const Held kept = use(memory);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::fill_n(memory.data(), memory.size(), 'c');
    ::munmap(memory.data(), memory.size());
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::fill_n(memory.data(), memory.size(), 'p');
  EXPECT_EQ(find(memory.data(), memory.size()), kept);
  char* const address = memory.data();
  memory.unmap();
  memory = Memory(4, 'n', address);
  EXPECT_EQ(find(address, memory.size()), nullptr);
}

TEST_F(CacheChange, FreedHeapMemoryIsNoticed) {
  constexpr std::size_t kSize = std::size_t{8} << 20;
  for (int round = 0; round < 50; ++round) {
    const auto memory = std::make_unique<char[]>(kSize);
    memory[0] = static_cast<char>('a' + round % 26);
    const Held held = use(memory.get(), kSize);
    ASSERT_EQ(held->byte(), memory[0]) << "round " << round;
  }
}

// Whoever unmaps is never left waiting, whatever the cache does meanwhile.
TEST_F(CacheChange, ThreadsThatMapAndUseAndACacheThatGoesLeaveNobodyWaiting) {
  for (int round = 0; round < 20; ++round) {
    make_cache({.count = 8, .bytes = 64 * kPage});
    std::vector<std::thread> threads;
    std::atomic<bool> wrong{false};
    std::latch done(4);
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([&, number] {
        for (int turn = 0; turn < 100; ++turn) {
          Memory memory(static_cast<std::size_t>(1 + turn % 5), static_cast<char>('a' + turn % 26));
          const Held held = use(memory);
          if (held->byte() != *static_cast<const volatile char*>(memory.data())) wrong = true;
          if (turn % 3 == 0) cache_->reap();
          if (turn % 7 == number) ::madvise(memory.data(), kPage, MADV_DONTNEED);
        }
        done.count_down();
        // Unmapped while the cache is being destroyed.
        for (int turn = 0; turn < 100; ++turn) Memory(2).unmap();
      });
    }
    done.wait();
    cache_.reset();
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(wrong) << "a registration showed other bytes than the memory";
    ASSERT_EQ(alive_, 0);
  }
}

}  // namespace
}  // namespace ripc::verbs
