// SPDX-License-Identifier: Apache-2.0
// What the cache of registrations keeps, for how long, and how much.
#include <poll.h>

#include <functional>
#include <vector>

#include "registration_cache_fixture.hpp"

namespace ripc::verbs {
namespace {

class Cache : public CacheTest {};

TEST_F(Cache, AHitMakesNoRegistration) {
  const Memory memory(8);
  const Held first = use(memory);
  for (int round = 0; round < 100; ++round) EXPECT_EQ(use(memory), first);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(counters().hits, 100u);
  EXPECT_EQ(counters().misses, 1u);
}

TEST_F(Cache, APartOfWhatIsKeptIsAHitUnlessExactlyItIsWanted) {
  const Memory memory(8);
  const Held whole = use(memory);
  EXPECT_EQ(find(memory.page(1) + 5, 100), whole);
  EXPECT_EQ(find(memory.data(), memory.size(), true), whole);
  EXPECT_EQ(find(memory.data(), memory.size() - 1, true), nullptr);
  EXPECT_EQ(find(memory.page(7), kPage + 1), nullptr) << "it reaches past the end";
}

TEST_F(Cache, WhatOneOwnerKeepsIsNotFoundForAnother) {
  const Memory memory(1);
  const Held first = use(memory);
  EXPECT_EQ(cache_->find(this, memory.data(), memory.size(), false), nullptr);
}

TEST_F(Cache, BytesOfOnePageAreKeptApart) {
  const Memory memory(1);
  const Held left = use(memory.data(), 100);
  const Held right = use(memory.data() + 200, 100);
  EXPECT_NE(left, right);
  EXPECT_EQ(find(memory.data(), 100), left);
  EXPECT_EQ(find(memory.data() + 200, 100), right);
}

TEST_F(Cache, WhatWasUsedLongestAgoGoesFirst) {
  make_cache({.count = 3});
  const std::array<Memory, 4> memory{Memory(1), Memory(1), Memory(1), Memory(1)};
  for (std::size_t index = 0; index < 3; ++index) use(memory[index]);
  use(memory[0]);
  use(memory[3]);
  EXPECT_EQ(counters().evictions, 1u);
  EXPECT_EQ(find(memory[1].data(), kPage), nullptr);
  for (const std::size_t index : {0u, 2u, 3u}) EXPECT_NE(find(memory[index].data(), kPage), nullptr) << index;
  EXPECT_EQ(alive_, 3);
}

TEST_F(Cache, ItsBytesAreBounded) {
  make_cache({.bytes = 10 * kPage});
  std::vector<Memory> memory;
  for (int round = 0; round < 20; ++round) {
    memory.emplace_back(3);
    use(memory.back());
    EXPECT_LE(counters().bytes, 10 * kPage);
  }
  EXPECT_EQ(alive_, 3);
  EXPECT_EQ(counters().kept, 3u);
  const Memory large(11);
  use(large);
  EXPECT_EQ(find(large.data(), large.size()), nullptr) << "it is larger than the cache";
  EXPECT_EQ(counters().kept, 3u);
}

TEST_F(Cache, WhatIsInUseIsNotEvicted) {
  make_cache({.count = 2});
  const Memory first(1), second(1), third(1);
  Held one = use(first);
  const Held two = use(second);
  use(third);
  EXPECT_EQ(find(third.data(), kPage), nullptr) << "there was no room";
  EXPECT_EQ(find(first.data(), kPage), one);
  EXPECT_EQ(find(second.data(), kPage), two);
  one.reset();
  use(third);
  EXPECT_EQ(find(first.data(), kPage), nullptr);
  EXPECT_NE(find(third.data(), kPage), nullptr);
}

TEST_F(Cache, WhatIsInvalidWhileItIsInUseEndsWithTheUse) {
  Memory memory(1);
  Held used = use(memory);
  memory.unmap();
  cache_->reap();
  EXPECT_EQ(counters().kept, 0u);
  EXPECT_EQ(alive_, 1);
  EXPECT_EQ(used->byte(), 'a');
  used.reset();
  EXPECT_EQ(alive_, 0);
}

// So that pages of memory that is gone do not stay locked.
TEST_F(Cache, AChangeIsToldAndReapingEndsTheRegistration) {
  Memory memory(1);
  use(memory);
  pollfd wait{.fd = cache_->changed_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wait, 1, 0), 0);
  memory.unmap();
  EXPECT_EQ(::poll(&wait, 1, 10'000), 1);
  EXPECT_EQ(alive_, 1);
  cache_->reap();
  EXPECT_EQ(alive_, 0);
  EXPECT_EQ(::poll(&wait, 1, 0), 0);
}

TEST_F(Cache, WhatIsIdleCanBeGivenUp) {
  const Memory first(1), second(1);
  const Held used = use(first);
  use(second);
  EXPECT_TRUE(cache_->drop_idle());
  EXPECT_EQ(find(first.data(), kPage), used);
  EXPECT_EQ(find(second.data(), kPage), nullptr);
  EXPECT_EQ(alive_, 1);
  EXPECT_FALSE(cache_->drop_idle());
}

TEST_F(Cache, NothingIsKeptIfItMayHaveNoBytes) {
  make_cache({.bytes = 0});
  const Memory memory(1);
  use(memory);
  EXPECT_EQ(find(memory.data(), kPage), nullptr);
  EXPECT_EQ(alive_, 0);
}

TEST_F(Cache, ARegistrationThatFailsLeavesNothing) {
  const Memory memory(1);
  const RegistrationCache::Making making = cache_->begin(&alive_, memory.data(), kPage);
  ASSERT_TRUE(making);
  cache_->abandon(making);
  EXPECT_EQ(find(memory.data(), kPage), nullptr);
  EXPECT_EQ(counters().bytes, 0u);
}

TEST_F(Cache, WhatItKeepsEndsWithIt) {
  const Memory memory(4);
  use(memory);
  EXPECT_EQ(alive_, 1);
  cache_.reset();
  EXPECT_EQ(alive_, 0);
}

// ---- Memory that cannot be watched ---------------------------------------------------------------------------

char static_bytes[64] = "not anonymous: of the program's file";

class NotKept : public CacheTest {
 protected:
  void expect_not_kept(const void* data, std::size_t size) {
    for (int round = 1; round <= 2; ++round) {
      use(data, size);
      EXPECT_EQ(made_, round) << "each use has a registration of its own";
      EXPECT_EQ(alive_, 0);
    }
    EXPECT_EQ(counters().refusals, 2u);
    EXPECT_EQ(counters().bytes, 0u);
  }
};

TEST_F(NotKept, SharedMemory) {
  void* const shared = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  expect_not_kept(shared, kPage);
  ::munmap(shared, kPage);
}

// Others can change its pages, by cutting the file.
TEST_F(NotKept, APrivateMappingOfAMemoryFile) {
  const UniqueFd file(::memfd_create("ripc-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kPage)), 0);
  void* const mapped = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  expect_not_kept(mapped, kPage);
  ::munmap(mapped, kPage);
}

TEST_F(NotKept, MemoryThatCannotBeWritten) {
  const Memory memory(1);
  ASSERT_EQ(::mprotect(memory.data(), kPage, PROT_READ), 0);
  expect_not_kept(memory.data(), kPage);
}

TEST_F(NotKept, MemoryOfTheProgramsFile) { expect_not_kept(static_bytes, sizeof static_bytes); }

TEST_F(NotKept, MemoryThatIsNotAllMapped) {
  const Memory memory = Memory::apart(3);
  ::munmap(memory.page(1), kPage);
  expect_not_kept(memory.data(), memory.size());
}

// The stack of the first thread grows, watched or not. AddressSanitizer may have the variables of a function elsewhere.
[[gnu::no_sanitize_address]] void with_bytes_of_the_stack(const std::function<void(const char*, std::size_t)>& use) {
  const std::array<char, 64> bytes{};
  use(bytes.data(), bytes.size());
}

TEST_F(NotKept, TheStack) {
  ASSERT_EQ(::getpid(), ::gettid()) << "tests run in the first thread";
  with_bytes_of_the_stack([&](const char* data, std::size_t size) { expect_not_kept(data, size); });
}

TEST_F(NotKept, NothingAndWhatRunsPastTheEndOfMemory) {
  EXPECT_FALSE(cache_->begin(&alive_, &alive_, 0));
  EXPECT_FALSE(cache_->begin(&alive_, &alive_, SIZE_MAX));
  EXPECT_EQ(find(&alive_, SIZE_MAX), nullptr);
}

}  // namespace
}  // namespace ripc::verbs
