// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/event_loop.hpp"
#include "eventfd_helpers.hpp"

namespace ripc::internal {
namespace {

class EventSetTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<EventSet> made = EventSet::create();
    ASSERT_TRUE(made.ok()) << made.status().text();
    set_ = std::make_unique<EventSet>(std::move(made).value());
  }
  std::unique_ptr<EventSet> set_;
};

TEST_F(EventSetTest, TimesOutWhenNothingHappens) {
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  EXPECT_EQ(set_->sleep(Deadline::after(1'000'000), monotonic_now()), RIPC_TIMEOUT);
}

TEST_F(EventSetTest, ASleepTellsWhetherOnlyTheOtherDescriptorIsReadable) {
  const UniqueFd other = make_eventfd();
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now(), other.get()), RIPC_TIMEOUT);
  signal(other);
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now(), other.get()), RIPC_EMPTY);
  set_->wake();
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now(), other.get()), RIPC_OK);
}

TEST_F(EventSetTest, TheThreadThatLooksAnywayDoesNotWakeItself) {
  set_->set_looker(std::this_thread::get_id());
  set_->wake();
  { const EventSet::Waker waker = set_->waker(); }
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  std::thread([this] { set_->wake(); }).join();
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  set_->drain();
  set_->set_looker({});
  set_->wake();
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
}

TEST_F(EventSetTest, AWakerWakesWhenItGoesUnlessItWasMovedAndMayOutliveTheSet) {
  {
    EventSet::Waker waker = set_->waker();
    const EventSet::Waker moved = std::move(waker);
    waker = {};
    EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  }
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  const EventSet::Waker late = set_->waker();
  set_.reset();
}

TEST_F(EventSetTest, HearsADescriptorThatIsNeverDrained) {
  const UniqueFd fd = make_eventfd();
  ASSERT_TRUE(set_->add(fd.get()).ok());
  for (int round = 0; round < 3; ++round) {
    signal(fd);
    EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK) << round;
    EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT) << "edge-triggered";
  }
}

TEST_F(EventSetTest, SleepKeepsAnEventUntilItsDescriptorWasRead) {
  const UniqueFd fd = make_eventfd();
  ASSERT_TRUE(set_->add(fd.get(), EventSet::Kind::packets).ok());
  signal(fd);
  for (int count = 0; count < 2; ++count)
    EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK) << count;
  read_eventfd(fd);
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  signal(fd);
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK) << "it was not forgotten";
}

TEST_F(EventSetTest, SleepKeepsAWakeUntilItIsForgotten) {
  set_->wake();
  for (int count = 0; count < 2; ++count)
    EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK) << count;
  EXPECT_TRUE(set_->forget_kept());
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  set_->wake();
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
}

TEST_F(EventSetTest, SleepKeepsNothingWhereThereIsADoorbell) {
  const UniqueFd fd = make_eventfd();
  ASSERT_TRUE(set_->add(fd.get(), EventSet::Kind::doorbell).ok());
  signal(fd);
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  EXPECT_FALSE(set_->forget_kept());
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
}

TEST_F(EventSetTest, ForgetsARemovedDescriptor) {
  const UniqueFd fd = make_eventfd();
  ASSERT_TRUE(set_->add(fd.get()).ok());
  set_->remove(fd.get());
  signal(fd);
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
}

TEST_F(EventSetTest, DrainForgetsTheEventsSoFarHoweverMany) {
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 150; ++i) {
    fds.push_back(make_eventfd());
    ASSERT_TRUE(set_->add(fds.back().get()).ok());
    signal(fds.back());
  }
  set_->wake();
  set_->drain();
  EXPECT_EQ(set_->sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  for (const UniqueFd& fd : fds) signal(fd);
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
}

TEST_F(EventSetTest, CanBeWaitedForByItsOwnDescriptor) {
  Result<EventSet> outer = EventSet::create();
  ASSERT_TRUE(outer.ok());
  ASSERT_TRUE(outer->add(set_->fd()).ok());
  set_->wake();
  EXPECT_EQ(outer->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
}

TEST_F(EventSetTest, RefusesWhatIsNoDescriptor) { EXPECT_FALSE(set_->add(-1).ok()); }

TEST_F(EventSetTest, WakesAWaitingThread) {
  std::thread other([&] { set_->wake(); });
  EXPECT_EQ(set_->sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  other.join();
}

}  // namespace
}  // namespace ripc::internal
