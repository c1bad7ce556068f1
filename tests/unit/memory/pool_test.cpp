// SPDX-License-Identifier: Apache-2.0
// Leases, lookup, registrations and statistics of the pool, in one thread.
#include "memory/pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "base/shared_memory.hpp"
#include "memory/size_classes.hpp"
#include "pool_helpers.hpp"

namespace ripc::internal::memory {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{2} << 30;

// ---- Size classes --------------------------------------------------------------------------------------------

TEST(SizeClasses, EverySlotHoldsWhatItsClassPromises) {
  for (std::size_t size = 1; size <= kLargestSlot; ++size) {
    const std::size_t slab_class = slab_class_of(size);
    ASSERT_LT(slab_class, kSlabClasses);
    ASSERT_GE(kSlotSizes[slab_class], size);
    ASSERT_TRUE(slab_class == 0 || kSlotSizes[slab_class - 1] < size) << size << " would fit a smaller slot";
    ASSERT_EQ(kSlotSizes[slab_class] % (size >= kLargeAlignment ? kLargeAlignment : kSmallAlignment), 0u);
  }
}

TEST(SizeClasses, EveryBlockHoldsItsLeaseAndLeavesLessThanHalfUnused) {
  for (std::size_t size = kLargestSlot + 1; size <= kLargestPooled; size += 4097) {
    const std::size_t bytes = block_units(size) * kUnitSize;
    ASSERT_GE(bytes, size);
    ASSERT_LT(bytes, 2 * size);
    ASSERT_GE(stretch_for(size), bytes);
  }
  EXPECT_EQ(block_units(kLargestPooled) * kUnitSize, kLargestPooled);
}

// ---- Leases --------------------------------------------------------------------------------------------------

TEST(Pool, LeaseIsAlignedAndWritableInFull) {
  Pool pool(kPlenty);
  for (const std::size_t size :
       {std::size_t{1},    std::size_t{63},   std::size_t{64},   std::size_t{65},    std::size_t{1000},
        std::size_t{4095}, std::size_t{4096}, std::size_t{4097}, std::size_t{6000},  48 * kKibi,
        48 * kKibi + 1,    64 * kKibi,        65 * kKibi,        190 * kKibi,        kMebi,
        3 * kMebi,         24 * kMebi,        kLargestPooled,    kLargestPooled + 1, 70 * kMebi}) {
    std::byte* const data = must_lease(pool, size);
    ASSERT_NE(data, nullptr);
    EXPECT_TRUE(is_aligned(data, size >= 4096 ? 4096 : 64)) << size;
    data[0] = std::byte{1};
    data[size / 2] = std::byte{2};
    data[size - 1] = std::byte{3};
    EXPECT_TRUE(pool.release(data).ok());
  }
}

TEST(Pool, LeaseOfNothingIsALeaseOfOneByte) {
  Pool pool(kPlenty);
  std::byte* const data = must_lease(pool, 0);
  Result<std::span<std::byte>> found = pool.find(data);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 1u);
  EXPECT_TRUE(pool.release(data).ok());
}

TEST(Pool, LivingLeasesDoNotOverlap) {
  Pool pool(kPlenty);
  std::vector<std::pair<std::byte*, std::size_t>> leases;
  for (std::size_t size = 1; size <= 2 * kMebi; size += size / 3 + 1) {
    for (int i = 0; i < 5; ++i) leases.emplace_back(must_lease(pool, size), size);
  }
  leases.emplace_back(must_lease(pool, 40 * kMebi), 40 * kMebi);
  std::sort(leases.begin(), leases.end());
  for (std::size_t i = 1; i < leases.size(); ++i) {
    EXPECT_LE(leases[i - 1].first + leases[i - 1].second, leases[i].first);
  }
}

TEST(Pool, SlabAndArenaCanBeUsedToTheLastPiece) {
  Pool pool(kArenaSize);
  for (const std::size_t size : {64 * kKibi, 4 * kMebi, kLargestPooled}) {
    std::vector<std::byte*> leases;
    for (std::size_t i = 0; i < kArenaSize / size; ++i) leases.push_back(must_lease(pool, size));
    EXPECT_EQ(pool.lease(size).status().code(), RIPC_NO_MEMORY);
    for (std::byte* data : leases) EXPECT_TRUE(pool.release(data).ok());
  }
  std::vector<std::byte*> leases;
  for (std::size_t i = 0; i < kArenaSize / 4096; ++i) leases.push_back(must_lease(pool, 4096));
  EXPECT_EQ(std::set<std::byte*>(leases.begin(), leases.end()).size(), leases.size());
  EXPECT_EQ(pool.lease(1).status().code(), RIPC_NO_MEMORY);
  for (std::byte* data : leases) EXPECT_TRUE(pool.release(data).ok());
  EXPECT_EQ(statistics_of(pool).arenas, 1u);
}

