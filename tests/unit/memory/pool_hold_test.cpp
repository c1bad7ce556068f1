// SPDX-License-Identifier: Apache-2.0
// Holds and registrations.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory/pool.hpp"
#include "pool_helpers.hpp"

namespace ripc::internal::memory {
namespace {

constexpr std::uint64_t kAmpleLimit = std::uint64_t{1} << 30;
const std::vector<std::size_t> kSizes{1, 100, 4096, 5000, 65 * kKibi, 3 * kMebi, 40 * kMebi - 1};

// ---- Holds ---------------------------------------------------------------------------------------------------

TEST(Hold, IsMoveOnly) {
  static_assert(!std::is_copy_constructible_v<Hold>);
  static_assert(!std::is_copy_assignable_v<Hold>);
  static_assert(std::is_nothrow_move_constructible_v<Hold>);
  const Hold nothing;
  EXPECT_FALSE(nothing);
  EXPECT_EQ(nothing.arena(), nullptr);
}

TEST(Hold, KeepsAReleasedLeaseUntilItEnds) {
  for (const std::size_t size : kSizes) {
    Pool pool(kAmpleLimit);
    std::byte* const data = must_lease(pool, size);
    data[size - 1] = std::byte{0x3c};
    Hold hold = must_hold(pool, data, size);
    ASSERT_TRUE(pool.release(data).ok());
    for (int i = 0; i < 20; ++i) {
      std::byte* const other = must_lease(pool, size);
      EXPECT_NE(other, data) << "held memory was leased again";
      other[size - 1] = std::byte{0xff};
      ASSERT_TRUE(pool.release(other).ok());
    }
    EXPECT_EQ(hold.arena()->base + hold.offset(), data);
    EXPECT_EQ(data[size - 1], std::byte{0x3c});
    EXPECT_EQ(statistics_of(pool).leased, size);
    hold.reset();
    EXPECT_FALSE(hold);
    EXPECT_EQ(statistics_of(pool).leased, 0u);
  }
}

TEST(Hold, EndsWithTheLastOfSeveral) {
  for (const std::size_t size : kSizes) {
    Pool pool(kAmpleLimit);
    std::byte* const data = must_lease(pool, size);
    Hold first = must_hold(pool, data, size);
    Hold second = must_hold(pool, data + size / 2, size - size / 2);
    Hold third = must_hold(pool, data + size - 1, 1);
    ASSERT_TRUE(pool.release(data).ok());
    second.reset();
    first.reset();
    EXPECT_EQ(statistics_of(pool).leased, size);
    third.reset();
    third.reset();
    EXPECT_EQ(statistics_of(pool).leased, 0u);
  }
}

TEST(Hold, ThatEndsBeforeTheReleaseLeavesTheLease) {
  Pool pool(kAmpleLimit);
  std::byte* const data = must_lease(pool, 1000);
  must_hold(pool, data, 1000).reset();
  EXPECT_TRUE(pool.find(data).ok());
  ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(statistics_of(pool).deferred_releases, 0u);
}

TEST(Hold, MovesWithoutEnding) {
  Pool pool(kAmpleLimit);
  std::byte* const data = must_lease(pool, 1000);
  std::byte* const other = must_lease(pool, 2000);
  Hold first = must_hold(pool, data, 1000);
  Hold second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT: a moved-from hold is empty
  EXPECT_EQ(first.arena(), nullptr);
  ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(statistics_of(pool).leased, 3000u);

  Hold third = must_hold(pool, other, 2000);
  ASSERT_TRUE(pool.release(other).ok());
  third = std::move(second);  // ends the hold on `other`
  EXPECT_EQ(statistics_of(pool).leased, 1000u);
  Hold& same = third;
  third = std::move(same);
  EXPECT_TRUE(third);
  EXPECT_EQ(statistics_of(pool).leased, 1000u);
  third = Hold();
  EXPECT_EQ(statistics_of(pool).leased, 0u);
}

TEST(Hold, OfAReleasedLeaseIsRefusedAsIsASecondRelease) {
  for (const std::size_t size : kSizes) {
    Pool pool(kAmpleLimit);
    std::byte* const data = must_lease(pool, size);
    const Hold hold = must_hold(pool, data, size);
    ASSERT_TRUE(pool.release(data).ok());
    EXPECT_EQ(pool.hold(data, size).status().code(), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(pool.release(data).code(), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(pool.find(data).status().code(), RIPC_INVALID_ARGUMENT);
  }
}

TEST(Hold, OfARangeThatLeavesItsLeaseIsRefused) {
  for (const std::size_t size : kSizes) {
    Pool pool(kAmpleLimit);
    std::byte* const data = must_lease(pool, size);
    EXPECT_EQ(pool.hold(data, size + 1).status().code(), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(pool.hold(data + (size - 1), 2).status().code(), RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(pool.hold(data + size, 1).status().code(), RIPC_INVALID_ARGUMENT) << "not leased";
    EXPECT_EQ(pool.hold(data, SIZE_MAX).status().code(), RIPC_INVALID_ARGUMENT) << "wraps around";
    EXPECT_TRUE(pool.release(data).ok());
    EXPECT_EQ(pool.hold(data, 1).status().code(), RIPC_INVALID_ARGUMENT) << "not leased any more";
  }
}

TEST(Hold, OfARangeThatRunsIntoOrOverAnArenaIsRefused) {
  Pool pool(kAmpleLimit);
  std::byte* const data = must_lease(pool, 40 * kMebi);  // an arena of its own: starts where the arena starts
  EXPECT_EQ(pool.hold(data - 1, 2).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.hold(data - 1, 41 * kMebi).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(pool.hold(data - 1, 1).ok()) << "ends before the arena: foreign memory";
}

TEST(Hold, OfNoMemoryIsRefused) {
  Pool pool(kAmpleLimit);
  EXPECT_EQ(pool.hold(nullptr, 1).status().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.hold(reinterpret_cast<const void*>(UINTPTR_MAX - 1), 10).status().code(), RIPC_INVALID_ARGUMENT);
}

TEST(Hold, OfForeignMemoryHasNoArenaRegisteredOrNot) {
  Pool pool(kAmpleLimit);
  std::array<std::byte, 100> memory{};
  for (int round = 0; round < 2; ++round) {
    const Hold hold = must_hold(pool, memory.data(), memory.size());
    EXPECT_TRUE(hold);
    EXPECT_EQ(hold.arena(), nullptr);
    ASSERT_TRUE(pool.register_memory(memory.data(), memory.size()).ok());
  }
  EXPECT_EQ(statistics_of(pool).leased, 0u);
}

TEST(Hold, OfEmptyRangesIsAllowedAnywhere) {
  Pool pool(kAmpleLimit);
  std::byte* const data = must_lease(pool, 100);
  std::array<std::byte, 4> memory{};
  EXPECT_TRUE(must_hold(pool, nullptr, 0));
  EXPECT_TRUE(must_hold(pool, memory.data(), 0));
  EXPECT_TRUE(must_hold(pool, data + 100, 0)) << "one past the end";
  const Hold hold = must_hold(pool, data, 0);
  EXPECT_NE(hold.arena(), nullptr);
  ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(statistics_of(pool).deferred_releases, 1u);
}

TEST(Hold, KeepsItsArenaAtTheLimit) {
  Pool pool(80 * kMebi);
  std::byte* const data = must_lease(pool, 40 * kMebi);
  Hold hold = must_hold(pool, data, 40 * kMebi);
  ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(pool.lease(50 * kMebi).status().code(), RIPC_NO_MEMORY);
  data[40 * kMebi - 1] = std::byte{1};  // still mapped
  hold.reset();
  EXPECT_NE(must_lease(pool, 50 * kMebi), nullptr);
}

// ---- Registrations -------------------------------------------------------------------------------------------

TEST(Registration, IsFoundFromAnyInteriorAddress) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(10000);
  std::byte* const data = memory.data();
  ASSERT_TRUE(pool.register_memory(data, 5000).ok());
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{4999}}) {
    Result<std::span<std::byte>> found = pool.find(data + offset);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->data(), data);
    EXPECT_EQ(found->size(), 5000u);
  }
  EXPECT_FALSE(pool.find(data + 5000).ok());
  ASSERT_TRUE(pool.unregister_memory(data).ok());
  EXPECT_FALSE(pool.find(data).ok());
}

TEST(Registration, IsCountedPerExactRangeAndAnsweredFromTheCache) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(100);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.register_memory(memory.data(), 100).ok());
  EXPECT_EQ(statistics_of(pool).registrations, 1u);
  EXPECT_EQ(statistics_of(pool).registration_hits, 2u);
  std::span<std::byte> ended;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pool.unregister_memory(memory.data(), &ended).ok());
    EXPECT_TRUE(ended.empty());
    EXPECT_TRUE(pool.find(memory.data()).ok());
  }
  ASSERT_TRUE(pool.unregister_memory(memory.data(), &ended).ok());
  EXPECT_EQ(ended.data(), memory.data());
  EXPECT_EQ(ended.size(), 100u);
  EXPECT_EQ(statistics_of(pool).registrations, 0u);
  EXPECT_EQ(pool.unregister_memory(memory.data(), &ended).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(ended.empty());
}

