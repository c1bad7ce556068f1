// SPDX-License-Identifier: Apache-2.0
#include "remote/link/replay_window.hpp"

#include <gtest/gtest.h>

namespace ripc::internal::remote {
namespace {

using Verdict = ReplayWindow::Verdict;

TEST(ReplayWindow, PacketsInOrderAreFreshAndNothingIsMissing) {
  ReplayWindow window;
  std::uint32_t missing = 1;
  for (std::uint32_t sequence = 1; sequence <= 3 * ReplayWindow::kSize; ++sequence) {
    EXPECT_EQ(window.note(sequence, missing), Verdict::fresh);
    EXPECT_EQ(missing, 0u);
  }
}

TEST(ReplayWindow, APacketThatComesTwiceIsADuplicate) {
  ReplayWindow window;
  std::uint32_t missing = 0;
  for (std::uint32_t sequence = 1; sequence <= 100; ++sequence) (void)window.note(sequence, missing);
  for (std::uint32_t sequence = 1; sequence <= 100; ++sequence)
    EXPECT_EQ(window.note(sequence, missing), Verdict::duplicate) << sequence;
}

TEST(ReplayWindow, AGapIsCountedAndALatePacketIsKnownForWhatItIs) {
  ReplayWindow window;
  std::uint32_t missing = 0;
  EXPECT_EQ(window.note(5, missing), Verdict::fresh);
  EXPECT_EQ(missing, 4u);
  EXPECT_EQ(window.note(3, missing), Verdict::late);
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(window.note(3, missing), Verdict::duplicate);
  EXPECT_EQ(window.note(6, missing), Verdict::fresh);
  EXPECT_EQ(missing, 0u);
}

TEST(ReplayWindow, AGapLargerThanTheWindowLeavesNothingOfBefore) {
  ReplayWindow window;
  std::uint32_t missing = 0;
  (void)window.note(1, missing);
  const std::uint32_t far = 1 + 5 * ReplayWindow::kSize;
  EXPECT_EQ(window.note(far, missing), Verdict::fresh);
  EXPECT_EQ(missing, far - 2);
  for (std::uint32_t behind = 1; behind < ReplayWindow::kSize; ++behind)
    EXPECT_EQ(window.note(far - behind, missing), Verdict::late) << behind;
  EXPECT_EQ(window.note(far - ReplayWindow::kSize, missing), Verdict::duplicate) << "too old to tell";
}

TEST(ReplayWindow, NumbersGoOnAfterTheLargest) {
  ReplayWindow window;
  std::uint32_t missing = 0;
  std::uint32_t sequence = 0;
  while (sequence < UINT32_MAX - ReplayWindow::kMaxJump) {
    sequence += ReplayWindow::kMaxJump;
    ASSERT_EQ(window.note(sequence, missing), Verdict::fresh);
  }
  ASSERT_EQ(window.note(UINT32_MAX, missing), Verdict::fresh);
  EXPECT_EQ(window.note(0, missing), Verdict::fresh);
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(window.note(UINT32_MAX, missing), Verdict::duplicate);
  EXPECT_EQ(window.note(2, missing), Verdict::fresh);
  EXPECT_EQ(missing, 1u);
}

TEST(ReplayWindow, NumbersThatNoOneCanHaveReachedChangeNothing) {
  ReplayWindow window;
  std::uint32_t missing = 0;
  (void)window.note(1, missing);
  EXPECT_EQ(window.note(2 + ReplayWindow::kMaxJump, missing), Verdict::absurd);
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(window.note(0x80000000u, missing), Verdict::absurd);
  EXPECT_EQ(window.note(2, missing), Verdict::fresh);
}

}  // namespace
}  // namespace ripc::internal::remote