TEST(Pool, MemoryOfSmallLeasesServesLargeOnesLater) {
  Pool pool(kPlenty);
  std::vector<std::byte*> leases;
  for (std::size_t i = 0; i < kArenaSize / 4096; ++i) leases.push_back(must_lease(pool, 4096));
  for (std::byte* data : leases) ASSERT_TRUE(pool.release(data).ok());
  EXPECT_NE(must_lease(pool, kLargestPooled), nullptr);
  EXPECT_EQ(statistics_of(pool).arenas, 1u);
}

TEST(Pool, ReleasedMemoryIsLeasedAgain) {
  Pool pool(kPlenty);
  for (const std::size_t size : {std::size_t{100}, std::size_t{10000}, kMebi, 40 * kMebi}) {
    std::byte* const first = must_lease(pool, size);
    ASSERT_TRUE(pool.release(first).ok());
    const std::uint64_t reserved = statistics_of(pool).reserved;
    for (int i = 0; i < 100; ++i) {
      std::byte* const data = must_lease(pool, size);
      EXPECT_EQ(data, first);
      ASSERT_TRUE(pool.release(data).ok());
    }
    EXPECT_EQ(statistics_of(pool).reserved, reserved);
  }
}

TEST(Pool, ArenaOfOneLeaseIsRoundedToTwoMebibytesAndKeptForLeasesOfAboutThatSize) {
  Pool pool(kPlenty);
  std::byte* const first = must_lease(pool, 33 * kMebi + 1);
  EXPECT_EQ(statistics_of(pool).reserved, 34 * kMebi);
  ASSERT_TRUE(pool.release(first).ok());
  EXPECT_EQ(statistics_of(pool).reserved, 34 * kMebi);
  EXPECT_EQ(must_lease(pool, 34 * kMebi), first);
  EXPECT_NE(must_lease(pool, 34 * kMebi), first);
  ASSERT_TRUE(pool.release(first).ok());
  EXPECT_NE(must_lease(pool, 35 * kMebi), first);
  EXPECT_EQ(statistics_of(pool).reserved, 34 * kMebi + 34 * kMebi + 36 * kMebi);

  std::byte* const huge = must_lease(pool, 200 * kMebi);
  ASSERT_TRUE(pool.release(huge).ok());
  EXPECT_NE(must_lease(pool, 40 * kMebi), huge) << "would block 160 MiB of the limit";
}

TEST(Pool, ReleaseRefusesWhatIsNotTheStartOfALease) {
  Pool pool(kPlenty);
  std::array<std::byte, 64> own_memory{};
  for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, kMebi, 40 * kMebi}) {
    EXPECT_EQ(pool.release(nullptr).code(), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(pool.release(own_memory.data()).code(), RIPC_INVALID_ARGUMENT);
    std::byte* const data = must_lease(pool, size);
    for (const std::size_t offset : {std::size_t{1}, std::size_t{64}, size / 2, size - 1, size, size + 4096}) {
      EXPECT_EQ(pool.release(data + offset).code(), RIPC_INVALID_ARGUMENT) << size << " + " << offset;
    }
    EXPECT_EQ(pool.release(data - 64).code(), RIPC_INVALID_ARGUMENT);
    EXPECT_TRUE(pool.release(data).ok());
    EXPECT_EQ(pool.release(data).code(), RIPC_INVALID_ARGUMENT) << "released twice";
  }
  EXPECT_EQ(statistics_of(pool).releases, 4u);
}

