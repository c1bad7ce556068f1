// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "eventfd_helpers.hpp"
#include "support/waiting.hpp"

namespace ripc::internal {
namespace {

using support::eventually;

// A loop that runs in its own thread until the end of the test.
class EventLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<EventLoop>> made = EventLoop::create();
    ASSERT_TRUE(made.ok()) << made.status().text();
    loop_ = std::move(made).value();
  }
  void TearDown() override { finish(); }
  void start() {
    thread_ = std::thread([this] { loop_->run(); });
  }
  void finish() {
    if (loop_) loop_->stop();
    if (thread_.joinable()) thread_.join();
  }
  // Returns when everything that was posted before has run.
  void settle() {
    std::atomic<bool> done{false};
    loop_->post_top_level([&] { done = true; });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
  }
  // The same for tasks that may run nested.
  void settle_without_top_level() {
    std::atomic<bool> done{false};
    loop_->post([&] { done = true; });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
  }

  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
};

TEST_F(EventLoopTest, RunsTasksInTheLoopInTheOrderOfPosting) {
  std::vector<int> order;
  bool in_loop = false;
  for (int i = 0; i < 5; ++i) loop_->post([&, i] { order.push_back(i); });
  start();
  loop_->post([&] {
    order.push_back(5);
    in_loop = loop_->in_loop_thread();
  });
  settle();
  EXPECT_FALSE(loop_->in_loop_thread());
  finish();
  EXPECT_TRUE(in_loop);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST_F(EventLoopTest, LosesNoTaskOfManyThreads) {
  start();
  std::atomic<int> run{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) loop_->post([&] { ++run; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return run == 4000; }));
  finish();
}

TEST_F(EventLoopTest, CallsTheHandlerOfAReadyDescriptor) {
  const UniqueFd fd = make_eventfd();
  std::atomic<int> calls{0};
  std::atomic<std::uint32_t> events{0};
  start();
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t ready) {
                          read_eventfd(fd);
                          events = ready;
                          ++calls;
                        })
                  .ok());
  for (int round = 1; round <= 3; ++round) {
    signal(fd);
    ASSERT_TRUE(eventually([&] { return calls == round; }));
  }
  EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLIN));
  finish();
}

TEST_F(EventLoopTest, ModifyChangesWhatIsWaitedFor) {
  const UniqueFd fd = make_eventfd();
  std::atomic<std::uint32_t> events{0};
  start();
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t ready) {
                          events = ready;
                          loop_->remove(fd.get());
                        })
                  .ok());
  ASSERT_TRUE(loop_->modify(fd.get(), EPOLLOUT).ok());
  EXPECT_TRUE(eventually([&] { return events != 0; }));
  EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLOUT));
  finish();
  EXPECT_FALSE(loop_->modify(fd.get(), EPOLLIN).ok()) << "it was removed";
}

TEST_F(EventLoopTest, HandlerMayRemoveItself) {
  const UniqueFd fd = make_eventfd();
  std::atomic<int> calls{0};
  start();
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&, keep = std::make_shared<int>(7)](std::uint32_t) {
                          loop_->remove(fd.get());
                          calls += *keep;  // the handler object lives until it returns
                        })
                  .ok());
  signal(fd);
  EXPECT_TRUE(eventually([&] { return calls != 0; }));
  settle();
  EXPECT_EQ(calls, 7) << "though it is still readable";
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          loop_->remove(fd.get());
                          calls = 100;
                        })
                  .ok());
  EXPECT_TRUE(eventually([&] { return calls == 100; })) << "and can be added again";
  finish();
}

TEST_F(EventLoopTest, IsBehindUntilItHasActedOnWhatHasCome) {
  const UniqueFd event = make_eventfd();
  std::atomic<bool> holds{true}, entered{false};
  ASSERT_TRUE(loop_
                  ->add(event.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          read_eventfd(event);
                          entered = true;
                          while (holds) std::this_thread::yield();
                        })
                  .ok());
  EXPECT_FALSE(loop_->is_behind());
  signal(event);
  EXPECT_TRUE(loop_->is_behind()) << "nobody has looked";
  start();
  ASSERT_TRUE(eventually([&] { return entered.load(); }));
  EXPECT_TRUE(loop_->is_behind()) << "it is not over";
  holds = false;
  EXPECT_TRUE(eventually([&] { return !loop_->is_behind(); }));
  loop_->remove(event.get());
}

TEST_F(EventLoopTest, RefusesWhatIsNoDescriptor) {
  EXPECT_FALSE(loop_->add(-1, EPOLLIN, [](std::uint32_t) {}).ok());
}

