// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/silence.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::remote {
namespace {

constexpr unsigned kLooks = 4;

// How many looks it takes until the silence is too long, at most `most`; 0: more.
unsigned looks_until_silent(Silence& silence, bool owed, std::uint64_t activity, unsigned most = 20) {
  for (unsigned look = 1; look <= most; ++look) {
    silence.look(owed, activity);
    if (silence.lasts(kLooks)) return look;
  }
  return 0;
}

TEST(Silence, IsTooLongAfterSoManyLooksWithoutNews) {
  Silence silence;
  silence.look(true, 7);
  EXPECT_FALSE(silence.lasts(1)) << "what it said before the first look is news";
  EXPECT_EQ(looks_until_silent(silence, true, 7), kLooks);
}

TEST(Silence, IsNoneWhileThereIsNews) {
  Silence silence;
  for (std::uint64_t activity = 1; activity <= 100; ++activity) {
    silence.look(true, activity);
    EXPECT_FALSE(silence.lasts(1));
  }
  EXPECT_EQ(looks_until_silent(silence, true, 100), kLooks);
}

TEST(Silence, IsNoneWhileNothingIsOwed) {
  Silence silence;
  EXPECT_EQ(looks_until_silent(silence, false, 0), 0u);
  EXPECT_EQ(looks_until_silent(silence, true, 0), kLooks) << "it counts from when something is owed";
  Silence other;
  EXPECT_EQ(looks_until_silent(other, true, 0, kLooks - 1), 0u);
  other.look(false, 0);
  EXPECT_EQ(looks_until_silent(other, true, 0), kLooks) << "and begins anew";
}

}  // namespace
}  // namespace ripc::internal::remote
