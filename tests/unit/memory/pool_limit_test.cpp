// SPDX-License-Identifier: Apache-2.0
// The pool at and near its limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory/pool.hpp"
#include "pool_helpers.hpp"

namespace ripc::internal::memory {
namespace {

TEST(PoolLimit, LeasePastTheLimitIsRefusedWithASentenceAndCounted) {
  Pool pool(64 * kMebi);
  const Result<std::byte*> data = pool.lease(65 * kMebi);
  EXPECT_EQ(data.status().code(), RIPC_NO_MEMORY);
  EXPECT_NE(data.status().text().find("pool_limit"), std::string_view::npos) << data.status().text();
  EXPECT_EQ(statistics_of(pool).failures, 1u);
  EXPECT_EQ(statistics_of(pool).reserved, 0u);
}

TEST(PoolLimit, AbsurdSizesAreRefused) {
  Pool limited(64 * kMebi);
  Pool unlimited(UINT64_MAX);
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, std::size_t{1} << 60}) {
    EXPECT_EQ(limited.lease(size).status().code(), RIPC_NO_MEMORY);
    EXPECT_EQ(unlimited.lease(size).status().code(), RIPC_NO_MEMORY);
  }
  EXPECT_EQ(statistics_of(unlimited).reserved, 0u);
  EXPECT_NE(must_lease(unlimited, 100), nullptr);
}

TEST(PoolLimit, FullPoolServesAgainAfterARelease) {
  Pool pool(64 * kMebi);
  std::byte* const first = must_lease(pool, kLargestPooled);
  std::byte* const second = must_lease(pool, kLargestPooled);
  EXPECT_EQ(pool.lease(1).status().code(), RIPC_NO_MEMORY);
  ASSERT_TRUE(pool.release(first).ok());
  EXPECT_EQ(must_lease(pool, kLargestPooled), first);
  ASSERT_TRUE(pool.release(second).ok());
}

TEST(PoolLimit, AFullPoolAsksOnceForHoldsThatNobodyNeeds) {
  Pool pool(64 * kMebi);
  std::byte* const data = must_lease(pool, kLargestPooled);
  std::byte* const other = must_lease(pool, kLargestPooled);
  Hold old = pool.hold(data, 1).value();
  ASSERT_TRUE(pool.release(data).ok());
  int asked = 0;
  pool.set_hold_ender([&] {
    ++asked;
    old.reset();
  });
  EXPECT_EQ(must_lease(pool, kLargestPooled), data);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(pool.lease(1).status().code(), RIPC_NO_MEMORY);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(statistics_of(pool).failures, 1u);
  ASSERT_TRUE(pool.release(other).ok());
  EXPECT_NE(must_lease(pool, 1), nullptr);
  EXPECT_EQ(asked, 2) << "there is room";
}

TEST(PoolLimit, UnusedArenasOfOneLeaseMakeRoomForOtherSizes) {
  Pool pool(200 * kMebi);
  std::vector<std::byte*> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(must_lease(pool, 50 * kMebi));
  EXPECT_EQ(statistics_of(pool).reserved, 200 * kMebi);
  for (std::byte* data : leases) ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(statistics_of(pool).arenas, 4u) << "kept for re-use";
  std::byte* const large = must_lease(pool, 140 * kMebi);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(statistics_of(pool).reserved, 50 * kMebi + 140 * kMebi) << "no more was freed than was needed";
  ASSERT_TRUE(pool.release(large).ok());
  EXPECT_NE(must_lease(pool, 100), nullptr);
  EXPECT_LE(statistics_of(pool).reserved, 200 * kMebi);
}

TEST(PoolLimit, FullyFreeNormalArenasMakeRoomForLargeLeases) {
  Pool pool(128 * kMebi);
  std::vector<std::byte*> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(must_lease(pool, kLargestPooled));
  EXPECT_EQ(pool.lease(100 * kMebi).status().code(), RIPC_NO_MEMORY);
  for (std::byte* data : leases) ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(statistics_of(pool).arenas, 2u);
  EXPECT_NE(must_lease(pool, 128 * kMebi), nullptr);
  EXPECT_EQ(statistics_of(pool).arenas, 1u);
  EXPECT_EQ(statistics_of(pool).reserved, 128 * kMebi);
}

TEST(PoolLimit, SlabsKeptForReuseDoNotKeepTheirArena) {
  Pool pool(64 * kMebi);
  for (std::size_t size = 1; size <= 48 * kKibi; size += size / 4 + 1) {
    ASSERT_TRUE(pool.release(must_lease(pool, size)).ok());
  }
  EXPECT_NE(must_lease(pool, 64 * kMebi), nullptr);
}

TEST(PoolLimit, SlabsKeptForReuseMakeRoomInsideTheirArena) {
  Pool pool(64 * kMebi);
  std::byte* const large = must_lease(pool, kLargestPooled);
  ASSERT_TRUE(pool.release(must_lease(pool, 100)).ok());
  EXPECT_NE(must_lease(pool, kLargestPooled), nullptr);
  ASSERT_TRUE(pool.release(large).ok());
}

