// SPDX-License-Identifier: Apache-2.0
// Two endpoints of the C++ interface, each in a context of its own. The test's thread runs them alternately.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness.hpp"
#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"

namespace conformance {

constexpr std::uint32_t kEcho = 1;  // answers with its arguments, and this code
constexpr std::uint32_t kHold = 2;  // keeps the request

class CppCallsTest : public TransportTest {
 protected:
  void SetUp() override {
    client_context_ = ripc::Context(make_context().release());
    server_context_ = ripc::Context(make_context().release());
    client_service_ = need(client_context_.register_service());
    server_service_ = need(server_context_.register_service());
    client_ = need(ripc::Rpc::create(client_service_));
    server_ = need(ripc::Rpc::create(server_service_, {.workers = 1}));
    server_id_ = server_service_.id();
    const auto echo = [](ripc::Request request) {
      EXPECT_TRUE(request.reply(request.item(0).bytes(), kEcho).ok()) << ripc_last_error();
      EXPECT_TRUE(request.empty());
    };
    ASSERT_TRUE(server_.on(kEcho, echo).ok());
    ASSERT_TRUE(server_.on(kHold, [this](ripc::Request request) { held_.push_back(std::move(request)); }).ok());
  }

  template <typename Value>
  static Value need(ripc::Result<Value> result) {
    if (!result.ok()) throw std::runtime_error(std::string(result.error().text()));
    return *std::move(result);
  }
  // Runs both endpoints until the condition holds.
  template <typename Condition>
  testing::AssertionResult until(const Condition& condition) {
    const bool held = eventually([&] {
      (void)server_.run(ripc::kNoWait);
      (void)client_.run(ripc::kNoWait);
      return condition();
    });
    return held ? testing::AssertionSuccess() : testing::AssertionFailure() << "it never holds";
  }
  bool holds_requests(std::size_t count) {
    return bool{until([&] { return held_.size() == count; })};
  }
  static std::string text_of(const ripc::CallResult& result, std::size_t index = 0) {
    return std::string(result.item(index).text());
  }

  ripc::Context client_context_, server_context_;
  ripc::Service client_service_, server_service_;
  std::vector<ripc::Request> held_;
  ripc::Rpc client_, server_;
  ripc::ServiceId server_id_ = 0;
};

}  // namespace conformance
