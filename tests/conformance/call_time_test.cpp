// SPDX-License-Identifier: Apache-2.0
// Calls and time: deadlines, and cancelling.
#include <deque>
#include <thread>

#include "remote_calls.hpp"

namespace conformance {
namespace {

TEST_P(RemoteCalls, EndAtTheirDeadlineAndTheHandlerSeesIt) {
  Begun late(rpc_, server_.id(), CallServer::kKeep, {}, call_options(1000 * kMillisecond));
  ripc_request* const request = server_.take(rpc_);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(late.end(rpc_), ended(kMayHaveRun, RIPC_TIMEOUT));
  // A call carries the time that it has left, so the handler's deadline is later by the transit time.
  EXPECT_TRUE(eventually([&] { return ripc_request_time_left(request) == 0; }));
  EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  EXPECT_EQ(late.ends(), 1);
}

TEST_P(RemoteCalls, ThatHaveNoTimeDoNotRun) {
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho, {}, call_options(0)).begun, RIPC_TIMEOUT);
}

TEST_P(RemoteCalls, TellTheHandlerHowMuchTimeIsLeft) {
  Begun one(rpc_, server_.id(), CallServer::kKeep, {}, call_options(kLimit));
  Begun other(rpc_, server_.id(), CallServer::kKeep, {}, call_options(RIPC_FOREVER));
  ASSERT_FALSE(one.has_ended());
  std::thread runs([&] {
    one.end(rpc_);
    other.end(rpc_);
  });
  ripc_request* const first = server_.take();
  ripc_request* const second = server_.take();
  EXPECT_GT(ripc_request_time_left(first), 0u);
  EXPECT_LE(ripc_request_time_left(first), kLimit);
  EXPECT_EQ(ripc_request_time_left(second), RIPC_FOREVER);
  EXPECT_EQ(ripc_request_reply(first, 0, nullptr, 0, nullptr), RIPC_OK);
  EXPECT_EQ(ripc_request_reply(second, 0, nullptr, 0, nullptr), RIPC_OK);
  runs.join();
}

