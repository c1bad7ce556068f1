// SPDX-License-Identifier: Apache-2.0
// Coroutines that make and answer calls: how they resume, how they end early, and what they cost.
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "allocation_counter.hpp"
#include "cpp_calls.hpp"

namespace conformance::coroutines {
namespace {

using ripc::bytes_of;
using ripc::CallResult;
using ripc::Request;
using ripc::Rpc;
using ripc::ServiceId;
using ripc::Task;

class Coroutines : public CppCallsTest {
 protected:
  Task<std::string> ask(std::string text) {
    const CallResult result = co_await client_.call(server_id_, kEcho, bytes_of(text));
    EXPECT_TRUE(result.answered()) << result.error().text();
    co_return text_of(result);
  }
};
CONFORMANCE_SUITE(Coroutines);

// Tells when a coroutine's frame is gone.
struct Local {
  explicit Local(bool& gone) : gone_(gone) {}
  ~Local() { gone_ = true; }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  bool& gone_;
};

TEST_P(Coroutines, AwaitOneAnotherAndTheirCalls) {
  const auto chain = [this]() -> Task<std::string> {
    std::string all = co_await ask("a");
    all += co_await ask("b");
    for (int round = 0; round < 100; ++round) all += co_await ask("c");
    co_return all;
  };
  Task<std::string> task = chain();
  EXPECT_FALSE(task.done());
  task.start();
  ASSERT_TRUE(until([&] { return task.done(); }));
  EXPECT_EQ(task.result(), "ab" + std::string(100, 'c'));
}

TEST_P(Coroutines, BeginWhenStartedOrNever) {
  bool began = false;
  const auto body = [&]() -> Task<> {
    began = true;
    co_return;
  };
  { const Task<> never = body(); }
  EXPECT_FALSE(began);
  Task<> task = body();
  task.start();
  EXPECT_TRUE(began);
  EXPECT_TRUE(task.done());
  EXPECT_TRUE(Task<>().done());
}

TEST_P(Coroutines, StartedTasksAreUnderWayTogether) {
  const auto both = [this]() -> Task<std::string> {
    Task<std::string> first = ask("x");
    Task<std::string> second = ask("y");
    first.start();
    second.start();
    std::string all = co_await second;
    all += co_await first;
    co_return all;
  };
  Task<std::string> task = both();
  task.start();
  ASSERT_TRUE(until([&] { return task.done(); }));
  EXPECT_EQ(task.result(), "yx");
}

TEST_P(Coroutines, CallsAreUnderWayBeforeTheFirstIsAwaited) {
  const auto both = [this]() -> Task<std::string> {
    auto first = client_.call(server_id_, kHold, bytes_of("1"));
    auto second = client_.call(server_id_, kHold, std::array{ripc::item(bytes_of("2")), ripc::item(bytes_of("3"))});
    std::string all = text_of(co_await first);
    all += text_of(co_await second);
    co_return all;
  };
  Task<std::string> task = both();
  task.start();
  ASSERT_TRUE(holds_requests(2));
  ASSERT_EQ(held_[1].item_count(), 2u);
  EXPECT_TRUE(held_[1].reply(held_[1].item(1).bytes()).ok());
  EXPECT_TRUE(held_[0].reply(held_[0].item(0).bytes()).ok());
  ASSERT_TRUE(until([&] { return task.done(); }));
  EXPECT_EQ(task.result(), "13");
}

TEST_P(Coroutines, CallThatCannotBeginDidNotRun) {
  std::optional<CallResult> end;
  const auto body = [&]() -> Task<> { end.emplace(co_await client_.call(0, kEcho, bytes_of("x"))); };
  Task<> task = body();
  task.start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(end->outcome(), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(end->status(), RIPC_INVALID_ARGUMENT);
}

TEST_P(Coroutines, DestroyedOneCancelsItsCallAndDoesNotGoOn) {
  bool gone = false;
  bool went_on = false;
  std::vector<std::byte> landing(100'000);
  const std::array<ripc::ReturnBuffer, 1> returns = {ripc::return_buffer(landing)};
  const auto inner = [&]() -> Task<> {
    const Local local(gone);
    (void)co_await client_.call(server_id_, kHold, bytes_of("x"), {.returns = returns});
    went_on = true;
  };
  const auto outer = [&]() -> Task<> {
    co_await inner();
    went_on = true;
  };
  {
    Task<> task = outer();
    task.start();
    ASSERT_TRUE(holds_requests(1));
    EXPECT_FALSE(gone);
  }
  EXPECT_TRUE(gone);
  EXPECT_TRUE(until([&] { return held_[0].time_left() == ripc::kNoWait; }));
  const std::vector<std::byte> content(landing.size(), std::byte{1});
  (void)held_[0].reply(ripc::return_item(content));
  held_.clear();
  // Once a later call is answered, everything before it has been processed.
  Task<std::string> later = ask("later");
  later.start();
  ASSERT_TRUE(until([&] { return later.done(); }));
  EXPECT_FALSE(went_on);
  EXPECT_EQ(landing, std::vector<std::byte>(landing.size())) << "the return buffer is the caller's again";
  const auto statistics = client_.statistics();
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->may_have_run, 1u);
}

TEST_P(Coroutines, CancelledCallGoesOnInTheCancel) {
  std::optional<ripc_status> status;
  const auto body = [&](ripc::Call& awaited) -> Task<> { status.emplace((co_await awaited).status()); };
  ripc::Call held = client_.call(server_id_, kHold, bytes_of("x"));
  Task<> task = body(held);
  task.start();
  EXPECT_FALSE(status.has_value());
  EXPECT_TRUE(held.cancel().ok());
  EXPECT_EQ(status, RIPC_CANCELLED);
  EXPECT_TRUE(task.done());
  EXPECT_EQ(held.cancel(), RIPC_INVALID_ARGUMENT);
}

TEST_P(Coroutines, EndOfTheEndpointGoesOn) {
  std::vector<ripc_status> ends;
  const auto body = [&]() -> Task<> {
    ends.push_back((co_await client_.call(server_id_, kHold, bytes_of("x"))).status());
    ends.push_back((co_await client_.call(server_id_, kHold, bytes_of("y"))).status());
  };
  Rpc::spawn(body());
  ASSERT_TRUE(holds_requests(1));
  client_.destroy();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0], RIPC_CLOSED);
  EXPECT_NE(ends[1], RIPC_OK);
}

// The frame of the coroutine has a second call that ends together with the awaited one.
TEST_P(Coroutines, GoesOnAndIsDestroyedBeforeItsOtherCallThatHasEndedIsReported) {
  bool gone = false;
  const auto body = [&]() -> Task<> {
    const Local local(gone);
    auto first = client_.call(server_id_, kHold, bytes_of("x"));
    auto second = client_.call(server_id_, kHold, bytes_of("y"));
    EXPECT_EQ((co_await first).status(), RIPC_CLOSED);
  };
  Rpc::spawn(body());
  ASSERT_TRUE(holds_requests(2));
  client_.destroy();
  EXPECT_TRUE(gone);
}

TEST_P(Coroutines, SpawnedOneOwnsItself) {
  bool gone = false;
  const auto body = [&]() -> Task<> {
    const Local local(gone);
    EXPECT_EQ(co_await ask("a"), "a");
  };
  Rpc::spawn(body());
  EXPECT_FALSE(gone);
  EXPECT_TRUE(until([&] { return gone; }));
  Task<> started = body();
  gone = false;
  started.start();
  Rpc::spawn(std::move(started));
  EXPECT_TRUE(until([&] { return gone; }));
}

TEST_P(Coroutines, HandlerMakesNestedCallsWithinTheTimeOfItsCaller) {
  // The client answers what the server asks back.
  ripc::Nanoseconds nested_left{};
  ASSERT_TRUE(client_
                  .on(30,
                      [&](Request request) {
                        nested_left = request.time_left();
                        EXPECT_TRUE(request.reply(bytes_of("sugar")).ok());
                      })
                  .ok());
  ASSERT_TRUE(server_
                  .on(31,
                      [this](Request request) -> Task<> {
                        auto more =
                            co_await server_.call(request.source(), 30, bytes_of("with?"), {.parent = &request});
                        EXPECT_TRUE(more.answered()) << more.error().text();
                        const std::string order = std::string(request.item(0).text()) + " with " + text_of(more);
                        EXPECT_TRUE(request.reply(bytes_of(order)).ok());
                      })
                  .ok());
  std::optional<CallResult> end;
  const auto body = [&]() -> Task<> {
    end.emplace(co_await client_.call(server_id_, 31, bytes_of("tea"), {.timeout = std::chrono::seconds(4)}));
  };
  Rpc::spawn(body());
  ASSERT_TRUE(until([&] { return end.has_value(); }));
  EXPECT_EQ(text_of(*end), "tea with sugar") << end->error().text();
  EXPECT_GT(nested_left, ripc::kNoWait);
  EXPECT_LE(nested_left, std::chrono::seconds(4)) << "not its own time, but its parent's";
}

TEST_P(Coroutines, CallAllocatesNothingBeyondTheFrame) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
  constexpr int kBlocks = 10;
  constexpr int kCalls = 50;
  // Other threads of the library allocate now and then, so the best block counts.
  std::uint64_t fewest = UINT64_MAX;
  const auto body = [&]() -> Task<> {
    const std::array<std::byte, 32> argument{};
    for (int block = 0; block < kBlocks; ++block) {
      const std::uint64_t before = allocation_count();
      for (int round = 0; round < kCalls; ++round) {
        const CallResult result = co_await client_.call(server_id_, kEcho, ripc::Bytes(argument));
        EXPECT_EQ(result.item(0).size(), argument.size());
      }
      fewest = std::min(fewest, allocation_count() - before);
    }
  };
  Task<> task = body();
  task.start();
  ASSERT_TRUE(until([&] { return task.done(); }));
  EXPECT_EQ(fewest, 0u);
}