TEST(PoolLimit, ALeaseThatCannotBeServedFreesNothing) {
  Pool pool(128 * kMebi);
  std::byte* const kept = must_lease(pool, 100);
  ASSERT_TRUE(pool.release(must_lease(pool, 40 * kMebi)).ok());
  const std::uint64_t reserved = statistics_of(pool).reserved;
  EXPECT_EQ(pool.lease(100 * kMebi).status().code(), RIPC_NO_MEMORY);
  EXPECT_EQ(statistics_of(pool).reserved, reserved);
  ASSERT_TRUE(pool.release(kept).ok());
}

TEST(PoolLimit, SmallLimitsGiveSmallArenas) {
  for (const std::uint64_t limit : {64 * kKibi, 100 * kKibi, 1 * kMebi, 3 * kMebi, 10 * kMebi, 63 * kMebi}) {
    Pool pool(limit);
    std::byte* const data = must_lease(pool, 100);
    ASSERT_NE(data, nullptr) << limit;
    data[99] = std::byte{1};
    EXPECT_LE(statistics_of(pool).reserved, limit);
    ASSERT_TRUE(pool.release(data).ok());
  }
}

TEST(PoolLimit, RestOfTheLimitIsUsedForASmallerArena) {
  Pool pool(100 * kMebi);
  std::vector<std::byte*> leases;
  for (int i = 0; i < 3; ++i) leases.push_back(must_lease(pool, kLargestPooled));
  EXPECT_EQ(statistics_of(pool).reserved, 100 * kMebi);
  leases.push_back(must_lease(pool, 4 * kMebi));
  EXPECT_EQ(pool.lease(64).status().code(), RIPC_NO_MEMORY);
}

TEST(PoolLimit, LeaseThatFitsTheLimitOnlyExactlyIsServed) {
  Pool pool(20 * kMebi);
  for (int i = 0; i < 3; ++i) {
    std::byte* const data = must_lease(pool, 20 * kMebi);
    ASSERT_NE(data, nullptr);
    data[20 * kMebi - 1] = std::byte{1};
    EXPECT_EQ(statistics_of(pool).reserved, 20 * kMebi);
    ASSERT_TRUE(pool.release(data).ok());
    ASSERT_TRUE(pool.release(must_lease(pool, 100)).ok());
  }
}

TEST(PoolLimit, LimitWithoutRoomForOneUnitRefusesEveryLease) {
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64 * kKibi - 1}}) {
    Pool pool(limit);
    EXPECT_EQ(pool.lease(0).status().code(), RIPC_NO_MEMORY);
    EXPECT_EQ(pool.lease(100).status().code(), RIPC_NO_MEMORY);
    EXPECT_EQ(pool.lease(40 * kMebi).status().code(), RIPC_NO_MEMORY);
  }
}

TEST(PoolLimit, ObserversLearnOfEveryFreedArenaWithoutALockHeld) {
  Pool pool(100 * kMebi);
  std::vector<std::uint32_t> freed;
  int owner = 0, other = 0, calls = 0;
  pool.set_arena_observer(&other, [&](std::uint32_t) { ++calls; });
  pool.set_arena_observer(&owner, [&](std::uint32_t id) {
    statistics_of(pool);  // would wait for ever if the pool were locked
    freed.push_back(id);
  });
  const auto lease_once = [&](std::size_t size) {
    std::byte* const data = must_lease(pool, size);
    const std::uint32_t id = must_hold(pool, data, size).arena()->id;
    EXPECT_TRUE(pool.release(data).ok());
    return id;
  };
  const std::uint32_t first = lease_once(40 * kMebi);
  const std::uint32_t second = lease_once(50 * kMebi);
  EXPECT_TRUE(freed.empty()) << "kept for re-use";
  const std::uint32_t third = lease_once(100 * kMebi);
  std::sort(freed.begin(), freed.end());
  EXPECT_EQ(freed, (std::vector<std::uint32_t>{first, second}));
  lease_once(100);
  ASSERT_EQ(freed.size(), 3u);
  EXPECT_EQ(freed.back(), third);
  pool.set_arena_observer(&owner, {});
  lease_once(100 * kMebi);
  EXPECT_EQ(freed.size(), 3u);
  EXPECT_EQ(calls, 4);
}

TEST(PoolLimit, ArenaNumbersAreNotUsedAgain) {
  Pool pool(100 * kMebi);
  std::uint32_t last = 0;
  for (int i = 0; i < 10; ++i) {
    // The two sizes do not fit together, so each lease frees the arena of the one before.
    const std::size_t size = i % 2 == 0 ? 40 * kMebi : 90 * kMebi;
    std::byte* const data = must_lease(pool, size);
    const Hold hold = must_hold(pool, data, size);
    EXPECT_GT(hold.arena()->id, last);
    last = hold.arena()->id;
    ASSERT_TRUE(pool.release(data).ok());
  }
}

}  // namespace
}  // namespace ripc::internal::memory
