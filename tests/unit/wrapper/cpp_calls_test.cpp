// SPDX-License-Identifier: Apache-2.0
// ripc/rpc.hpp: what callers are told, and mistakes that must be harmless. Calls themselves are tested in
// tests/conformance.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ripc/codec.hpp"
#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace {

using namespace std::chrono_literals;
using ripc::bytes_of;
using ripc::CallResult;
using ripc::Context;
using ripc::Request;
using ripc::Rpc;
using ripc::Service;

constexpr std::uint32_t kEcho = 1;
constexpr std::uint32_t kHold = 2;

// A client, and a server whose requests wait until the test runs it.
class CppCallTexts : public testing::Test {
 protected:
  void SetUp() override {
    ripc::ContextOptions options;
    options.runtime_directory = folder_.path();
    auto context = Context::create(options);
    ASSERT_TRUE(context.ok()) << context.error().text();
    context_ = *std::move(context);
    client_service_ = need(context_.register_service());
    server_service_ = need(context_.register_service());
    client_ = need(Rpc::create(client_service_, {.queue = 1}));
    server_ = need(Rpc::create(server_service_));
    ASSERT_TRUE(server_.on(kEcho, [](Request request) { (void)request.reply(request.item(0).bytes()); }).ok());
    ASSERT_TRUE(server_.on(kHold, [this](Request request) { held_.push_back(std::move(request)); }).ok());
  }
  template <typename Value>
  static Value need(ripc::Result<Value> result) {
    if (!result.ok()) throw std::runtime_error(std::string(result.error().text()));
    return *std::move(result);
  }
  // Runs both ends until the condition holds, for about 20 s at most.
  template <typename Condition>
  bool until(const Condition& condition) {
    for (int round = 0; round < 20'000 && !condition(); ++round) {
      (void)server_.run(ripc::kNoWait);
      (void)client_.run(1ms);
    }
    return condition();
  }
  // Makes a call whose request the server holds, lets `end` end it, and returns how it ended.
  template <typename End>
  CallResult end_of_held(const End& end) {
    std::optional<CallResult> result;
    const auto call = client_.call_then(server_service_.id(), kHold, bytes_of("x"),
                                        [&](CallResult ended) { result.emplace(std::move(ended)); });
    EXPECT_TRUE(call.ok()) << call.error().text();
    EXPECT_TRUE(until([&] { return !held_.empty(); }));
    end(call.value());
    EXPECT_TRUE(until([&] { return result.has_value(); }));
    held_.clear();
    return result ? *std::move(result) : CallResult();
  }

  support::TemporaryDirectory folder_;
  Context context_;
  Service client_service_, server_service_;
  std::vector<Request> held_;
  Rpc client_, server_;
};

constexpr std::string_view kSafe = "it is safe to repeat it";
constexpr std::string_view kRisky = "repeat it only if running twice does no harm";

