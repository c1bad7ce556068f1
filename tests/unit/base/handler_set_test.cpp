// SPDX-License-Identifier: Apache-2.0
// Which thread handles the descriptors that a loop shares. event_loop_test.cpp tests the handlers that only the loop
// runs.
#include "base/handler_set.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <atomic>
#include <new>
#include <thread>

#include "base/epoll.hpp"
#include "base/event_loop.hpp"
#include "eventfd_helpers.hpp"
#include "support/waiting.hpp"

namespace ripc::internal {
namespace {

using support::eventually;

// A loop that runs in its own thread and shares a descriptor.
class SharedSetTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<EventLoop>> made = EventLoop::create();
    ASSERT_TRUE(made.ok()) << made.status().text();
    loop_ = std::move(made).value();
    share(fd_);
    thread_ = std::thread([this] { loop_->run(); });
    settle();
  }
  void TearDown() override {
    loop_->stop();
    thread_.join();
  }
  void share(const UniqueFd& fd) {
    on_signal(shared().descriptors(), fd, [this] {
      handled_by_ = std::this_thread::get_id();
      ++handled_;
    });
  }
  SharedSet& shared() { return loop_->shared(); }
  // Returns when the loop has looked at everything that was there before.
  void settle() {
    for (int look = 0; look < 2; ++look) {
      std::atomic<bool> done{false};
      loop_->post([&] { done = true; });
      ASSERT_TRUE(eventually([&] { return done.load(); }));
    }
  }

  UniqueFd fd_ = make_eventfd();
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
  std::atomic<std::thread::id> handled_by_{};
  std::atomic<int> handled_{0};
};

TEST_F(SharedSetTest, TheLoopHandlesWhatNoOneHasBorrowed) {
  signal(fd_);
  EXPECT_TRUE(eventually([&] { return handled_ == 1; }));
  EXPECT_EQ(handled_by_, thread_.get_id());
}

TEST_F(SharedSetTest, AThreadThatHasBorrowedThemHandlesThemAndTheLoopDoesNot) {
  const SharedSet::Borrowed borrowed(shared());
  ASSERT_TRUE(borrowed);
  EXPECT_FALSE(borrowed.look());
  signal(fd_);
  settle();
  EXPECT_EQ(handled_, 0);
  EXPECT_EQ(sleep_on(borrowed.fd(), Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  EXPECT_TRUE(borrowed.look());
  EXPECT_EQ(handled_, 1);
  EXPECT_EQ(handled_by_, std::this_thread::get_id());
}

TEST_F(SharedSetTest, TheLoopHandlesEventsFromBeforeTheirReturn) {
  SharedSet::Borrowed borrowed(shared());
  signal(fd_);
  settle();
  EXPECT_EQ(handled_, 0);
  borrowed.give_back();
  EXPECT_FALSE(borrowed);
  EXPECT_EQ(borrowed.fd(), -1);
  EXPECT_TRUE(eventually([&] { return handled_ == 1; }));
  EXPECT_EQ(handled_by_, thread_.get_id());
}

TEST_F(SharedSetTest, OneHasThemAtATime) {
  SharedSet::Borrowed first(shared());
  ASSERT_TRUE(first);
  SharedSet::Borrowed second(shared());
  EXPECT_FALSE(second);
  first.give_back();
  second.borrow_from(shared());
  EXPECT_TRUE(second);
}

TEST_F(SharedSetTest, NoThreadGetsThemWhileTheLoopIsAtWorkOnThem) {
  const UniqueFd blocking = make_eventfd();
  std::atomic<bool> entered{false}, leave{false};
  on_signal(shared().descriptors(), blocking, [&] {
    entered = true;
    (void)eventually([&] { return leave.load(); });
  });
  signal(blocking);
  ASSERT_TRUE(eventually([&] { return entered.load(); }));
  SharedSet::Borrowed borrowed(shared());
  EXPECT_FALSE(borrowed);
  leave = true;
  EXPECT_TRUE(eventually([&] {
    borrowed.borrow_from(shared());
    return static_cast<bool>(borrowed);
  }));
}

// A handler that waits runs the loop, because the loop must bring what the handler waits for.
TEST_F(SharedSetTest, ANestedRunOfTheLoopHandlesThem) {
  const UniqueFd waiting = make_eventfd();
  std::atomic<bool> was_handled{false};
  on_signal(shared().descriptors(), waiting, [&] {
    signal(fd_);
    was_handled = loop_->run_until([&] { return handled_ == 1; }, Deadline::after(kPatience));
  });
  signal(waiting);
  EXPECT_TRUE(eventually([&] { return was_handled.load(); }));
}

TEST_F(SharedSetTest, ALookHandlesOneDescriptor) {
  const UniqueFd other = make_eventfd();
  share(other);
  const SharedSet::Borrowed borrowed(shared());
  signal(fd_);
  signal(other);
  EXPECT_TRUE(borrowed.look());
  EXPECT_EQ(handled_, 1);
  EXPECT_TRUE(borrowed.look());
  EXPECT_EQ(handled_, 2);
  EXPECT_FALSE(borrowed.look());
}

TEST_F(SharedSetTest, NoThreadGetsThemWhereThereAreNone) {
  shared().descriptors().remove(fd_.get());
  EXPECT_FALSE(SharedSet::Borrowed(shared()));
  share(fd_);
  EXPECT_TRUE(SharedSet::Borrowed(shared()));
}

TEST_F(SharedSetTest, AThreadThatSleepsOnThemCanBeWokenByAnother) {
  const SharedSet::Borrowed borrowed(shared());
  shared().wake();
  EXPECT_FALSE(borrowed.look()) << "it is awake";
  std::thread([&] { shared().wake(); }).join();
  EXPECT_EQ(sleep_on(borrowed.fd(), Deadline::after(kPatience), monotonic_now()), RIPC_OK);
  EXPECT_TRUE(borrowed.look());
  EXPECT_FALSE(borrowed.look());
}

TEST_F(SharedSetTest, TheLoopIsBehindWhileTheyWereNotLookedAt) {
  const SharedSet::Borrowed borrowed(shared());
  EXPECT_TRUE(eventually([&] { return !loop_->is_behind(); }));
  signal(fd_);
  EXPECT_TRUE(loop_->is_behind());
  EXPECT_TRUE(borrowed.look());
  EXPECT_TRUE(eventually([&] { return !loop_->is_behind(); }));
}

TEST_F(SharedSetTest, AHandlerWithoutMemoryIsCalledAgainAtTheNextLook) {
  const UniqueFd failing = make_eventfd();
  int calls = 0;
  const SharedSet::Borrowed borrowed(shared());
  ASSERT_TRUE(shared()
                  .descriptors()
                  .add(failing.get(), EPOLLIN,
                       [&](std::uint32_t) {
                         if (++calls == 1) throw std::bad_alloc();
                         read_eventfd(failing);
                       })
                  .ok());
  signal(failing);
  EXPECT_TRUE(borrowed.look());
  EXPECT_TRUE(borrowed.look());
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(borrowed.look());
  shared().descriptors().remove(failing.get());
}

}  // namespace
}  // namespace ripc::internal
