// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <set>

namespace ripc::internal {
namespace {

TEST(Random, NumbersDoNotRepeat) {
  constexpr int kCount = 10000;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < kCount; ++i) seen.insert(random_u64());
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kCount));
}

TEST(Random, EveryBitTakesBothValues) {
  std::uint64_t any_one = 0;
  std::uint64_t any_zero = 0;
  for (int i = 0; i < 256; ++i) {
    const std::uint64_t value = random_u64();
    any_one |= value;
    any_zero |= ~value;
  }
  EXPECT_EQ(any_one, UINT64_MAX);
  EXPECT_EQ(any_zero, UINT64_MAX);
}

TEST(Random, ChildAfterForkDrawsOtherNumbersThanItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  // The child gets a copy of the random bytes that this process has read ahead.
  (void)random_u64();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::uint64_t value = random_u64();
    _exit(write(ends[1], &value, sizeof value) == static_cast<ssize_t>(sizeof value) ? 0 : 1);
  }
  close(ends[1]);
  const std::uint64_t ours = random_u64();
  std::uint64_t theirs = 0;
  EXPECT_EQ(read(ends[0], &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(ours, theirs);
}

}  // namespace
}  // namespace ripc::internal
