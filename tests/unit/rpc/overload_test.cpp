// SPDX-License-Identifier: Apache-2.0
// Clients of a server that gets more calls than it can run.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "fake_calls.hpp"

namespace ripc::internal::rpc {
namespace {

constexpr std::uint32_t kMethod = 5;

// A server that answers when the test says so.
class Overload : public testing::Test {
 protected:
  struct Begun {
    ripc_status status = RIPC_PENDING;
    ripc_call_outcome outcome = RIPC_CALL_ANSWERED;
  };

  Overload() {
    const ripc_rpc_handler keep = [](void* user, ripc_request* request) {
      static_cast<Overload*>(user)->kept_.push_back(request);
    };
    EXPECT_TRUE(server_.server->handle(kMethod, {keep, this, false}).ok());
  }
  ~Overload() override {
    for (FakeNode* const node : nodes_) (void)node->client->end_all(RIPC_CLOSED);
    while (!kept_.empty()) drop_next(RIPC_CANCELLED, wire::call::State::may_have_run);
  }

  // Begins a call that has so many milliseconds.
  const Begun& begin(Nanoseconds milliseconds) { return begin(client_, milliseconds); }
  const Begun& begin(FakeNode& from, Nanoseconds milliseconds) {
    Begun& call = calls_.emplace_back();
    CallRequest request{.to = kServer, .method = kMethod, .now = network_.now};
    request.deadline = network_.now + milliseconds * kMillisecond;
    request.done = [](void* user, const ripc_call_result* result) {
      *static_cast<Begun*>(user) = {static_cast<ripc_status>(result->status),
                                    static_cast<ripc_call_outcome>(result->outcome)};
      ripc_message_release(result->message);
    };
    request.user = &call;
    EXPECT_TRUE(from.client->begin(request, nullptr).ok());
    return call;
  }
  void answer_next() {
    ripc_request* const request = kept_.front();
    kept_.pop_front();
    EXPECT_TRUE(request->server->reply(*request, 0, {}, nullptr).ok());
  }
  void drop_next(ripc_status status, wire::call::State outcome) {
    ripc_request* const request = kept_.front();
    kept_.pop_front();
    request->server->drop(*request, status, outcome);
  }
  void run(Nanoseconds milliseconds) { network_.run(milliseconds * kMillisecond); }
  // The client learns that answers take so long, and many of its calls run out of time.
  void learn(Nanoseconds milliseconds = 8) {
    const Begun& slow = begin(60'000);
    run(milliseconds);
    answer_next();
    run(1);
    ASSERT_EQ(slow.status, RIPC_OK);
    for (int count = 0; count < 4; ++count) expire();
  }
  void expire() {
    const Begun& expired = begin(1);
    run(3);
    ASSERT_EQ(expired.status, RIPC_TIMEOUT);
    while (!kept_.empty()) drop_next(RIPC_TIMEOUT, wire::call::State::not_run);
    run(1);
  }

  FakeNetwork network_{7};
  FakeNode client_{network_, kClient};
  FakeNode server_{network_, kServer};
  std::vector<FakeNode*> nodes_{&client_};
  std::deque<ripc_request*> kept_;
  std::deque<Begun> calls_;
};

TEST_F(Overload, ARequestWhoseTimeEndedWhileOthersWereReadDoesNotStart) {
  (void)begin(60'000);
  run(5);
  ASSERT_EQ(kept_.size(), 1);
  server_.reading_time = 2 * kMillisecond;
  (void)begin(1);
  run(5);
  EXPECT_EQ(kept_.size(), 1);
  (void)begin(60'000);
  run(5);
  EXPECT_EQ(kept_.size(), 2);
}

TEST_F(Overload, CallsThatWouldExpireAreSentOneAtATimeAndOthersAtOnce) {
  learn();
  begin(6);
  const Begun& held = begin(6);
  begin(30);
  begin(30);
  run(1);
  EXPECT_EQ(kept_.size(), 3u) << "all but the second";
  run(10);
  EXPECT_EQ(held.status, RIPC_TIMEOUT);
  EXPECT_EQ(held.outcome, RIPC_CALL_DID_NOT_RUN);
}

TEST_F(Overload, TheLatestCallThatIsHeldBackIsSentNext) {
  learn();
  begin(6);
  const Begun& early = begin(6);
  const Begun& latest = begin(7);
  run(1);
  ASSERT_EQ(kept_.size(), 1u);
  answer_next();
  run(1);
  ASSERT_FALSE(kept_.empty());
  answer_next();
  run(1);
  EXPECT_EQ(latest.status, RIPC_OK);
  EXPECT_EQ(early.status, RIPC_PENDING);
}

TEST_F(Overload, CallsWithLittleTimeAreSentWhileNoneExpire) {
  learn();
  run(1000);
  begin(5);
  begin(5);
  run(1);
  EXPECT_EQ(kept_.size(), 2u);
}

TEST_F(Overload, EachAnswerToACallWithLittleTimeAdmitsOneMore) {
  learn();
  for (std::size_t most = 1; most <= 8; most *= 2) {
    for (int count = 0; count < 8; ++count) begin(6);
    run(1);
    EXPECT_EQ(kept_.size(), most);
    while (!kept_.empty()) answer_next();
    run(10);
    while (!kept_.empty()) drop_next(RIPC_TIMEOUT, wire::call::State::not_run);
    run(1);
  }
}

TEST_F(Overload, OneCallThatExpiresHoldsBackHalfOfTheSlotsAtMost) {
  learn();
  run(1000);
  expire();
  for (int count = 0; count < 8; ++count) begin(6);
  run(1);
  EXPECT_EQ(kept_.size(), 4u);
}

TEST_F(Overload, ACallThatIsHeldBackIsSentOnceNoneHaveExpiredForASecond) {
  learn(2000);
  begin(3000);
  begin(3000);
  run(100);
  EXPECT_EQ(kept_.size(), 1u);
  run(1000);
  EXPECT_EQ(kept_.size(), 2u);
}

TEST_F(Overload, ASlowMethodHoldsBackNoCallsOfAQuickOne) {
  network_.weather.delay = kMillisecond / 10;
  learn();
  Calls quick(network_, client_, *server_.server);
  quick.begin();
  run(1);
  ASSERT_EQ(quick.ended.size(), 1u);
  begin(6);
  quick.timeout = 6 * kMillisecond;
  quick.begin();
  quick.begin();
  run(1);
  EXPECT_EQ(quick.ended.size(), 3u);
}

TEST_F(Overload, ACallThatIsHeldBackEndsWithItsServer) {
  learn();
  begin(6);
  const Begun& held = begin(6);
  run(1);
  ASSERT_EQ(kept_.size(), 1u);
  server_.end_server();
  run(1);
  EXPECT_EQ(held.status, RIPC_CLOSED);
  EXPECT_EQ(held.outcome, RIPC_CALL_DID_NOT_RUN);
}

// A refusal takes a quarter of the time that a call takes: over sockets, that is so for short handlers.
TEST_F(Overload, AtThreeTimesTheLoadAServerAnswersNineTenthsOfWhatItCan) {
  constexpr Nanoseconds kWork = 400'000, kRefusal = 100'000, kTime = 2'000 * kMillisecond;
  std::vector<std::unique_ptr<FakeNode>> clients;
  for (ripc_service_id id = 0; id < 8; ++id) {
    clients.push_back(std::make_unique<FakeNode>(network_, kClient + 100 + id));
    nodes_.push_back(clients.back().get());
  }
  const Nanoseconds end = network_.now + kTime;
  for (Nanoseconds next_call = network_.now, free_at = network_.now; network_.now < end;) {
    for (; next_call <= network_.now; next_call += kWork / 3) begin(*nodes_[1 + calls_.size() % clients.size()], 20);
    if (kept_.empty()) free_at = network_.now + kRefusal;
    while (!kept_.empty() && free_at <= network_.now) {
      if (server_.server->time_left(*kept_.front()) == 0) {
        drop_next(RIPC_TIMEOUT, wire::call::State::not_run);
        free_at += kRefusal;
      } else {
        answer_next();
        free_at += kWork;
      }
    }
    network_.run(kRefusal);
  }
  const auto answered = std::ranges::count(calls_, RIPC_OK, &Begun::status);
  EXPECT_GE(answered, static_cast<std::ptrdiff_t>(kTime / kWork * 9 / 10));
  for (FakeNode* const node : nodes_) (void)node->client->end_all(RIPC_CLOSED);
  nodes_.clear();
}

}  // namespace
}  // namespace ripc::internal::rpc