TEST_P(Coroutines, TaskAllocatesItsFrameOnce) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
  const auto value = [](int number) -> Task<int> { co_return number; };
  const std::uint64_t before = allocation_count();
  Task<int> task = value(3);
  task.start();
  EXPECT_EQ(task.result(), 3);
  EXPECT_EQ(allocation_count() - before, 1u);
}

TEST_P(Coroutines, CallsEndInOneThreadWhileOthersMakeAndDropThem) {
  std::atomic<bool> stop{false};
  const auto run = [&](Rpc& rpc) {
    while (!stop) (void)rpc.run(std::chrono::milliseconds(1));
  };
  std::jthread server(run, std::ref(server_));
  std::jthread client(run, std::ref(client_));
  constexpr int kRounds = 2000;
  std::atomic<int> ended{0};
  const auto body = [&]() -> Task<> {
    const CallResult result = co_await client_.call(server_id_, kEcho, bytes_of("awaited"));
    EXPECT_TRUE(result.answered()) << result.error().text();
    ++ended;
  };
  for (int round = 0; round < kRounds; ++round) {
    Rpc::spawn(body());
    {
      const auto dropped = client_.call(server_id_, kEcho, bytes_of("dropped"));
      // Some of these calls have ended, some end right now, and some are under way.
      if (round % 3 == 1) {
        EXPECT_TRUE(eventually([&] { return dropped.done(); }));
      }
    }
    if (round % 100 == 0) {
      EXPECT_TRUE(eventually([&] { return ended == round + 1; }));
    }
  }
  EXPECT_TRUE(eventually([&] { return ended == kRounds; }));
  stop = true;
}

}  // namespace
}  // namespace conformance::coroutines