bool says(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

TEST(CallText, SaysOfEveryStatusWhetherToRepeatTheCall) {
  for (int value = 0; value <= RIPC_SYSTEM + 1; ++value) {
    const auto status = static_cast<ripc_status>(value);
    const std::string_view no = ripc_call_text(RIPC_CALL_DID_NOT_RUN, status);
    const std::string_view perhaps = ripc_call_text(RIPC_CALL_MAY_HAVE_RUN, status);
    EXPECT_TRUE(says(no, kSafe) && !says(no, kRisky)) << no;
    EXPECT_TRUE(says(perhaps, kRisky) && !says(perhaps, kSafe)) << perhaps;
    EXPECT_FALSE(says(perhaps, "send again") || says(perhaps, "try again") || says(perhaps, "start it again"));
    EXPECT_STREQ(ripc_call_text(RIPC_CALL_ANSWERED, status), ripc_status_text(status));
  }
}

TEST_F(CppCallTexts, OfCallsThatMayHaveRunAdviseAgainstRepeatingThem) {
  const CallResult cancelled = end_of_held([&](std::uint64_t call) { EXPECT_TRUE(client_.cancel(call).ok()); });
  EXPECT_EQ(cancelled.outcome(), RIPC_CALL_MAY_HAVE_RUN);
  EXPECT_TRUE(says(cancelled.error().text(), kRisky)) << cancelled.error().text();
  EXPECT_EQ(cancelled.error().text(), ripc_call_text(RIPC_CALL_MAY_HAVE_RUN, RIPC_CANCELLED));
  const CallResult dead = end_of_held([&](std::uint64_t) { held_.front().drop(RIPC_PEER_DEAD); });
  EXPECT_EQ(dead.outcome(), RIPC_CALL_MAY_HAVE_RUN);
  EXPECT_TRUE(says(dead.error().text(), kRisky)) << dead.error().text();
}

TEST_F(CppCallTexts, OfCallsThatDidNotRunSayThatRepeatingThemIsSafe) {
  std::optional<CallResult> unknown;
  ASSERT_TRUE(
      client_
          .call_then(server_service_.id(), 77, bytes_of("x"), [&](CallResult end) { unknown.emplace(std::move(end)); })
          .ok());
  ASSERT_TRUE(until([&] { return unknown.has_value(); }));
  EXPECT_TRUE(says(unknown->error().text(), kSafe)) << unknown->error().text();
  EXPECT_TRUE(says(unknown->error().text(), "no such method")) << unknown->error().text();
  const Service deaf = need(context_.register_service());
  const CallResult unheard = client_.call_wait(deaf.id(), kEcho, bytes_of("x"), {.timeout = 50ms});
  EXPECT_EQ(unheard.outcome(), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(unheard.status(), RIPC_TIMEOUT);
  EXPECT_TRUE(says(unheard.error().text(), "Check that the service has an endpoint")) << unheard.error().text();
}

TEST_F(CppCallTexts, OfABusyEndpointNameTheEndpointAndNotThePeersRoom) {
  std::optional<ripc::Error> second;
  ASSERT_TRUE(server_.on(20, [&](Request) { second.emplace(server_.run(ripc::kNoWait).error()); }).ok());
  ASSERT_TRUE(client_.call_then(server_service_.id(), 20, bytes_of("x"), [](const CallResult&) {}).ok());
  ASSERT_TRUE(until([&] { return second.has_value(); }));
  EXPECT_EQ(*second, RIPC_AGAIN);
  EXPECT_TRUE(says(second->text(), "Another thread runs this endpoint")) << second->text();
}

TEST_F(CppCallTexts, OfAFullQueueSayToRunTheEndpoint) {
  const Service deaf = need(context_.register_service());
  ripc::Error full;
  for (int count = 0; count < 3 && full.ok(); ++count)
    full = client_.call_then(deaf.id(), kEcho, bytes_of("x"), [](const CallResult&) {}).error();
  EXPECT_EQ(full, RIPC_AGAIN);
  EXPECT_TRUE(says(full.text(), "run it, then call again")) << full.text();
  std::optional<CallResult> awaited;
  const auto body = [&]() -> ripc::Task<> { awaited.emplace(co_await client_.call(deaf.id(), kEcho)); };
  ripc::Task<> task = body();
  task.start();
  ASSERT_TRUE(awaited.has_value());
  EXPECT_EQ(awaited->error().text(), full.text());
}

// ---- Mistakes ------------------------------------------------------------------------------------------------

class CppCallMistakes : public CppCallTexts {};

TEST_F(CppCallMistakes, EmptyFunctionsAreRefused) {
  EXPECT_EQ(server_.on(10, std::function<void(Request)>()), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(server_.on(10, static_cast<void (*)(Request)>(nullptr)), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(client_.call_then(server_service_.id(), kEcho, bytes_of("x"), nullptr).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc::on_typed<std::string>(server_, 10, std::function<std::string(const std::string&, const Request&)>()),
            RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(server_.on(10, [](Request) {}).ok()) << "none of them took the method";
  EXPECT_EQ(ripc_rpc_handle(server_.handle(), 11, 0, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_list_methods(server_.handle(), nullptr, nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_F(CppCallMistakes, StartingATaskTwiceDoesNothing) {
  int began = 0;
  const auto body = [&]() -> ripc::Task<> {
    ++began;
    (void)co_await client_.call(server_service_.id(), kEcho, bytes_of("x"));
    ++began;
  };
  ripc::Task<> task = body();
  task.start();
  task.start();
  EXPECT_EQ(began, 1);
  ASSERT_TRUE(until([&] { return task.done(); }));
  EXPECT_EQ(began, 2);
  task.start();
  EXPECT_EQ(began, 2);
  ripc::Task<>().start();
}

TEST_F(CppCallMistakes, HandlersMayComeWhileAThreadRunsTheEndpoint) {
  constexpr std::uint32_t kMethods = 50'000;
  const auto echo = [](void*, ripc_request* request) { (void)ripc_request_reply(request, 0, nullptr, 0, nullptr); };
  ASSERT_EQ(ripc_rpc_handle(server_.handle(), 100, 0, echo, nullptr), RIPC_OK);
  std::atomic<bool> ends = false;
  std::thread runs([&] {
    while (!ends) (void)server_.run(1ms);
  });
  std::atomic<std::uint32_t> added = 100;
  std::thread adds([&] {
    while (added < kMethods && ripc_rpc_handle(server_.handle(), added + 1, 0, echo, nullptr) == RIPC_OK) ++added;
  });
  // Calls the newest method and an old one alternately, so that each call has to look its method up.
  while (added < kMethods && !HasFailure()) {
    for (const std::uint32_t method : {added.load(), 100U}) {
      const CallResult result = client_.call_wait(server_service_.id(), method);
      EXPECT_TRUE(result.answered()) << method << ": " << result.error().text();
    }
  }
  adds.join();
  ends = true;
  runs.join();
}

TEST_F(CppCallMistakes, ACallForARequestThatHasEndedHasNoTime) {
  const Request ended;
  EXPECT_EQ(client_.call_wait(server_service_.id(), kEcho, bytes_of("x"), {.parent = &ended}).status(), RIPC_TIMEOUT);
  EXPECT_EQ(client_.call_then(server_service_.id(), kEcho, bytes_of("x"), [](const CallResult&) {}, {.parent = &ended})
                .code(),
            RIPC_TIMEOUT);
}

TEST_F(CppCallMistakes, ASignalEndsNoCallThatIsWaitedFor) {
  static std::atomic<int> handled = 0;
  handled = 0;
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) { ++handled; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  std::atomic<bool> returned = false;
  CallResult result;
  std::thread caller([&] {
    result = client_.call_wait(server_service_.id(), kEcho, bytes_of("x"), {.timeout = 20s});
    returned = true;
  });
  EXPECT_TRUE(support::eventually([&] {
    if (!returned) pthread_kill(caller.native_handle(), SIGUSR1);
    return returned || handled >= 20;
  }));
  EXPECT_FALSE(returned) << "no one has run the server";
  while (!returned) (void)server_.run(1ms);
  caller.join();
  sigaction(SIGUSR1, &previous, nullptr);
  EXPECT_TRUE(result.answered()) << result.error().text();
}

// ---- What is left for others ---------------------------------------------------------------------------------

TEST_F(CppCallTexts, RefusedRequestsDidNotRunAndCountAsRefused) {
  const CallResult refused = end_of_held([&](std::uint64_t) { held_.front().refuse(RIPC_LIMIT); });
  EXPECT_EQ(refused.outcome(), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(refused.status(), RIPC_LIMIT);
  const auto statistics = need(server_.statistics());
  EXPECT_EQ(statistics.requests_run, 0u);
  EXPECT_EQ(statistics.requests_refused, 1u);
  EXPECT_EQ(statistics.requests_expired, 0u);
}

TEST_F(CppCallTexts, AnInterruptDuringACallIsLeftToTheNextRun) {
  ASSERT_TRUE(client_service_.interrupt().ok());
  // Nobody runs the server.
  EXPECT_EQ(client_.call_wait(server_service_.id(), kEcho, bytes_of("x"), {.timeout = 50ms}).status(), RIPC_TIMEOUT);
  ripc::Result<std::size_t> next = client_.run(ripc::kNoWait);
  while (next.ok()) next = client_.run(ripc::kNoWait);
  EXPECT_EQ(next.code(), RIPC_INTERRUPTED);
  EXPECT_EQ(client_.run(ripc::kNoWait).code(), RIPC_EMPTY) << "only once";
}

}  // namespace
