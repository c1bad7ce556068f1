// SPDX-License-Identifier: Apache-2.0
#include "base/loop_wait.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace ripc::internal {
namespace {

constexpr Nanoseconds kLoopPatience = 20'000'000'000;
constexpr Nanoseconds kShort = 1'000'000;

class LoopWaitTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<EventLoop>> made = EventLoop::create();
    ASSERT_TRUE(made.ok()) << made.status().text();
    loop_ = std::move(*made);
    thread_ = std::thread([this] { loop_->run(); });
  }

  void TearDown() override {
    if (loop_) loop_->stop();
    if (thread_.joinable()) thread_.join();
  }

  // Whether `answer_` becomes 1 within `patience`. The lock is held whenever the condition is checked, and afterwards.
  bool wait_for_answer(Nanoseconds patience) {
    std::unique_lock lock(mutex_);
    const bool done = wait_in(*loop_, lock, changed_, Deadline::after(patience), [this] { return answer_ == 1; });
    EXPECT_TRUE(lock.owns_lock());
    return done;
  }

  void give_answer() {
    const std::lock_guard lock(mutex_);
    answer_ = 1;
    changed_.notify_all();
  }

  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int answer_ = 0;
};

TEST_F(LoopWaitTest, AThreadSleepsUntilTheLoopNotifiesIt) {
  loop_->post([this] { give_answer(); });
  EXPECT_TRUE(wait_for_answer(kLoopPatience));
}

TEST_F(LoopWaitTest, TheLoopsOwnThreadRunsTheLoopMeanwhile) {
  std::promise<bool> waited;
  loop_->post([&] {
    loop_->post([this] { give_answer(); });
    waited.set_value(wait_for_answer(kLoopPatience));
  });
  EXPECT_TRUE(waited.get_future().get());
}

TEST_F(LoopWaitTest, DoesNotWaitForAnAnswerThatIsThere) {
  give_answer();
  EXPECT_TRUE(wait_for_answer(0));
}

TEST_F(LoopWaitTest, GivesUpAtTheDeadlineInEveryThread) {
  EXPECT_FALSE(wait_for_answer(kShort));
  std::promise<bool> waited;
  loop_->post([&] { waited.set_value(wait_for_answer(kShort)); });
  EXPECT_FALSE(waited.get_future().get());
}

TEST_F(LoopWaitTest, ADeadlineThatNeverComesIsWaitedFor) {
  loop_->post([this] { give_answer(); });
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(wait_in(*loop_, lock, changed_, Deadline::never(), [this] { return answer_ == 1; }));
}

}  // namespace
}  // namespace ripc::internal
