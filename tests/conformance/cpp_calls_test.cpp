// SPDX-License-Identifier: Apache-2.0
// ripc/rpc.hpp and ripc/codec.hpp: ownership, callbacks, handlers. Other tests check the promises of calls through the
// C interface.
#include "cpp_calls.hpp"

#include <array>
#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "ripc/codec.hpp"

namespace conformance::cpp_calls {

struct Point {
  std::int32_t x = 0;
  std::int32_t y = 0;
};

}  // namespace conformance::cpp_calls

template <>
struct ripc::Codec<conformance::cpp_calls::Point> : ripc::PlainCodec<conformance::cpp_calls::Point> {};

namespace conformance::cpp_calls {
namespace {

using ripc::bytes_of;
using ripc::CallResult;
using ripc::Request;
using ripc::Rpc;

template <typename T>
constexpr bool kIsOwner =
    !std::is_copy_constructible_v<T> && std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;
static_assert(kIsOwner<Rpc> && kIsOwner<Request> && kIsOwner<CallResult> && kIsOwner<ripc::Task<>>);
static_assert(!std::is_move_constructible_v<ripc::Call>);
static_assert(ripc::Coded<std::string> && ripc::Coded<Point> && !ripc::Coded<double>);

class CppCalls : public CppCallsTest {};
CONFORMANCE_SUITE(CppCalls);

TEST_P(CppCalls, EmptyObjectsGiveInvalidArgumentAndDoNothing) {
  Rpc rpc;
  EXPECT_EQ(rpc.run(ripc::kNoWait).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(rpc.call_wait(server_id_, kEcho).status(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(rpc.call_then(server_id_, kEcho, bytes_of("x"), [](CallResult) { FAIL(); }).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(rpc.on(kEcho, [](Request) { FAIL(); }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(rpc.cancel(1), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(rpc.statistics().code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(rpc.methods().code(), RIPC_INVALID_ARGUMENT);
  Request request;
  EXPECT_EQ(request.reply(bytes_of("x")).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(request.item(0).status(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(request.item_count() + request.return_count() + request.source() + request.method(), 0u);
  EXPECT_EQ(request.time_left(), ripc::kNoWait);
  request.drop(RIPC_LIMIT);
  const CallResult result;
  EXPECT_EQ(result.outcome(), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(result.item(0).status(), RIPC_INVALID_ARGUMENT);
}

TEST_P(CppCalls, CallbackGetsTheAnswerOnceAndIsGoneAfterThat) {
  auto token = std::make_shared<int>();
  std::optional<CallResult> end;
  const auto call = client_.call_then(server_id_, kEcho, bytes_of("hello"), [&, token](CallResult result) {
    EXPECT_FALSE(end.has_value());
    end.emplace(std::move(result));
  });
  ASSERT_TRUE(call.ok()) << call.error().text();
  ASSERT_TRUE(until([&] { return end.has_value(); }));
  EXPECT_TRUE(end->answered()) << end->error().text();
  EXPECT_EQ(end->code(), kEcho);
  ASSERT_EQ(end->item_count(), 1u);
  EXPECT_EQ(text_of(*end), "hello");
  EXPECT_EQ(end->item(1).status(), RIPC_INVALID_ARGUMENT);
  const CallResult moved = *std::move(end);
  EXPECT_EQ(text_of(moved), "hello");
  EXPECT_EQ(end->item_count(), 0u);  // NOLINT(bugprone-use-after-move): a moved-from result is empty
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(client_.cancel(*call), RIPC_INVALID_ARGUMENT);
}

TEST_P(CppCalls, CallbackOfACallThatCannotBeginDoesNotRun) {
  auto token = std::make_shared<int>();
  const auto call = client_.call_then(0, kEcho, bytes_of("x"), [token](CallResult) { FAIL(); });
  EXPECT_EQ(call.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(CppCalls, CancelRunsTheCallbackInTheCall) {
  std::optional<ripc_status> status;
  const auto call = client_.call_then(server_id_, kHold, bytes_of("x"), [&](CallResult result) {
    EXPECT_EQ(result.outcome(), RIPC_CALL_MAY_HAVE_RUN);
    status.emplace(result.status());
  });
  ASSERT_TRUE(call.ok());
  ASSERT_TRUE(holds_requests(1));
  EXPECT_GT(held_[0].time_left(), ripc::kNoWait);
  EXPECT_TRUE(client_.cancel(*call).ok());
  EXPECT_EQ(status, RIPC_CANCELLED);
  EXPECT_TRUE(until([&] { return held_[0].time_left() == ripc::kNoWait; }));
  EXPECT_TRUE(held_[0].reply(bytes_of("nobody waits")).ok());
}

TEST_P(CppCalls, BlockingCallRunsItsEndpoint) {
  std::jthread server([&] {
    while (server_.run().code() != RIPC_INTERRUPTED) {
    }
  });
  const CallResult result = client_.call_wait(server_id_, kEcho, ripc::item(bytes_of("a")));
  EXPECT_TRUE(result.answered()) << result.error().text();
  EXPECT_EQ(text_of(result), "a");
  const CallResult unknown = client_.call_wait(server_id_, 77, bytes_of("a"));
  EXPECT_EQ(unknown.outcome(), RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(unknown.status(), RIPC_UNSUPPORTED);
  EXPECT_FALSE(unknown.error().text().empty());
  ASSERT_TRUE(server_service_.interrupt().ok());
}

TEST_P(CppCalls, RequestIsAnsweredLaterInAnotherThreadAndOutOfOrder) {
  std::vector<std::string> answers;
  for (const char* text : {"first", "second"}) {
    const auto call = client_.call_then(server_id_, kHold, bytes_of(text),
                                        [&](CallResult result) { answers.push_back(text_of(result)); });
    ASSERT_TRUE(call.ok());
  }
  ASSERT_TRUE(holds_requests(2));
  EXPECT_EQ(held_[0].source(), client_service_.id());
  EXPECT_EQ(held_[0].method(), kHold);
  std::jthread([request = std::move(held_[1])]() mutable {
    EXPECT_TRUE(request.reply(request.item(0).bytes()).ok());
  }).join();
  ASSERT_TRUE(until([&] { return answers.size() == 1; }));
  EXPECT_TRUE(held_[0].reply(held_[0].item(0).bytes()).ok());
  EXPECT_EQ(held_[0].reply(bytes_of("again")).code(), RIPC_INVALID_ARGUMENT);
  ASSERT_TRUE(until([&] { return answers.size() == 2; }));
  EXPECT_EQ(answers, (std::vector<std::string>{"second", "first"}));
}

TEST_P(CppCalls, DestroyedRequestEndsItsCallAsCancelled) {
  std::vector<ripc_status> ends;
  for (int count = 0; count < 2; ++count) {
    const auto call = client_.call_then(server_id_, kHold, bytes_of("x"), [&](CallResult result) {
      EXPECT_EQ(result.outcome(), RIPC_CALL_MAY_HAVE_RUN);
      EXPECT_EQ(result.item_count(), 0u);
      ends.push_back(result.status());
    });
    ASSERT_TRUE(call.ok());
  }
  ASSERT_TRUE(holds_requests(2));
  held_.pop_back();
  ASSERT_TRUE(until([&] { return ends.size() == 1; }));
  held_[0].drop(RIPC_LIMIT);
  ASSERT_TRUE(until([&] { return ends.size() == 2; }));
  EXPECT_EQ(ends, (std::vector<ripc_status>{RIPC_CANCELLED, RIPC_LIMIT}));
}

TEST_P(CppCalls, AnswerLandsInAReturnBuffer) {
  std::vector<std::byte> landing(300'000);
  const std::array<ripc::ReturnBuffer, 1> returns = {ripc::return_buffer(landing)};
  std::optional<CallResult> end;
  ASSERT_TRUE(client_
                  .call_then(server_id_, kHold, bytes_of("x"),
                             [&](CallResult result) { end.emplace(std::move(result)); }, {.returns = returns})
                  .ok());
  ASSERT_TRUE(holds_requests(1));
  ASSERT_EQ(held_[0].return_count(), 1u);
  EXPECT_EQ(held_[0].return_size(0), landing.size());
  const std::vector<std::byte> content(landing.size(), std::byte{9});
  auto ticket = held_[0].reply(ripc::return_item(content));
  ASSERT_TRUE(ticket.ok()) << ticket.error().text();
  ASSERT_TRUE(until([&] { return end.has_value(); }));
  ASSERT_EQ(end->item_count(), 1u) << end->error().text();
  EXPECT_EQ(end->item(0).kind(), RIPC_VIEW_RETURNED);
  EXPECT_EQ(landing, content);
  EXPECT_TRUE(until([&] { return ticket->poll() != RIPC_PENDING; }));
  EXPECT_TRUE(ticket->poll().ok());
}

TEST_P(CppCalls, LongArgumentAndAnswerAreLent) {
  const std::string text(500'000, 'l');
  std::atomic<bool> loan_ended{false};
  const auto end_loan = [](void* user, ripc_status) { static_cast<std::atomic<bool>*>(user)->store(true); };
  std::optional<CallResult> end;
  ASSERT_TRUE(client_
                  .call_then(server_id_, kEcho, ripc::borrow(text),
                             [&](CallResult result) { end.emplace(std::move(result)); },
                             {.loan_ended = end_loan, .loan_user = &loan_ended})
                  .ok());
  ASSERT_TRUE(until([&] { return end.has_value(); }));
  const CallResult moved = *std::move(end);
  EXPECT_TRUE(text_of(moved) == text);
  EXPECT_TRUE(until([&] { return loan_ended.load(); }));
}

TEST_P(CppCalls, HandlerOfAWorkerMayBlock) {
  EXPECT_EQ(client_.on(
                7, [](Request) {}, RIPC_RPC_WORKER),
            RIPC_INVALID_ARGUMENT)
      << "it has no workers";
  std::promise<void> release;
  std::atomic<std::thread::id> thread;
  ASSERT_TRUE(server_
                  .on(
                      7,
                      [&](Request request) {
                        thread = std::this_thread::get_id();
                        release.get_future().wait();
                        EXPECT_TRUE(request.reply(bytes_of("done")).ok());
                      },
                      RIPC_RPC_WORKER)
                  .ok());
  std::vector<std::string> answers;
  const auto note = [&](CallResult result) { answers.push_back(text_of(result)); };
  ASSERT_TRUE(client_.call_then(server_id_, 7, bytes_of("slow"), note).ok());
  ASSERT_TRUE(client_.call_then(server_id_, kEcho, bytes_of("quick"), note).ok());
  ASSERT_TRUE(until([&] { return answers.size() == 1; }));
  release.set_value();
  ASSERT_TRUE(until([&] { return answers.size() == 2; }));
  EXPECT_EQ(answers, (std::vector<std::string>{"quick", "done"}));
  EXPECT_NE(thread.load(), std::this_thread::get_id());
}

TEST_P(CppCalls, HandlersLiveAsLongAsTheEndpointAlsoIfItMoves) {
  auto token = std::make_shared<int>();
  ASSERT_TRUE(client_.on(9, [token](Request) {}).ok());
  EXPECT_FALSE(client_.on(9, [token](Request) {}).ok());
  EXPECT_EQ(token.use_count(), 2);
  Rpc moved = std::move(client_);
  EXPECT_TRUE(client_.empty());  // NOLINT(bugprone-use-after-move): a moved-from endpoint is empty
  EXPECT_EQ(token.use_count(), 2);
  moved = Rpc();
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(CppCalls, EndpointThatEndsEndsItsCalls) {
  std::optional<CallResult> end;
  ASSERT_TRUE(
      client_.call_then(server_id_, kHold, bytes_of("x"), [&](CallResult result) { end.emplace(std::move(result)); })
          .ok());
  ASSERT_TRUE(holds_requests(1));
  client_.destroy();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status(), RIPC_CLOSED);
  EXPECT_EQ(end->outcome(), RIPC_CALL_MAY_HAVE_RUN);
  server_.destroy();
  EXPECT_EQ(held_[0].item(0).text(), "x");
  EXPECT_EQ(held_[0].reply(bytes_of("y")).code(), RIPC_CLOSED);
}

TEST_P(CppCalls, StatisticsCountCalls) {
  std::optional<CallResult> end;
  ASSERT_TRUE(
      client_.call_then(server_id_, kEcho, bytes_of("x"), [&](CallResult result) { end.emplace(std::move(result)); })
          .ok());
  ASSERT_TRUE(until([&] { return end.has_value(); }));
  const auto client = client_.statistics();
  const auto server = server_.statistics();
  ASSERT_TRUE(client.ok() && server.ok());
  EXPECT_EQ(client->calls, 1u);
  EXPECT_EQ(client->answered, 1u);
  EXPECT_EQ(server->requests_run, 1u);
  const auto methods = client_.methods();
  ASSERT_TRUE(methods.ok());
  ASSERT_EQ(methods->size(), 1u);
  EXPECT_EQ(methods->front().method, std::uint32_t{kEcho});
  EXPECT_EQ(methods->front().call_time.count, 1u);
}

// ---- Typed calls ---------------------------------------------------------------------------------------------

TEST_P(CppCalls, TypedCallsCarryValues) {
  ASSERT_TRUE(ripc::on_typed<Point>(server_, 20, [](const Point& point, const Request&) {
                return Point{-point.x, -point.y};
              }).ok());
  ASSERT_TRUE(ripc::on_typed<std::string>(server_, 21,
                                          [](const std::string& text, const Request& request) -> ripc::Task<Point> {
                                            EXPECT_FALSE(request.empty());
                                            co_return Point{static_cast<std::int32_t>(text.size()), 1};
                                          })
                  .ok());
  auto mirrored = ripc::call_typed<Point>(client_, server_id_, 20, Point{3, 4});
  auto measured = ripc::call_typed<Point>(client_, server_id_, 21, std::string("seven77"));
  auto wrong_answer = ripc::call_typed<std::string>(client_, server_id_, 77, Point{});
  auto wrong_question = ripc::call_typed<Point>(client_, server_id_, 20, std::string("is no point"));
  ASSERT_TRUE(
      until([&] { return mirrored.done() && measured.done() && wrong_answer.done() && wrong_question.done(); }));
  const auto mirror = mirrored.await_resume();
  ASSERT_TRUE(mirror.value.has_value()) << mirror.result.error().text();
  EXPECT_EQ(mirror.value->x, -3);
  EXPECT_EQ(mirror.value->y, -4);
  const auto measure = measured.await_resume();
  ASSERT_TRUE(measure.value.has_value()) << measure.result.error().text();
  EXPECT_EQ(measure.value->x, 7);
  const auto refused = wrong_answer.await_resume();
  EXPECT_FALSE(refused.value.has_value());
  EXPECT_EQ(refused.result.status(), RIPC_UNSUPPORTED);
  const auto dropped = wrong_question.await_resume();
  EXPECT_FALSE(dropped.value.has_value());
  EXPECT_EQ(dropped.result.status(), RIPC_CORRUPT);
}

TEST_P(CppCalls, AnswerOfAnotherTypeHasNoValue) {
  auto call = ripc::call_typed<Point>(client_, server_id_, kEcho, std::string("not eight"));
  ASSERT_TRUE(until([&] { return call.done(); }));
  const auto end = call.await_resume();
  EXPECT_TRUE(end.result.answered());
  EXPECT_FALSE(end.value.has_value());
}

}  // namespace
}  // namespace conformance::cpp_calls
