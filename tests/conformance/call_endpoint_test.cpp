// SPDX-License-Identifier: Apache-2.0
// Calls and endpoints: the threads that run them, how they end, and servers that come back.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "remote_calls.hpp"

namespace conformance {
namespace {

TEST_P(RemoteCalls, AreMadeByManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (int round = 0; round < 200; ++round) {
        const std::string text = std::to_string(thread) + " " + std::to_string(round);
        const Outcome outcome = call(rpc_, server_.id(), CallServer::kEcho, {item(text)});
        ASSERT_EQ(outcome.outcome, kAnswered) << ripc_status_name(outcome.status);
        ASSERT_EQ(outcome.items, std::vector<std::string>{text});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statistics_of(rpc_).answered, 800u);
  EXPECT_EQ(statistics_of(server_.rpc()).requests_run, 800u);
}

TEST_P(RemoteCalls, ThatAWorkerMakesLeaveTheEndpointToTheThreadThatRunsIt) {
  ripc_rpc_options options = rpc_options();
  options.workers = 1;
  const Service service = make_service(context_);
  const Rpc rpc = make_rpc(service, options);
  struct Outer {
    const Rpc& rpc;
    ripc_service_id inner;
    std::thread::id runs_in;
    std::atomic<int> elsewhere{0};
  } outer{rpc, server_.id(), {}};
  const ripc_rpc_handler nest = [](void* user, ripc_request* request) {
    auto& self = *static_cast<Outer*>(user);
    const Outcome inner = call(self.rpc, self.inner, CallServer::kKeep);
    EXPECT_EQ(ripc_request_reply(request, inner.code, nullptr, 0, nullptr), RIPC_OK);
  };
  const ripc_rpc_handler here = [](void* user, ripc_request* request) {
    auto& self = *static_cast<Outer*>(user);
    self.elsewhere += std::this_thread::get_id() != self.runs_in;
    EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
  };
  EXPECT_EQ(ripc_rpc_handle(rpc.get(), 1, RIPC_RPC_WORKER, nest, &outer), RIPC_OK);
  EXPECT_EQ(ripc_rpc_handle(rpc.get(), 2, 0, here, &outer), RIPC_OK);
  std::atomic<bool> is_over{false};
  std::thread runs([&] {
    outer.runs_in = std::this_thread::get_id();
    while (!is_over) {
      const ripc_status status = ripc_rpc_run(rpc.get(), kLimit, nullptr);
      EXPECT_TRUE(status == RIPC_OK || status == RIPC_INTERRUPTED) << ripc_status_name(status);
    }
  });
  Begun nested(rpc_, ripc_service_get_id(service.get()), 1);
  ripc_request* const request = server_.take(rpc_);
  ASSERT_NE(request, nullptr);
  for (int number = 0; number < 100; ++number)
    EXPECT_EQ(call(rpc_, ripc_service_get_id(service.get()), 2).outcome, kAnswered);
  EXPECT_EQ(CallServer::echo_to(request, 5), RIPC_OK);
  EXPECT_EQ(nested.end(rpc_).code, 5u);
  is_over = true;
  ripc_interrupt(service.get());
  runs.join();
  EXPECT_EQ(outer.elsewhere, 0);
}

TEST_P(RemoteCalls, ThatAreWaitedForMakeWayForTheThreadThatRunsTheEndpoint) {
  std::thread waits([&] { EXPECT_EQ(call(rpc_, server_.id(), CallServer::kKeep).code, 6u); });
  ripc_request* const request = server_.take();  // so the other thread runs the endpoint
  ASSERT_NE(request, nullptr);
  for (int number = 0; number < 20; ++number) {
    Begun echo(rpc_, server_.id(), CallServer::kEcho);
    while (!echo.has_ended()) {
      const ripc_status status = ripc_rpc_run(rpc_.get(), 10 * kMillisecond, nullptr);
      ASSERT_TRUE(status == RIPC_OK || status == RIPC_TIMEOUT) << ripc_status_name(status);
    }
  }
  // The same holds for a thread that only polls.
  EXPECT_TRUE(eventually([&] {
    Begun echo(rpc_, server_.id(), CallServer::kEcho);
    std::atomic<std::thread::id> ended_in{std::thread::id{}};
    echo.then = [&] { ended_in = std::this_thread::get_id(); };
    while (ended_in.load() == std::thread::id{}) {
      const ripc_status status = ripc_rpc_run(rpc_.get(), 0, nullptr);
      EXPECT_TRUE(status == RIPC_OK || status == RIPC_EMPTY) << ripc_status_name(status);
    }
    return ended_in == std::this_thread::get_id();
  }));
  EXPECT_EQ(CallServer::echo_to(request, 6), RIPC_OK);
  waits.join();
}

TEST_P(RemoteCalls, EndWithTheEndpoint) {
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  Begun sent(rpc_, server_.id(), CallServer::kKeep);
  Begun waits(rpc_, 4711, CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  rpc_.reset();
  EXPECT_EQ(sent.outcome, ended(kMayHaveRun, RIPC_CLOSED));
  EXPECT_EQ(waits.outcome, ended(kDidNotRun, RIPC_CLOSED));
  ripc_request_drop(request, RIPC_CANCELLED);
}

TEST_P(RemoteCalls, ThatAWorkerWaitsForEndWithTheEndpoint) {
  ripc_rpc_options options = rpc_options();
  options.workers = 1;
  const Service service = make_service(context_);
  Rpc rpc = make_rpc(service, options);
  struct Outer {
    const Rpc& rpc;
    ripc_service_id inner;
    Outcome outcome;
  } outer{rpc, server_.id(), {}};
  const ripc_rpc_handler nest = [](void* user, ripc_request* request) {
    auto& self = *static_cast<Outer*>(user);
    ripc_call_options without_end = call_options();
    without_end.timeout = RIPC_FOREVER;
    self.outcome = call(self.rpc, self.inner, CallServer::kKeep, {}, without_end);
    ripc_request_drop(request, RIPC_CANCELLED);
  };
  ASSERT_EQ(ripc_rpc_handle(rpc.get(), 1, RIPC_RPC_WORKER, nest, &outer), RIPC_OK);
  Begun nested(rpc_, id_of(service), 1);
  EXPECT_TRUE(eventually([&] {
    (void)ripc_rpc_run(rpc.get(), 0, nullptr);
    (void)ripc_rpc_run(rpc_.get(), 0, nullptr);
    return server_.kept() == 1;
  }));
  rpc.reset();
  EXPECT_EQ(outer.outcome, ended(kMayHaveRun, RIPC_CLOSED));
  ripc_request_drop(server_.take(), RIPC_CANCELLED);
  EXPECT_EQ(nested.end(rpc_).outcome, kMayHaveRun);
}

TEST_P(RemoteCalls, LeaveRequestsThatOutliveTheirEndpoint) {
  Begun sent(rpc_, server_.id(), CallServer::kKeep, {item(std::string("kept"))});
  ripc_request* const request = server_.take(rpc_);
  server_.stop();
  server_.rpc().reset();
  ripc_item_view view;
  EXPECT_EQ(ripc_request_get_item(request, 0, &view), RIPC_OK);
  EXPECT_EQ(text_of(view), "kept");
  EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_CLOSED);
  EXPECT_EQ(ripc_request_time_left(request), 0u);
  ripc_request_drop(request, RIPC_CANCELLED);
  EXPECT_EQ(sent.end(rpc_), ended(kMayHaveRun, RIPC_CLOSED)) << "long before its deadline";
}

TEST_P(RemoteCalls, WhoseRequestIsUnreadWhenTheEndpointEndsDidNotRunAndEndAtOnce) {
  for (const std::size_t size : {5U, 1U << 20}) {
    SCOPED_TRACE(size);
    CallServer server(make_context());
    server.start();
    EXPECT_EQ(call(rpc_, server.id(), CallServer::kEcho).outcome, kAnswered);
    server.stop();
    pollfd arrived{-1, POLLIN, 0};
    ASSERT_EQ(ripc_service_get_fd(server.service().get(), &arrived.fd), RIPC_OK);
    while (ripc_rpc_run(server.rpc().get(), 0, nullptr) != RIPC_EMPTY) {
    }
    Begun unread(rpc_, server.id(), CallServer::kEcho, {item(pattern(size, 1))}, call_options(RIPC_FOREVER));
    ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
    server.rpc().reset();
    // The service still exists.
    const Outcome& outcome = unread.end(rpc_);
    EXPECT_EQ(outcome.outcome, kDidNotRun);
    EXPECT_TRUE(outcome.status == RIPC_CLOSED || (size > 5 && outcome.status == RIPC_REFUSED))
        << ripc_status_name(outcome.status);
  }
}

TEST_P(RemoteCalls, WhoseAnswersWaitForRoomWhenTheEndpointEndsAreAnswered) {
  ripc_rpc_options options = rpc_options();
  options.slots = RIPC_RPC_MAX_SLOTS;
  const Service service = make_service(context_, [](ripc_service_options& small) { small.queue_messages = 16; });
  const Rpc rpc = make_rpc(service, options);
  std::deque<Begun> calls;
  std::vector<ripc_request*> requests;
  for (int number = 0; number < 24; ++number) {
    calls.emplace_back(rpc, server_.id(), CallServer::kKeep);
    requests.push_back(server_.take(rpc));
    ASSERT_NE(requests.back(), nullptr);
  }
  server_.stop();
  for (ripc_request* const request : requests) EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
  // Makes room that the server's endpoint does not use before it ends.
  while (ripc_rpc_run(rpc.get(), 0, nullptr) == RIPC_OK) {
  }
  server_.rpc().reset();
  for (const Begun& one : calls) EXPECT_EQ(one.end(rpc).outcome, kAnswered) << ripc_status_name(one.outcome.status);
}

TEST_P(RemoteCalls, AreNotTakenByASecondEndpointThatIsRefused) {
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  server_.stop();
  Begun unread(rpc_, server_.id(), CallServer::kEcho);
  ripc_rpc* none = nullptr;
  EXPECT_EQ(ripc_rpc_create(server_.service().get(), nullptr, &none), RIPC_ID_IN_USE);
  server_.start();
  EXPECT_EQ(unread.end(rpc_).outcome, kAnswered);
}

TEST_P(RemoteCalls, FindAServerThatCameAgain) {
  constexpr ripc_service_id kId = 815;
  for (int round = 0; round < 3; ++round) {
    CallServer server(make_context(), rpc_options(), kId);
    server.start();
    EXPECT_EQ(call(rpc_, kId, CallServer::kEcho).outcome, kAnswered) << round;
  }
}

TEST_P(RemoteCalls, WaitForAServerThatComesInTime) {
  constexpr ripc_service_id kId = 816;
  Begun early(rpc_, kId, CallServer::kEcho);
  CallServer server(make_context(), rpc_options(), kId);
  server.start();
  EXPECT_EQ(early.end(rpc_).outcome, kAnswered);
}

TEST_P(RemoteCalls, ThatAreWaitedForUseLittleCpuWhileNoMoreMessagesCanBeReceived) {
  const Service service = make_service(context_, [](ripc_service_options& options) { options.max_messages = 1; });
  const Rpc rpc = make_rpc(service);
  ripc_call_result held = initialized(ripc_call_result_init);
  const ripc_call_options default_time = call_options();
  ASSERT_EQ(ripc_rpc_call_wait(rpc.get(), server_.id(), CallServer::kEcho, nullptr, 0, &default_time, &held), RIPC_OK);
  // A guest counts time that a busy machine takes away from it as used, so the least time decides.
  constexpr std::uint64_t kTime = kSecond / 4;
  std::uint64_t used = UINT64_MAX;
  for (int round = 0; round < 5 && used >= kTime / 4; ++round) {
    const std::uint64_t before = thread_cpu_time();
    EXPECT_EQ(call(rpc, server_.id(), CallServer::kKeep, {}, call_options(kTime)), ended(kMayHaveRun, RIPC_TIMEOUT));
    used = std::min(used, thread_cpu_time() - before);
    ripc_request_drop(server_.take(), RIPC_CANCELLED);
  }
  EXPECT_LT(used, kTime / 4);
  ripc_message_release(held.message);
}

TEST_P(RemoteCalls, ThatWouldWaitForThemselvesAreRefused) {
  ripc_status refused = RIPC_PENDING;
  Begun outer(rpc_, server_.id(), CallServer::kEcho);
  outer.then = [&] { refused = call(rpc_, server_.id(), CallServer::kEcho).begun; };
  outer.end(rpc_);
  EXPECT_EQ(refused, RIPC_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace conformance