TEST_P(RemoteCalls, HaveFiveSecondsByDefault) {
  Begun begun(rpc_, server_.id(), CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  ASSERT_NE(request, nullptr);
  const std::uint64_t left = ripc_request_time_left(request);
  EXPECT_GT(left, 3 * kSecond);
  EXPECT_LT(left, 6 * kSecond);
  EXPECT_EQ(CallServer::echo_to(request, 1), RIPC_OK);
  EXPECT_EQ(begun.end(rpc_).code, 1u);
}

TEST_P(RemoteCalls, AreCancelledAtOnceAndTheHandlerSeesIt) {
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  Begun cancelled(rpc_, server_.id(), CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  EXPECT_EQ(ripc_rpc_cancel(rpc_.get(), cancelled.name), RIPC_OK);
  EXPECT_EQ(cancelled.outcome, ended(kMayHaveRun, RIPC_CANCELLED));
  EXPECT_EQ(cancelled.ends(), 1);
  EXPECT_TRUE(eventually([&] { return ripc_request_time_left(request) == 0; }));
  EXPECT_EQ(ripc_rpc_cancel(rpc_.get(), cancelled.name), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
}

TEST_P(RemoteCalls, ThatWaitAreCancelledWithoutHavingRun) {
  Begun cancelled(rpc_, server_.id(), CallServer::kEcho);  // no session yet
  EXPECT_EQ(ripc_rpc_cancel(rpc_.get(), cancelled.name), RIPC_OK);
  EXPECT_EQ(cancelled.outcome, ended(kDidNotRun, RIPC_CANCELLED));
}

TEST_P(RemoteCalls, ThatAreMadeForAnotherHaveNoMoreTimeThanThat) {
  constexpr std::uint64_t kOuter = 1000 * kMillisecond;  // long enough for the other call to begin
  Begun outer(rpc_, server_.id(), CallServer::kKeep, {}, call_options(kOuter));
  ripc_request* const request = server_.take(rpc_);
  CallServer inner(make_context());
  inner.start();
  ripc_call_options options = call_options(RIPC_FOREVER);
  options.parent = request;
  Begun nested(rpc_, inner.id(), CallServer::kKeep, {}, options);
  ripc_request* const at_inner = inner.take(rpc_);
  EXPECT_LE(ripc_request_time_left(at_inner), kOuter);
  EXPECT_EQ(outer.end(rpc_).status, RIPC_TIMEOUT);
  EXPECT_EQ(nested.end(rpc_).status, RIPC_TIMEOUT);
  EXPECT_EQ(Begun(rpc_, inner.id(), CallServer::kEcho, {}, options).begun, RIPC_TIMEOUT);
  ripc_request_drop(request, RIPC_CANCELLED);
  ripc_request_drop(at_inner, RIPC_CANCELLED);
}

TEST_P(RemoteCalls, DoNotStartOnceTheirClientHasGivenThemUp) {
  CallServer paused(make_context());
  ripc_rpc_options options = rpc_options();
  options.slots = 32;
  const Service service = make_service(context_);
  const Rpc rpc = make_rpc(service, options);
  Begun first(rpc, paused.id(), CallServer::kEcho);
  EXPECT_TRUE(eventually([&] {
    (void)ripc_rpc_run(paused.rpc().get(), 0, nullptr);
    (void)ripc_rpc_run(rpc.get(), 0, nullptr);
    return first.has_ended();
  }));
  // Together with the messages that cancel them, these are more than one receive takes.
  std::deque<Begun> calls;
  for (int number = 0; number < 30; ++number)
    calls.emplace_back(rpc, paused.id(), CallServer::kEcho, Items{}, call_options(50 * kMillisecond));
  // A path that loses messages has a window, whose size depends on the first call. The other calls are not sent.
  std::uint64_t sent = 0;
  for (Begun& one : calls) {
    const auto end = one.end(rpc);
    EXPECT_EQ(end.status, RIPC_TIMEOUT);
    if (end.outcome == RIPC_CALL_MAY_HAVE_RUN) ++sent;
  }
  EXPECT_NE(sent, 0u);
  EXPECT_TRUE(eventually([&] {
    (void)ripc_rpc_run(paused.rpc().get(), 0, nullptr);
    return statistics_of(paused.rpc()).requests_expired >= sent;
  })) << statistics_of(paused.rpc()).requests_expired
      << " of " << sent;
  EXPECT_EQ(statistics_of(paused.rpc()).requests_run, 1u);
}

TEST_P(RemoteCalls, DoNotStartWhenTheirTimeWentWithEarlierReports) {
  constexpr std::uint64_t kTime = 20 * kMillisecond;
  ASSERT_EQ(ripc_rpc_handle(
                rpc_.get(), 1, 0,
                [](void*, ripc_request* request) {
                  EXPECT_GT(ripc_request_time_left(request), 0u);
                  EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
                },
                nullptr),
            RIPC_OK);
  const Service service = make_service(context_);
  const Rpc caller = make_rpc(service);
  const auto run_both = [&](const Begun& until) {
    while (!until.has_ended()) {
      (void)ripc_rpc_run(rpc_.get(), 0, nullptr);
      (void)ripc_rpc_run(caller.get(), kMillisecond, nullptr);
    }
  };
  const Begun first(caller, id_of(service_), 1);
  run_both(first);
  // Both an answer and a request are there when the endpoint runs. Reporting the answer uses up the request's time.
  Begun answered(rpc_, server_.id(), CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  ASSERT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
  const Begun short_of_time(caller, id_of(service_), 1, {}, call_options(kTime));
  answered.then = [over = now() + 2 * kTime] {
    while (now() < over) std::this_thread::yield();
  };
  (void)answered.end(rpc_);
  run_both(short_of_time);
}

}  // namespace
}  // namespace conformance
