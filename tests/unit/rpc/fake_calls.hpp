// SPDX-License-Identifier: Apache-2.0
// Both ends of calls on the fake network.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "fake_network.hpp"

namespace ripc::internal::rpc {

inline constexpr ripc_service_id kClient = 1;
inline constexpr ripc_service_id kServer = 2;  // of the first server
inline constexpr ripc_service_id kGroup = ripc_service_id{1} << 62 | 5;
inline constexpr Nanoseconds kMillisecond = 1'000'000;

// Calls with ample time, to a server that answers each at once.
struct Calls {
  Calls(FakeNetwork& on, FakeNode& from, Server& server) : network(on), client(from) {
    const ripc_rpc_handler answer = [](void* user, ripc_request* request) {
      ++static_cast<Calls*>(user)->runs;
      EXPECT_TRUE(request->server->reply(*request, 3, {}, nullptr).ok());
    };
    EXPECT_TRUE(server.handle(1, {answer, this, false}).ok());
  }
  ~Calls() { (void)client.client->end_all(RIPC_CLOSED); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  void begin() {
    CallRequest request;
    request.to = to;
    request.method = method;
    request.returns = returns;
    request.is_rough = true;
    request.now = client.rough_now();
    request.deadline = request.now + timeout;
    request.user = this;
    request.done = [](void* user, const ripc_call_result* result) {
      static_cast<Calls*>(user)->ended.push_back(*result);
      ripc_message_release(result->message);
    };
    EXPECT_TRUE(client.client->begin(request, nullptr).ok());
  }

  FakeNetwork& network;
  FakeNode& client;
  ripc_service_id to = kServer;
  std::uint32_t method = 1;  // the method that is answered at once
  Nanoseconds timeout = 60'000 * kMillisecond;
  std::span<const ripc_return_buffer> returns = {};
  int runs = 0;
  std::vector<ripc_call_result> ended;
};

}  // namespace ripc::internal::rpc
