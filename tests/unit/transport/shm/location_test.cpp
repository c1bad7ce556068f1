// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/location.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::shm {
namespace {

TEST(Location, KeepsArenaAndOffset) {
  for (const std::uint32_t arena : {1u, 2u, 77u, kMaxArenaId - 1, kMaxArenaId}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{4096}, kMaxArenaOffset - 1, kMaxArenaOffset}) {
      const std::uint64_t location = pooled_location(arena, offset);
      EXPECT_TRUE(is_pooled(location));
      EXPECT_EQ(arena_of(location), arena);
      EXPECT_EQ(offset_of(location), offset);
      EXPECT_NE(location, kUndisclosed);
    }
  }
}

TEST(Location, OfForeignMemoryIsItsAddress) {
  int here = 0;
  EXPECT_FALSE(is_pooled(reinterpret_cast<std::uintptr_t>(&here)));
  EXPECT_FALSE(is_pooled(0));
}

TEST(Location, ThatIsUndisclosedIsNoPooledLocationThatCanBe) {
  EXPECT_EQ(kUndisclosed, UINT64_MAX);
  EXPECT_GT(arena_of(kUndisclosed), kMaxArenaId);
}

}  // namespace
}  // namespace ripc::internal::shm