TEST(Pool, ReleaseRefusesRegisteredMemory) {
  Pool pool(kPlenty);
  std::array<std::byte, 64> own_memory{};
  ASSERT_TRUE(pool.register_memory(own_memory.data(), own_memory.size()).ok());
  EXPECT_EQ(pool.release(own_memory.data()).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(pool.unregister_memory(own_memory.data()).ok());
}

TEST(Pool, LeaseWithoutDescriptorsSaysSoAndThePoolGoesOn) {
  Pool pool(kPlenty);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const ripc_status small = pool.lease(100).status().code();
  const ripc_status large = pool.lease(40 * kMebi).status().code();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(small, RIPC_NO_DESCRIPTORS);
  EXPECT_EQ(large, RIPC_NO_DESCRIPTORS);
  EXPECT_EQ(statistics_of(pool).reserved, 0u);
  EXPECT_EQ(statistics_of(pool).failures, 2u);
  EXPECT_NE(must_lease(pool, 100), nullptr);
  EXPECT_NE(must_lease(pool, 40 * kMebi), nullptr);
}

// ---- Lookup --------------------------------------------------------------------------------------------------

TEST(Pool, FindGivesTheLeaseOfAnyInteriorAddressAsLargeAsItWasAskedFor) {
  Pool pool(kPlenty);
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{3000}, std::size_t{5000}, 50 * kKibi,
                                 192 * kKibi, 3 * kMebi - 1, 24 * kMebi, 40 * kMebi}) {
    std::byte* const neighbour = must_lease(pool, size);
    std::byte* const data = must_lease(pool, size);
    for (const std::size_t offset : {std::size_t{0}, size / 3, size / 2, size - 1}) {
      Result<std::span<std::byte>> found = pool.find(data + offset);
      ASSERT_TRUE(found.ok()) << size << " + " << offset;
      EXPECT_EQ(found->data(), data);
      EXPECT_EQ(found->size(), size);
    }
    ASSERT_TRUE(pool.release(data).ok());
    EXPECT_EQ(pool.find(data).status().code(), RIPC_INVALID_ARGUMENT);
    EXPECT_TRUE(pool.find(neighbour).ok());
    ASSERT_TRUE(pool.release(neighbour).ok());
  }
}

TEST(Pool, FindDoesNotGiveBytesPastTheLease) {
  Pool pool(kPlenty);
  for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, 65 * kKibi, 41 * kMebi - 1}) {
    std::byte* const data = must_lease(pool, size);
    EXPECT_EQ(pool.find(data + size).status().code(), RIPC_INVALID_ARGUMENT) << size;
  }
}

TEST(Pool, FindRefusesUnknownAddresses) {
  Pool pool(kPlenty);
  const int on_stack = 0;
  EXPECT_EQ(pool.find(nullptr).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.find(&on_stack).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.find(reinterpret_cast<const void*>(UINTPTR_MAX)).status().code(), RIPC_INVALID_ARGUMENT);
  must_lease(pool, 100);
  EXPECT_EQ(pool.find(&on_stack).status().code(), RIPC_INVALID_ARGUMENT);
}

// ---- Arenas --------------------------------------------------------------------------------------------------

TEST(Pool, ACopyIsALeaseThatEndsWithItsHold) {
  Pool pool(kPlenty);
  std::vector<std::byte> bytes(5000, std::byte{7});
  Result<Hold> hold = pool.copy(bytes);
  ASSERT_TRUE(hold.ok()) << hold.status().text();
  std::fill(bytes.begin(), bytes.end(), std::byte{8});
  ASSERT_NE(hold->arena(), nullptr);
  const std::byte* const copy = hold->arena()->base + hold->offset();
  EXPECT_TRUE(std::all_of(copy, copy + bytes.size(), [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_FALSE(pool.find(copy).ok()) << "nobody else's lease";
  const auto leased = [&] {
    ripc_pool_statistics statistics{};
    pool.fill_statistics(statistics);
    return statistics.leased;
  };
  EXPECT_EQ(leased(), bytes.size());
  hold->reset();
  EXPECT_EQ(leased(), 0u);
  Pool small(std::uint64_t{1} << 20);
  EXPECT_EQ(small.copy(std::vector<std::byte>(std::size_t{2} << 20)).status().code(), RIPC_NO_MEMORY);
}

TEST(Pool, ArenasAreAlignedNumberedAndReachableThroughTheirDescriptor) {
  Pool pool(kPlenty);
  std::set<std::uint32_t> ids;
  for (const std::size_t size : {std::size_t{100}, 40 * kMebi, 50 * kMebi}) {
    std::byte* const data = must_lease(pool, size);
    const Hold hold = must_hold(pool, data, size);
    const Arena* const arena = hold.arena();
    ASSERT_NE(arena, nullptr);
    EXPECT_GE(arena->id, 1u);
    EXPECT_TRUE(ids.insert(arena->id).second);
    EXPECT_TRUE(is_aligned(arena->base, kArenaAlignment));
    EXPECT_EQ(arena->base + hold.offset(), data);
    EXPECT_EQ(arena->size, size > kLargestPooled ? size : kArenaSize);

    Result<ripc::internal::Mapping> peer = map_foreign_memory(arena->fd, arena->size, false);
    ASSERT_TRUE(peer.ok()) << peer.status().text();
    data[size - 1] = std::byte{0x77};
    EXPECT_EQ(peer->data()[hold.offset() + size - 1], std::byte{0x77});
  }
}

TEST(Pool, PeerProcessCanReadAnArenaButNeitherWriteNorTruncateIt) {
  Pool pool(kPlenty);
  for (const std::size_t size : {std::size_t{100}, 40 * kMebi}) {
    std::byte* const data = must_lease(pool, size);
    data[0] = std::byte{0x42};
    const Hold hold = must_hold(pool, data, size);
    const Arena& arena = *hold.arena();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      void* const view = mmap(nullptr, arena.size, PROT_READ, MAP_SHARED, arena.fd, 0);
      if (view == MAP_FAILED) _exit(1);
      if (static_cast<std::byte*>(view)[hold.offset()] != std::byte{0x42}) _exit(2);
      if (mprotect(view, arena.size, PROT_READ | PROT_WRITE) == 0) _exit(3);
      if (mmap(nullptr, arena.size, PROT_READ | PROT_WRITE, MAP_SHARED, arena.fd, 0) != MAP_FAILED) _exit(4);
      if (ftruncate(arena.fd, 0) == 0) _exit(5);
      if (ftruncate(arena.fd, static_cast<off_t>(2 * arena.size)) == 0) _exit(6);
      if (pwrite(arena.fd, "x", 1, static_cast<off_t>(hold.offset())) >= 0) _exit(7);
      if (fcntl(arena.fd, F_ADD_SEALS, F_SEAL_WRITE) == 0) _exit(8);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the step that went wrong";
    EXPECT_EQ(data[0], std::byte{0x42});
  }
}

TEST(Pool, ArenasHoldNoLibraryData) {
  Pool pool(kArenaSize);
  std::vector<std::byte*> leases;
  for (std::size_t size = 1; size < 4 * kMebi; size = size * 2 + 1) leases.push_back(must_lease(pool, size));
  for (std::size_t i = 0; i < leases.size(); i += 2) ASSERT_TRUE(pool.release(leases[i]).ok());
  const Hold hold = must_hold(pool, leases[1], 1);
  // Fresh arenas are zeroed and nothing has written to a lease, so any other byte would come from the pool.
  const std::span<const std::byte> bytes(hold.arena()->base, hold.arena()->size);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; }));
}

