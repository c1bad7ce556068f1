// SPDX-License-Identifier: Apache-2.0
// ripc/rpc.hpp: what callers are told, and mistakes that must be harmless. Calls themselves are tested in
// tests/conformance.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"
#include "support/temporary_directory.hpp"

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
  // Runs both until it holds, for 20 s.
  template <typename Condition>
  bool until(const Condition& condition) {
    for (int round = 0; round < 20'000 && !condition(); ++round) {
      (void)server_.run(ripc::kNoWait);
      (void)client_.run(1ms);
    }
    return condition();
  }
  // How a call ended of which the server holds the request, and that `end` ends.
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
  EXPECT_TRUE(says(unheard.error().text(), "Check that the service has one")) << unheard.error().text();
}

}  // namespace