TEST_F(EventLoopTest, ASecondHandlerForADescriptorIsRefusedAndTheFirstStays) {
  const UniqueFd fd = make_eventfd();
  std::atomic<int> first{0}, second{0};
  start();
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          read_eventfd(fd);
                          ++first;
                        })
                  .ok());
  EXPECT_EQ(loop_->add(fd.get(), EPOLLIN, [&](std::uint32_t) { ++second; }).code(), RIPC_INVALID_ARGUMENT);
  signal(fd);
  EXPECT_TRUE(eventually([&] { return first == 1; }));
  finish();
  EXPECT_EQ(second, 0);
}

TEST_F(EventLoopTest, HearsWhatHasComeBeforeItRunsTimersThatAreDue) {
  std::vector<int> order;
  // As after the process was stopped: the timer is due, and the awaited event has come meanwhile.
  loop_->add_timer(monotonic_now(), [&] {
    order.push_back(2);
    loop_->stop();
  });
  const UniqueFd fd = make_eventfd();
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          read_eventfd(fd);
                          order.push_back(1);
                        })
                  .ok());
  signal(fd);
  start();
  thread_.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(EventLoopTest, RunsTimersInTheOrderOfTheirTimes) {
  std::vector<int> order;
  const Nanoseconds now = monotonic_now();
  loop_->add_timer(now + 3'000'000, [&] { order.push_back(3); });
  loop_->add_timer(now + 1'000'000, [&] { order.push_back(1); });
  loop_->add_timer(now + 2'000'000, [&] { order.push_back(2); });
  loop_->add_timer(now + 4'000'000, [&] { loop_->stop(); });
  loop_->run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(EventLoopTest, NeverRunsATimerEarly) {
  const Nanoseconds at = monotonic_now() + 5'000'000;
  Nanoseconds ran = 0;
  loop_->add_timer(at, [&] {
    ran = monotonic_now();
    loop_->stop();
  });
  loop_->run();
  EXPECT_GE(ran, at);
}

TEST_F(EventLoopTest, ATimerOfAnotherThreadWakesTheLoop) {
  start();
  settle();
  std::atomic<bool> ran{false};
  loop_->add_timer(monotonic_now(), [&] { ran = true; });
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
  finish();
}

TEST_F(EventLoopTest, DoesNotRunACancelledTimer) {
  int wrong = 0;
  const Nanoseconds now = monotonic_now();
  const EventLoop::TimerId cancelled = loop_->add_timer(now, [&] { ++wrong; });
  loop_->cancel_timer(cancelled);
  loop_->cancel_timer(cancelled);
  loop_->cancel_timer(12345);
  loop_->add_timer(now + 1, [&] { loop_->stop(); });
  loop_->run();
  EXPECT_EQ(wrong, 0);
}

// In each of these tests nothing else wakes the loop.
TEST_F(EventLoopTest, ATimerAddedByATaskRuns) {
  start();
  std::atomic<bool> ran{false};
  // When the second task runs, the loop has consumed every wake-up.
  loop_->post([&] { loop_->post([&] { loop_->add_timer(monotonic_now() + 1'000'000, [&] { ran = true; }); }); });
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
  finish();
}

TEST_F(EventLoopTest, ATimerAddedByATimerRuns) {
  start();
  std::atomic<bool> ran{false};
  loop_->add_timer(monotonic_now(), [&] { loop_->add_timer(monotonic_now() + 1'000'000, [&] { ran = true; }); });
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
  finish();
}

TEST_F(EventLoopTest, ATimerAddedByAHandlerRuns) {
  start();
  const UniqueFd fd = make_eventfd();
  std::atomic<bool> ran{false};
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          loop_->remove(fd.get());
                          loop_->add_timer(monotonic_now() + 1'000'000, [&] { ran = true; });
                        })
                  .ok());
  signal(fd);
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
  finish();
}

TEST_F(EventLoopTest, ATimerThatStaysRunsWheneverItWasSet) {
  int runs = 0;
  EventLoop::TimerId timer = 0;
  timer = loop_->make_timer([&] {
    if (++runs < 3) loop_->set_timer(timer, monotonic_now());
    if (runs == 3) loop_->stop();
  });
  loop_->set_timer(timer, monotonic_now());
  loop_->run();
  EXPECT_EQ(runs, 3);
}