// ---- Statistics ----------------------------------------------------------------------------------------------

TEST(Pool, StatisticsStartAtZeroAndLeaveTheirSizeAlone) {
  const Pool pool(123 * kMebi);
  ripc_pool_statistics statistics;
  std::memset(&statistics, 0xff, sizeof statistics);
  pool.fill_statistics(statistics);
  EXPECT_EQ(statistics.size, SIZE_MAX);
  EXPECT_EQ(statistics.limit, 123 * kMebi);
  for (const std::uint64_t value :
       {statistics.reserved, statistics.leased, statistics.leases, statistics.reuses, statistics.releases,
        statistics.deferred_releases, statistics.failures, statistics.arenas, statistics.huge_page_arenas,
        statistics.registrations, statistics.registration_hits}) {
    EXPECT_EQ(value, 0u);
  }
}

TEST(Pool, StatisticsCountEveryEvent) {
  Pool pool(128 * kMebi);
  std::byte* const small = must_lease(pool, 100);  // creates an arena
  std::byte* const second = must_lease(pool, 3 * kMebi);
  std::byte* const large = must_lease(pool, 40 * kMebi);  // creates an arena
  EXPECT_FALSE(pool.lease(64 * kMebi).ok());
  ripc_pool_statistics now = statistics_of(pool);
  EXPECT_EQ(now.leases, 3u);
  EXPECT_EQ(now.reuses, 1u);
  EXPECT_EQ(now.failures, 1u);
  EXPECT_EQ(now.arenas, 2u);
  EXPECT_LE(now.huge_page_arenas, now.arenas);
  EXPECT_EQ(now.reserved, kArenaSize + 40 * kMebi);
  EXPECT_EQ(now.leased, 100 + 3 * kMebi + 40 * kMebi);

  Hold hold = must_hold(pool, second, 1);
  EXPECT_TRUE(pool.release(small).ok());
  EXPECT_TRUE(pool.release(second).ok());
  EXPECT_TRUE(pool.release(large).ok());
  now = statistics_of(pool);
  EXPECT_EQ(now.releases, 3u);
  EXPECT_EQ(now.deferred_releases, 1u);
  EXPECT_EQ(now.leased, 3 * kMebi) << "what is held is not free yet";
  hold.reset();
  now = statistics_of(pool);
  EXPECT_EQ(now.leased, 0u);
  EXPECT_EQ(now.releases, 3u);
}

}  // namespace
}  // namespace ripc::internal::memory
