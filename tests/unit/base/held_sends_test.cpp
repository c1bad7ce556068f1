// SPDX-License-Identifier: Apache-2.0
#include "base/held_sends.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/fork_guard.hpp"
#include "process_helpers.hpp"

namespace ripc::internal {
namespace {

struct Held final : HeldSends {
  void let_go() noexcept override { ++times; }
  int times = 0;
};

TEST(HeldSends, OfTheThreadGoOnceEach) {
  const auto one = std::make_shared<Held>();
  const auto other = std::make_shared<Held>();
  HeldSends::add(one);
  HeldSends::add(other);
  HeldSends::add(one);
  HeldSends::let_all_go();
  HeldSends::let_all_go();
  EXPECT_EQ(one->times, 1);
  EXPECT_EQ(other->times, 1);
}

TEST(HeldSends, OfOtherThreadsStay) {
  const auto held = std::make_shared<Held>();
  HeldSends::add(held);
  std::jthread([] { HeldSends::let_all_go(); }).join();
  EXPECT_EQ(held->times, 0);
  HeldSends::let_all_go();
  EXPECT_EQ(held->times, 1);
}

TEST(HeldSends, OfAnEndedThreadAreNotThoseOfTheNextOne) {
  const auto held = std::make_shared<Held>();
  const ThreadEpoch::Record* record = nullptr;
  std::jthread([&] {
    record = &ThreadEpoch::current();
    HeldSends::add(held);
  }).join();
  std::jthread([&] {
    ASSERT_EQ(&ThreadEpoch::current(), record) << "the record is used again";
    EXPECT_TRUE(record->held.empty());
  }).join();
}

TEST(HeldSends, MayEndBeforeTheyGo) {
  HeldSends::add(std::make_shared<Held>());
  HeldSends::let_all_go();
}

TEST(HeldSends, OfAThreadThatNeverWaitsTakeRoomOnce) {
  const auto held = std::make_shared<Held>();
  for (int time = 0; time < 100; ++time) {
    HeldSends::add(held);
    HeldSends::add(std::make_shared<Held>());
  }
  EXPECT_LE(ThreadEpoch::current().held.size(), 2u);
  HeldSends::let_all_go();
  EXPECT_TRUE(ThreadEpoch::current().held.empty());
}

TEST(HeldSends, OfTheParentStayInAForkedChild) {
  (void)ForkGuard::generation();
  const auto held = std::make_shared<Held>();
  HeldSends::add(held);
  EXPECT_EQ(test::run_in_child([&] {
              HeldSends::let_all_go();
              return held->times;
            }),
            0);
  HeldSends::let_all_go();
  EXPECT_EQ(held->times, 1);
}

}  // namespace
}  // namespace ripc::internal