TEST_F(EventLoopTest, ATimerThatWasNotSetOrWasTakenBackDoesNotRun) {
  int wrong = 0;
  const Nanoseconds now = monotonic_now();
  (void)loop_->make_timer([&] { ++wrong; });
  const EventLoop::TimerId back = loop_->make_timer([&] { ++wrong; });
  loop_->set_timer(back, now);
  loop_->set_timer(back, UINT64_MAX);
  const EventLoop::TimerId cancelled = loop_->make_timer([&] { ++wrong; });
  loop_->cancel_timer(cancelled);
  loop_->set_timer(cancelled, now);
  loop_->add_timer(now + 1, [&] { loop_->stop(); });
  loop_->run();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EventLoopTest, RepeatsTasksTimersAndHandlersThatLackMemory) {
  const auto lacks_twice = [](int& runs) {
    if (++runs < 3) throw std::bad_alloc();
  };
  int task = 0, timer = 0, handler = 0;
  bool other = false;
  const UniqueFd fd = make_eventfd();
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          lacks_twice(handler);
                          read_eventfd(fd);
                          loop_->add_timer(monotonic_now(), [&] {
                            lacks_twice(timer);
                            loop_->stop();
                          });
                        })
                  .ok());
  loop_->post([&] {
    lacks_twice(task);
    signal(fd);
  });
  loop_->post([&] { other = task == 1; });
  loop_->run();
  EXPECT_EQ(task, 3);
  EXPECT_EQ(handler, 3);
  EXPECT_EQ(timer, 3);
  EXPECT_TRUE(other) << "what comes behind does not wait for it";
}

TEST_F(EventLoopTest, RunUntilHandlesEventsUntilItIsDone) {
  start();
  const UniqueFd fd = make_eventfd();
  std::atomic<bool> heard{false};
  std::atomic<int> result{-1};
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t) {
                          read_eventfd(fd);
                          heard = true;
                        })
                  .ok());
  loop_->post_top_level(
      [&] { result = loop_->run_until([&] { return heard.load(); }, Deadline::after(kPatience)) ? 1 : 0; });
  signal(fd);
  EXPECT_TRUE(eventually([&] { return result >= 0; }));
  EXPECT_EQ(result, 1);
  finish();
}

TEST_F(EventLoopTest, RunUntilRunsTasksAndTimersThatComeMeanwhile) {
  start();
  std::atomic<int> step{0};
  std::atomic<int> result{-1};
  loop_->post_top_level([&] {
    step = 1;
    result = loop_->run_until([&] { return step == 3; }, Deadline::after(kPatience)) ? 1 : 0;
  });
  ASSERT_TRUE(eventually([&] { return step == 1; }));
  loop_->post([&] { step = 2; });
  ASSERT_TRUE(eventually([&] { return step == 2; }));
  loop_->add_timer(monotonic_now(), [&] { step = 3; });
  EXPECT_TRUE(eventually([&] { return result >= 0; }));
  EXPECT_EQ(result, 1);
  finish();
}

// When the awaited task runs, the loop has consumed every wake-up; nothing else ends its sleep.
TEST_F(EventLoopTest, RunUntilIsDoneWhenATaskSaysSo) {
  start();
  std::atomic<bool> done{false};
  std::atomic<int> result{-1};
  loop_->post_top_level([&] {
    loop_->post([&] { loop_->post([&] { done = true; }); });
    result = loop_->run_until([&] { return done.load(); }, Deadline::after(2 * kPatience)) ? 1 : 0;
  });
  EXPECT_TRUE(eventually([&] { return result >= 0; }));
  EXPECT_EQ(result, 1);
  finish();
}

TEST_F(EventLoopTest, RunUntilGivesUpAtItsDeadline) {
  start();
  std::atomic<int> result{-1};
  loop_->post_top_level([&] { result = loop_->run_until([] { return false; }, Deadline::after(2'000'000)) ? 1 : 0; });
  EXPECT_TRUE(eventually([&] { return result >= 0; }));
  EXPECT_EQ(result, 0);
  finish();
}

TEST_F(EventLoopTest, RunUntilGivesUpWhenTheLoopStops) {
  start();
  std::atomic<int> result{-1};
  loop_->post_top_level([&] { result = loop_->run_until([] { return false; }, Deadline::never()) ? 1 : 0; });
  settle_without_top_level();
  loop_->stop();
  EXPECT_TRUE(eventually([&] { return result >= 0; }));
  EXPECT_EQ(result, 0);
  finish();
}

TEST_F(EventLoopTest, TopLevelTasksNeverRunInANestedLoop) {
  start();
  std::atomic<int> step{0};
  std::atomic<bool> nested{false}, wrong{false}, ran{false};
  loop_->post_top_level([&] {
    nested = true;
    (void)loop_->run_until([&] { return step == 1; }, Deadline::after(kPatience));
    nested = false;
  });
  ASSERT_TRUE(eventually([&] { return nested.load(); }));
  loop_->post_top_level([&] {
    if (nested) wrong = true;
    ran = true;
  });
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> done{false};
    loop_->post([&] { done = true; });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
  }
  EXPECT_FALSE(ran);
  loop_->post([&] { step = 1; });
  EXPECT_TRUE(eventually([&] { return ran.load(); })) << "it runs afterwards";
  EXPECT_FALSE(wrong);
  finish();
}

}  // namespace
}  // namespace ripc::internal