TEST(Registration, MayOverlapOthersAndTheSmallestIsFound) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(4096);
  std::byte* const data = memory.data();
  ASSERT_TRUE(pool.register_memory(data, 4096).ok());
  ASSERT_TRUE(pool.register_memory(data + 100, 1000).ok());
  ASSERT_TRUE(pool.register_memory(data + 600, 900).ok());
  ASSERT_TRUE(pool.register_memory(data + 600, 10).ok());
  const auto size_at = [&](std::size_t offset) { return pool.find(data + offset)->size(); };
  EXPECT_EQ(size_at(0), 4096u);
  EXPECT_EQ(size_at(100), 1000u);
  EXPECT_EQ(size_at(599), 1000u);
  EXPECT_EQ(size_at(600), 10u);
  EXPECT_EQ(size_at(609), 10u);
  EXPECT_EQ(size_at(610), 900u);
  EXPECT_EQ(size_at(1499), 900u);
  EXPECT_EQ(size_at(1500), 4096u);
  ASSERT_TRUE(pool.unregister_memory(data + 600).ok()) << "the smallest that starts there";
  EXPECT_EQ(size_at(600), 900u);
  ASSERT_TRUE(pool.unregister_memory(data + 600).ok());
  EXPECT_EQ(size_at(600), 1000u);
}

