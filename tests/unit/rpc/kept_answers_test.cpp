// SPDX-License-Identifier: Apache-2.0
// How long, and up to what size, answers that may be lost are kept in case the client asks for them.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/event_loop.hpp"
#include "core/state/ticket.hpp"
#include "fake_calls.hpp"
#include "unit/core/fake_transport.hpp"

namespace ripc::internal::rpc {
namespace {

constexpr std::size_t kLargest = 64 << 10;  // the largest packet

class KeptAnswers : public testing::Test {
 protected:
  struct Ends {
    std::size_t answered = 0;
    std::size_t ran = 0;  // ran, but nobody knows the answer any more
    friend bool operator==(const Ends&, const Ends&) = default;
  };

  KeptAnswers() { EXPECT_TRUE(server_.server->handle(kLosing, {&KeptAnswers::answer, this, false}).ok()); }
  // Makes calls that are answered together. From then on everything is lost for the time `lost_for`.
  Ends call(std::size_t count, std::size_t size, Nanoseconds lost_for) {
    widen_window();
    calls_.ended.clear();
    calls_.method = kLosing;
    answer_.assign(size, std::byte{1});
    for (std::size_t call = 0; call < count; ++call) calls_.begin();
    network_.run(lost_for);
    EXPECT_TRUE(calls_.ended.empty());
    network_.weather.lost = 0;
    network_.run(5000 * kMillisecond);
    EXPECT_EQ(calls_.ended.size(), count);
    Ends ends;
    for (const ripc_call_result& result : calls_.ended) {
      if (result.outcome == RIPC_CALL_ANSWERED) ++ends.answered;
      if (result.outcome == RIPC_CALL_MAY_HAVE_RUN && result.status == RIPC_TIMEOUT) ++ends.ran;
    }
    return ends;
  }

  std::size_t runs_ = 0;

 private:
  static constexpr std::uint32_t kLosing = 2;

  // Lets all calls be sent at once: the losses have halved the window.
  void widen_window() {
    calls_.method = 1;
    for (int call = 0; call < 100; ++call) {
      calls_.begin();
      network_.run(kMillisecond);
    }
  }
  static void answer(void* user, ripc_request* request) {
    auto& self = *static_cast<KeptAnswers*>(user);
    ++self.runs_;
    self.network_.weather.lost = 100;
    const ripc_item item{self.answer_.data(), self.answer_.size(), RIPC_ITEM_AUTO, 0};
    EXPECT_TRUE(request->server->reply(*request, 3, {&item, 1}, nullptr).ok());
  }

  FakeNetwork network_{7, {.may_lose = true}, kLargest};
  FakeNode client_{network_, kClient};
  FakeNode server_{network_, kServer};
  Calls calls_{network_, client_, *server_.server};
  std::vector<std::byte> answer_;
};

TEST_F(KeptAnswers, OfAnIdleSessionAreGoneAfterASecond) {
  EXPECT_EQ(call(1, 100, 200 * kMillisecond), (Ends{.answered = 1}));
  EXPECT_EQ(call(1, 100, 1010 * kMillisecond), (Ends{.ran = 1}));
  EXPECT_EQ(runs_, 2u);
}

TEST_F(KeptAnswers, OfASessionTake256KiBAtMost) {
  constexpr std::size_t kSize = 40'000;
  constexpr std::size_t kRoom = (256 << 10) / kSize;
  constexpr std::size_t kCalls = 8;
  static_assert(kRoom < kCalls);
  // The next call in a slot frees the room of the slot's former answer.
  for (std::size_t round = 1; round <= 3; ++round) {
    EXPECT_EQ(call(kCalls, kSize, 20 * kMillisecond), (Ends{.answered = kRoom, .ran = kCalls - kRoom})) << round;
    EXPECT_EQ(runs_, kCalls * round);
  }
}

// An answer of this size waits, because its first send finds no room.
class WaitingAnswer : public testing::Test {
 protected:
  explicit WaitingAnswer(bool may_lose = false, std::size_t largest = 4096, std::size_t size = kSize)
      : answer_(size), network_(7, {.may_lose = may_lose}, largest) {
    const ripc_rpc_handler answer = [](void* user, ripc_request* request) {
      const auto& bytes = *static_cast<std::vector<std::byte>*>(user);
      const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_AUTO, 0};
      EXPECT_TRUE(request->server->reply(*request, 3, {&item, 1}, nullptr).ok());
    };
    EXPECT_TRUE(server_.server->handle(2, {answer, &answer_, false}).ok());
    calls_.method = 2;
  }

  static constexpr std::size_t kSize = 200'000;
  std::vector<std::byte> answer_;
  FakeNetwork network_;
  FakeNode client_{network_, kClient};
  FakeNode server_{network_, kServer};
  Calls calls_{network_, client_, *server_.server};
};

TEST_F(WaitingAnswer, ThatCannotBeSentEndsItsCallAtOnce) {
  server_.failures = {RIPC_AGAIN, RIPC_NO_MEMORY, RIPC_TOO_LARGE};
  calls_.begin();
  network_.run(1000 * kMillisecond);
  ASSERT_EQ(calls_.ended.size(), 1u) << "its deadline is a minute away";
  EXPECT_EQ(calls_.ended[0].outcome, RIPC_CALL_MAY_HAVE_RUN);
  EXPECT_EQ(calls_.ended[0].status, RIPC_TOO_LARGE);
  EXPECT_EQ(server_.sends, 3);
}

class WideAnswer : public WaitingAnswer {
 protected:
  WideAnswer() : WaitingAnswer(false, 2 * kMostRepeated, kMostRepeated + 1) {}
};

TEST_F(WideAnswer, WaitsInTheServerWhileItsPathIsMadeWideEnough) {
  server_.is_narrow = true;
  calls_.begin();
  network_.run(100 * kMillisecond);
  EXPECT_TRUE(calls_.ended.empty());
  EXPECT_GT(server_.sends, 1);
  EXPECT_LE(server_.sends, 101) << "it looks once in a millisecond";
  EXPECT_EQ(server_.rooms_asked, 0) << "there is room, so that would be reported at once";
  server_.is_narrow = false;
  network_.run(10 * kMillisecond);
  ASSERT_EQ(calls_.ended.size(), 1u);
  EXPECT_EQ(calls_.ended[0].outcome, std::uint32_t{RIPC_CALL_ANSWERED});
}

class WaitingLongAnswer : public WaitingAnswer {
 protected:
  WaitingLongAnswer() : WaitingAnswer(true) {
    core::Ticket::Parts parts;
    const auto channel = std::make_shared<core::FakeChannel>();
    parts.channel = channel;
    parts.transfer = channel->make_transfer();
    parts.sender = std::make_shared<core::TicketSender>();
    server_.ticket = keeper_.open(keeper_.prepare(std::move(parts)), {}, {});
  }
  ~WaitingLongAnswer() override { keeper_.shut_down(); }

 private:
  const std::unique_ptr<EventLoop> loop_ = std::move(EventLoop::create()).value();
  core::TicketKeeper keeper_{*loop_};
};

TEST_F(WaitingLongAnswer, IsSentOnceAndItsCallWaitsWhileItIsOnItsWay) {
  server_.failures = {RIPC_AGAIN};
  calls_.begin();
  network_.run(10'000 * kMillisecond);
  EXPECT_TRUE(calls_.ended.empty());
  EXPECT_EQ(server_.sends, 2);
}

}  // namespace
}  // namespace ripc::internal::rpc
