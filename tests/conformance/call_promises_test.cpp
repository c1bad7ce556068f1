// SPDX-License-Identifier: Apache-2.0
// What ripc/rpc.h promises about numbers: which methods are visited, what is measured for a request, how much time a
// call has.
#include <algorithm>

#include "call_ends.hpp"

namespace conformance {
namespace {

class CallPromises : public CallTest {
 protected:
  using Methods = std::vector<ripc_rpc_method_statistics>;
  // In the order in which they are visited.
  static Methods methods_of(const Rpc& rpc) {
    struct Visit {
      std::thread::id thread = std::this_thread::get_id();
      Methods methods;
    } visit;
    const ripc_rpc_method_visitor add = [](void* user, const ripc_rpc_method_statistics* method) {
      auto& self = *static_cast<Visit*>(user);
      EXPECT_EQ(std::this_thread::get_id(), self.thread);
      self.methods.push_back(*method);
    };
    EXPECT_EQ(ripc_rpc_list_methods(rpc.get(), add, &visit), RIPC_OK) << ripc_last_error();
    return visit.methods;
  }
  static std::vector<std::uint32_t> numbers_of(const Rpc& rpc) {
    std::vector<std::uint32_t> numbers;
    for (const ripc_rpc_method_statistics& each : methods_of(rpc)) numbers.push_back(each.method);
    return numbers;
  }
};
CONFORMANCE_SUITE(CallPromises);

TEST_P(CallPromises, AllMethodsThatHaveAHandlerAreVisitedInAscendingOrder) {
  const ripc_rpc_handler none = [](void*, ripc_request*) {};
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t method = RIPC_RPC_MAX_METHODS + 44; method > 0; --method) {
    ASSERT_EQ(ripc_rpc_handle(rpc_.get(), method * 1000, 0, none, nullptr), RIPC_OK);
    wanted.push_back(method * 1000);
  }
  // These methods are called, but have no handler here.
  CallServer server(make_context());
  server.start();
  for (const std::uint32_t method : {2500U, 77U}) {
    EXPECT_EQ(call(rpc_, server.id(), method).status, RIPC_UNSUPPORTED);
    wanted.push_back(method);
  }
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(numbers_of(rpc_), wanted);
}

TEST_P(CallPromises, TheMethodOfACallThatDidNotBeginIsNotVisited) {
  ripc_rpc_options options = rpc_options();
  options.queue = 1;
  const Service service = make_service(context_);
  const Rpc rpc = make_rpc(service, options);
  const Begun waits(rpc, 4711, 5);
  EXPECT_EQ(Begun(rpc, 4711, 6).begun, RIPC_AGAIN);
  EXPECT_EQ(numbers_of(rpc), std::vector<std::uint32_t>{5});
  EXPECT_EQ(statistics_of(rpc).calls, 1u);
  EXPECT_EQ(ripc_rpc_cancel(rpc.get(), waits.name), RIPC_OK);
}

TEST_P(CallPromises, EachRequestOfAWorkerIsMeasuredWithItsWait) {
  constexpr std::uint64_t kWait = 20 * kMillisecond;
  constexpr int kLater = 100;  // more than are measured where the clock costs too much
  ripc_rpc_options options = rpc_options();
  options.workers = 1;
  CallServer server(make_context(), options);
  server.start();
  const Begun first(rpc_, server.id(), CallServer::kWork);
  const Begun second(rpc_, server.id(), CallServer::kWork);
  // The only worker runs one of them; the other waits for it.
  ASSERT_TRUE(eventually([&] {
    (void)ripc_rpc_run(rpc_.get(), 0, nullptr);
    return statistics_of(server.rpc()).requests_run == 2;
  }));
  for (const std::uint64_t until = now() + kWait; now() < until;) std::this_thread::yield();
  server.release();
  EXPECT_EQ(first.end(rpc_).outcome, RIPC_CALL_ANSWERED);
  EXPECT_EQ(second.end(rpc_).outcome, RIPC_CALL_ANSWERED);
  const auto worked = [&] {
    const Methods methods = methods_of(server.rpc());
    const auto found =
        std::find_if(methods.begin(), methods.end(), [](const auto& each) { return each.method == CallServer::kWork; });
    return found == methods.end() ? ripc_rpc_method_statistics{} : *found;
  };
  const ripc_latency waited = worked().request_time;
  EXPECT_EQ(waited.count, 2u);
  EXPECT_GE(waited.minimum, kWait) << "that of the second too, whose handler takes no time";
  for (int count = 0; count < kLater; ++count)
    ASSERT_EQ(call(rpc_, server.id(), CallServer::kWork).outcome, RIPC_CALL_ANSWERED);
  EXPECT_EQ(worked().request_time.count, 2u + kLater);
}

TEST_P(CallPromises, ACallHasFiveSecondsIfNothingElseIsSaid) {
  CallServer server(make_context());
  server.start();
  const Begun waits(rpc_, server.id(), CallServer::kKeep);
  ripc_request* const request = server.take(rpc_);
  ASSERT_NE(request, nullptr);
  const std::uint64_t left = ripc_request_time_left(request);
  EXPECT_LE(left, 5 * kSecond);
  EXPECT_GT(left, 2 * kSecond) << "the rest is for the way there, on a busy machine";
  EXPECT_EQ(ripc_request_reply(request, 3, nullptr, 0, nullptr), RIPC_OK);
  EXPECT_EQ(waits.end(rpc_).code, 3u);
}

}  // namespace
}  // namespace conformance