TEST(Registration, IsFoundForAWholeRangeByTheSmallestThatHoldsIt) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(4096);
  std::byte* const data = memory.data();
  ASSERT_TRUE(pool.register_memory(data, 4096).ok());
  ASSERT_TRUE(pool.register_memory(data + 100, 1000).ok());
  EXPECT_EQ(pool.registration_of(data + 100, 1000).size(), 1000u);
  EXPECT_EQ(pool.registration_of(data + 100, 1001).size(), 4096u);
  EXPECT_EQ(pool.registration_of(data + 1099, 1).size(), 1000u);
  EXPECT_EQ(pool.registration_of(data + 1099, 2).size(), 4096u);
  EXPECT_EQ(pool.registration_of(data, 4096).data(), data);
  EXPECT_TRUE(pool.registration_of(data, 4097).empty());
  EXPECT_TRUE(pool.registration_of(data + 10, SIZE_MAX).empty());
  EXPECT_TRUE(pool.registration_of(data, 0).empty());
}

TEST(Registration, ThatWasTheLastOfItsRangeIsReported) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(100);
  std::vector<std::size_t> gone;
  pool.set_registration_observer([&](std::span<std::byte> range) {
    EXPECT_NE(pool.registration_of(range.data(), range.size()).size(), range.size());
    gone.push_back(range.size());
  });
  for (const std::size_t size : {100u, 100u, 50u}) ASSERT_TRUE(pool.register_memory(memory.data(), size).ok());
  for (const std::size_t count : {1u, 1u, 2u}) {
    ASSERT_TRUE(pool.unregister_memory(memory.data()).ok());
    EXPECT_EQ(gone.size(), count);
  }
  EXPECT_EQ(gone, (std::vector<std::size_t>{50, 100}));
}

TEST(Registration, OfNothingIsRefused) {
  Pool pool(kAmpleLimit);
  std::byte byte{};
  EXPECT_EQ(pool.register_memory(nullptr, 10).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.register_memory(&byte, 0).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.register_memory(&byte, SIZE_MAX).code(), RIPC_INVALID_ARGUMENT);
}

TEST(Registration, EndsOnlyWithTheAddressThatWasRegistered) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(100);
  ASSERT_TRUE(pool.register_memory(memory.data(), 100).ok());
  EXPECT_EQ(pool.unregister_memory(memory.data() + 1).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.unregister_memory(nullptr).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(pool.find(memory.data()).ok());
}

TEST(Registration, LeavesHoldsValidWhenItEnds) {
  Pool pool(kAmpleLimit);
  std::vector<std::byte> memory(100);
  ASSERT_TRUE(pool.register_memory(memory.data(), 100).ok());
  Hold hold = must_hold(pool, memory.data(), 100);
  ASSERT_TRUE(pool.unregister_memory(memory.data()).ok());
  EXPECT_TRUE(hold);
  hold.reset();
  EXPECT_FALSE(hold);
}

TEST(Registration, InsideALeaseIsAllowedAndTheLeaseIsFoundFirst) {
  Pool pool(kAmpleLimit);
  std::byte* const data = must_lease(pool, 1000);
  ASSERT_TRUE(pool.register_memory(data + 10, 100).ok());
  EXPECT_EQ(pool.find(data + 20)->data(), data);
  EXPECT_EQ(must_hold(pool, data + 20, 10).arena()->base, must_hold(pool, data, 10).arena()->base);
  ASSERT_TRUE(pool.unregister_memory(data + 10).ok());
}

TEST(Registration, OfPoolMemoryThatIsNotOneLeaseIsRefused) {
  Pool pool(kAmpleLimit);
  std::byte* const data = must_lease(pool, 1000);
  EXPECT_EQ(pool.register_memory(data, 1001).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(pool.register_memory(data + 1000, 1).code(), RIPC_INVALID_ARGUMENT);
  std::byte* const large = must_lease(pool, 40 * kMebi);
  EXPECT_EQ(pool.register_memory(large - 10, 20).code(), RIPC_INVALID_ARGUMENT);
  ASSERT_TRUE(pool.release(data).ok());
  EXPECT_EQ(pool.register_memory(data, 10).code(), RIPC_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ripc::internal::memory
