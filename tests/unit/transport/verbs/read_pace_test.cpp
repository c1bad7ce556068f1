// SPDX-License-Identifier: Apache-2.0
// Whether the end of a read is worth polling for.
#include "transport/verbs/bulk/read_pace.hpp"

#include <gtest/gtest.h>

namespace ripc::verbs {
namespace {

constexpr Nanoseconds kBudget = 50'000;
constexpr std::uint64_t kSmall = 4096;
constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

TEST(ReadPace, WhatNobodyHasSeenIsTriedUnlessNobodyMayPoll) {
  ReadPace pace;
  EXPECT_EQ(pace.expected(kSmall), ReadPace::kUnknown);
  EXPECT_TRUE(pace.is_worth_polling(kSmall, kBudget));
  EXPECT_FALSE(pace.is_worth_polling(kSmall, 0));
}

TEST(ReadPace, TheSizeDecides) {
  ReadPace pace;
  pace.saw(kSmall, 10'000);
  pace.saw(kLarge, 200'000);
  EXPECT_TRUE(pace.is_worth_polling(kSmall, kBudget));
  EXPECT_FALSE(pace.is_worth_polling(kLarge, kBudget));
  EXPECT_TRUE(pace.is_worth_polling(kLarge, 200'000)) << "who may poll for so long";
}

TEST(ReadPace, SizesThatWereNotSeenAreEstimatedByOthers) {
  ReadPace pace;
  pace.saw(kSmall, 10'000);
  EXPECT_EQ(pace.expected(4 * kSmall), 40'000u) << "in proportion to a smaller one";
  EXPECT_EQ(pace.expected(kSmall / 4), 10'000u) << "no longer than a larger one";
  EXPECT_EQ(pace.expected(std::uint64_t{1} << 62), UINT64_MAX);
  EXPECT_TRUE(pace.is_worth_polling(4 * kSmall, kBudget));
  EXPECT_FALSE(pace.is_worth_polling(8 * kSmall, kBudget));
}

TEST(ReadPace, AMeanMovesWithWhatIsSeen) {
  ReadPace pace;
  pace.saw(kLarge, 10'000);
  pace.saw(kLarge, 1'000'000);
  EXPECT_LT(pace.expected(kLarge), 200'000u) << "one that was late is not all";
  for (int count = 0; count < 100; ++count) pace.saw(kLarge, 1'000'000);
  EXPECT_FALSE(pace.is_worth_polling(kLarge, kBudget));
  for (int count = 0; count < 100; ++count) pace.saw(kLarge, 10'000);
  EXPECT_TRUE(pace.is_worth_polling(kLarge, kBudget));
}

TEST(ReadPace, WhatIsTakenForLongIsTriedNowAndThen) {
  ReadPace pace;
  pace.saw(kLarge, 1'000'000);
  unsigned polled = 0;
  for (unsigned count = 0; count < 10 * ReadPace::kTryAfter; ++count)
    polled += pace.is_worth_polling(kLarge, kBudget) ? 1u : 0u;
  EXPECT_EQ(polled, 10u);
}

}  // namespace
}  // namespace ripc::verbs
