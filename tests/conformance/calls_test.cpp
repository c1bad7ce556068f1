// SPDX-License-Identifier: Apache-2.0
// Calls: outcomes, slots and the queue for them, errors, and counters.
#include <gmock/gmock.h>

#include <bit>
#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "remote_calls.hpp"

namespace conformance {
namespace {

CONFORMANCE_SUITE(RemoteCalls);

TEST_P(RemoteCalls, AreAnsweredWithACodeAndItems) {
  const Outcome outcome = call(rpc_, server_.id(), CallServer::kEcho,
                               {item(std::string("one")), item(std::string()), item(std::string("3"))});
  EXPECT_EQ(outcome.outcome, kAnswered);
  EXPECT_EQ(outcome.status, RIPC_OK);
  EXPECT_EQ(outcome.code, 7u);
  EXPECT_EQ(outcome.items, (std::vector<std::string>{"one", "", "3"}));
}

TEST_P(RemoteCalls, TakeAsManyItemsAsTheyMay) {
  const std::string text = "x";
  std::vector<ripc_item> items(RIPC_RPC_MAX_ITEMS, item(text));
  ripc_call_result result = initialized(ripc_call_result_init);
  ASSERT_EQ(
      ripc_rpc_call_wait(rpc_.get(), server_.id(), CallServer::kEcho, items.data(), items.size(), nullptr, &result),
      RIPC_OK);
  EXPECT_EQ(outcome_of(result).items.size(), items.size());
  items.push_back(items.front());
  EXPECT_EQ(
      ripc_rpc_call_wait(rpc_.get(), server_.id(), CallServer::kEcho, items.data(), items.size(), nullptr, &result),
      RIPC_INVALID_ARGUMENT);
}

TEST_P(RemoteCalls, OfAnUnknownMethodDoNotRun) {
  EXPECT_EQ(call(rpc_, server_.id(), 77), ended(kDidNotRun, RIPC_UNSUPPORTED));
  EXPECT_EQ(statistics_of(server_.rpc()).requests_refused, 1u);
}

TEST_P(RemoteCalls, ToNoOneDoNotRun) {
  const Hasty hasty(*this);
  EXPECT_EQ(call(hasty.rpc, 4711, CallServer::kEcho), ended(kDidNotRun, RIPC_NO_SERVICE));
}

TEST_P(RemoteCalls, EndInAnyOrder) {
  Begun first(rpc_, server_.id(), CallServer::kKeep);
  Begun second(rpc_, server_.id(), CallServer::kKeep);
  std::thread answers([this] {
    ripc_request* const one = server_.take();
    ripc_request* const two = server_.take();
    EXPECT_EQ(CallServer::echo_to(two, 2), RIPC_OK);
    EXPECT_EQ(CallServer::echo_to(one, 1), RIPC_OK);
  });
  EXPECT_EQ(second.end(rpc_).code, 2u);
  EXPECT_EQ(first.end(rpc_).code, 1u);
  answers.join();
}

TEST_P(RemoteCalls, BeyondTheSlotsWaitInOrderAndBeyondTheLineAreRefused) {
  ripc_rpc_options options = rpc_options();
  options.slots = 2;
  options.queue = 2;
  const Service service = make_service(context_);
  const Rpc rpc = make_rpc(service, options);
  EXPECT_EQ(call(rpc, server_.id(), CallServer::kEcho).outcome, kAnswered);
  const std::string texts[] = {"0", "1", "2", "3"};
  std::deque<Begun> calls;
  for (const std::string& text : texts) calls.emplace_back(rpc, server_.id(), CallServer::kKeep, Items{item(text)});
  EXPECT_EQ(Begun(rpc, server_.id(), CallServer::kKeep).begun, RIPC_AGAIN);
  // On a path that loses packets, a late first answer leaves one call under way. So the queue is full one call sooner.
  if (GetParam() != "shm" && calls.back().begun == RIPC_AGAIN) calls.pop_back();
  const auto count = static_cast<std::uint32_t>(calls.size());
  for (const Begun& begun : calls) EXPECT_EQ(begun.begun, RIPC_OK);
  std::thread answers([this, count] {
    for (std::uint32_t code = 0; code < count; ++code) EXPECT_EQ(CallServer::echo_to(server_.take(), code), RIPC_OK);
  });
  for (std::uint32_t code = 0; code < count; ++code) {
    const Outcome& outcome = calls[code].end(rpc);
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.items, std::vector<std::string>{texts[code]});
  }
  answers.join();
}

TEST_P(RemoteCalls, WaitByDefault1024AtATimeForOneServer) {
  ripc_status status = RIPC_OK;
  int count = -1;
  for (; status == RIPC_OK && count < 2000; ++count)
    status = ripc_rpc_call(rpc_.get(), 4711, CallServer::kEcho, nullptr, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(status, RIPC_AGAIN);
  EXPECT_EQ(count, 1024);
}

TEST_P(RemoteCalls, WhoseRequestIsDroppedMayHaveRun) {
  Begun dropped(rpc_, server_.id(), CallServer::kKeep);
  std::thread drops([this] { ripc_request_drop(server_.take(), RIPC_PERMISSION); });
  EXPECT_EQ(dropped.end(rpc_), ended(kMayHaveRun, RIPC_PERMISSION));
  drops.join();
}

TEST_P(RemoteCalls, AreRepeatedOnlyWhereTheyMayBeLost) {
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  Begun slow(rpc_, server_.id(), CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  ASSERT_NE(request, nullptr);
  const auto repeats = [&] { return statistics_of(rpc_).repeats; };
  if (GetParam() == "shm") {
    // This is twenty times as long as a call waits for its answer where answers may be lost.
    for (const std::uint64_t until = now() + 100 * kMillisecond; now() < until;)
      EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  } else {
    EXPECT_TRUE(eventually([&] {
      (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
      return repeats() > 0;
    }));
  }
  EXPECT_EQ(CallServer::echo_to(request, 9), RIPC_OK);
  EXPECT_EQ(slow.end(rpc_).code, 9u);
  if (GetParam() == "shm") {
    EXPECT_EQ(repeats(), 0u);
    EXPECT_EQ(statistics_of(server_.rpc()).duplicates, 0u);
  }
}

TEST_P(RemoteCalls, MeetRoomThatComesLater) {
  // More answers than the client's queue has room for, while it does not receive.
  ripc_rpc_options options = rpc_options();
  options.slots = RIPC_RPC_MAX_SLOTS;
  const Service service = make_service(context_, [](ripc_service_options& small) { small.queue_messages = 16; });
  const Rpc rpc = make_rpc(service, options);
  EXPECT_EQ(call(rpc, server_.id(), CallServer::kEcho).outcome, kAnswered);
  static const std::string text(2000, 'x');  // together more than the server keeps of sent answers
  const ripc_rpc_handler answer = [](void*, ripc_request* request) {
    const ripc_item large = item(text);
    EXPECT_EQ(ripc_request_reply(request, 0, &large, 1, nullptr), RIPC_OK);
  };
  EXPECT_EQ(ripc_rpc_handle(server_.rpc().get(), 20, 0, answer, nullptr), RIPC_OK);
  std::deque<Begun> calls;
  for (int number = 0; number < 200; ++number) calls.emplace_back(rpc, server_.id(), 20);
  // On a path that loses packets, a late first answer leaves one call under way.
  const std::uint64_t wanted = GetParam() == "shm" ? 100 : 2;
  EXPECT_TRUE(eventually([&] { return statistics_of(server_.rpc()).requests_run >= wanted; }));
  for (Begun& one : calls) {
    const Outcome& outcome = one.end(rpc);
    EXPECT_EQ(outcome.outcome, kAnswered) << ripc_status_name(outcome.status);
    EXPECT_EQ(outcome.items, std::vector<std::string>{text});
  }
}

TEST_P(RemoteCalls, AreNotDisturbedByOtherMessages) {
  const Service stranger = make_service(context_);
  EXPECT_EQ(send_text(stranger, server_.id(), "not a call"), RIPC_OK);
  EXPECT_EQ(send(stranger, server_.id(), {}), RIPC_OK);
  EXPECT_EQ(send(stranger, server_.id(), {item(Bytes(32, 1))}), RIPC_OK);
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  EXPECT_TRUE(eventually([this] { return statistics_of(server_.rpc()).dropped == 3; }));
}

// A service between client and server changes the messages, so that each side takes the other for the next version.
TEST_P(RemoteCalls, ToAServerOfAnotherVersionDoNotRunAndSayWhy) {
  const Service between = make_service(context_);
  std::thread translates([&] {
    for (;;) {
      const Message message = receive(between);
      ASSERT_TRUE(message);
      std::string header = text_of(message);
      if (header == "the end") return;
      // The client repeats its request where messages may be lost.
      const bool is_from_server = ripc_message_get_source(message.get()) == server_.id();
      header[0] = static_cast<char>(header[0] + (is_from_server ? -1 : 1));
      EXPECT_EQ(send_text(between, is_from_server ? id_of(service_) : server_.id(), header), RIPC_OK);
    }
  });
  EXPECT_EQ(call(rpc_, id_of(between), CallServer::kEcho), ended(kDidNotRun, RIPC_VERSION_MISMATCH));
  EXPECT_EQ(send_text(make_service(context_), id_of(between), "the end"), RIPC_OK);
  translates.join();
  EXPECT_NE(std::string(ripc_status_text(RIPC_VERSION_MISMATCH)).find("another version"), std::string::npos);
  EXPECT_GE(statistics_of(server_.rpc()).requests_refused, 1u);
  EXPECT_EQ(statistics_of(server_.rpc()).sessions_served, 0u);
}

TEST_P(RemoteCalls, SayWhatIsWrongWithThem) {
  ripc_rpc* none = nullptr;
  EXPECT_EQ(ripc_rpc_create(nullptr, nullptr, &none), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_create(service_.get(), nullptr, &none), RIPC_ID_IN_USE);
  ripc_rpc_options options = rpc_options();
  for (const std::uint32_t slots : {3u, 2u * RIPC_RPC_MAX_SLOTS}) {
    options.slots = slots;
    EXPECT_EQ(ripc_rpc_create(service_.get(), &options, &none), RIPC_INVALID_ARGUMENT) << slots;
  }
  options = rpc_options();
  options.workers = 1025;
  EXPECT_EQ(ripc_rpc_create(service_.get(), &options, &none), RIPC_INVALID_ARGUMENT);
  const auto nothing = [](void*, ripc_request* request) { ripc_request_drop(request, RIPC_CANCELLED); };
  EXPECT_EQ(ripc_rpc_handle(rpc_.get(), 1, RIPC_RPC_WORKER, nothing, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_handle(rpc_.get(), 1, 0, nothing, nullptr), RIPC_OK);
  EXPECT_EQ(ripc_rpc_handle(rpc_.get(), 1, 0, nothing, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_handle(rpc_.get(), 2, 0, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(call(rpc_, 0, 1).begun, RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(call(rpc_, server_.id(), 1, {item(std::string("x"), RIPC_ITEM_RETURN)}).begun, RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_cancel(rpc_.get(), 12345), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run(rpc_.get(), 0, nullptr), RIPC_EMPTY);
  EXPECT_EQ(ripc_rpc_run(rpc_.get(), kMillisecond, nullptr), RIPC_TIMEOUT);
  ripc_interrupt(service_.get());
  EXPECT_EQ(ripc_rpc_run(rpc_.get(), kLimit, nullptr), RIPC_INTERRUPTED);
  ripc_call_result unset{};
  EXPECT_EQ(ripc_rpc_call_wait(rpc_.get(), server_.id(), 1, nullptr, 0, nullptr, &unset), RIPC_INVALID_ARGUMENT);
}

TEST_P(RemoteCalls, WithTooMuchToTravelShortAreRefused) {
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, kAnswered);
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(service_.get(), server_.id(), 1, &limit), RIPC_OK);
  const Bytes large(limit + 1);
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho, {item(large, RIPC_ITEM_SHORT)}).begun, RIPC_TOO_LARGE);
  EXPECT_THAT(ripc_last_error(), testing::HasSubstr("RIPC_ITEM_LONG"));
  Begun waits(rpc_, server_.id(), CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  const std::vector<ripc_item> many(RIPC_RPC_MAX_ITEMS + 1, item(std::string("x")));
  EXPECT_EQ(ripc_request_reply(request, 0, many.data(), many.size(), nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_THAT(ripc_last_error(), testing::HasSubstr("join some of them"));
  const ripc_item too_large = item(large, RIPC_ITEM_SHORT);
  EXPECT_EQ(ripc_request_reply(request, 0, &too_large, 1, nullptr), RIPC_TOO_LARGE);
  EXPECT_THAT(ripc_last_error(), testing::HasSubstr("RIPC_ITEM_LONG"));
  EXPECT_EQ(CallServer::echo_to(request, 9), RIPC_OK);
  EXPECT_EQ(waits.end(rpc_).code, 9u);
}

TEST_P(RemoteCalls, AreAnsweredOnce) {
  const std::string text = "argument";
  Begun waits(rpc_, server_.id(), CallServer::kKeep, {item(text)});
  ripc_request* const request = server_.take(rpc_);
  ASSERT_EQ(CallServer::echo_to(request, 9), RIPC_OK);
  const ripc_item again = item(text);
  EXPECT_EQ(ripc_request_reply(request, 8, &again, 1, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ripc_last_error()).find("each request once"), std::string::npos) << ripc_last_error();
  ripc_request_drop(request, RIPC_CANCELLED);
  ripc_request_refuse(request, RIPC_CANCELLED);
  ripc_item_view view;
  EXPECT_EQ(ripc_request_get_item(request, 0, &view), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_request_get_item_count(request), 0u);
  EXPECT_EQ(ripc_request_get_source(request), 0u);
  EXPECT_EQ(ripc_request_get_return_count(request), 0u);
  EXPECT_EQ(ripc_request_time_left(request), 0u);
  const Outcome& outcome = waits.end(rpc_);
  EXPECT_EQ(outcome.outcome, kAnswered);
  EXPECT_EQ(outcome.code, 9u);
  EXPECT_EQ(outcome.items, std::vector<std::string>{text});
}

TEST_P(RemoteCalls, AreCountedAndTimedByMethod) {
  using Methods = std::map<std::uint32_t, ripc_rpc_method_statistics>;
  const auto methods_of = [](const Rpc& rpc) {
    Methods methods;
    const ripc_rpc_method_visitor visitor = [](void* user, const ripc_rpc_method_statistics* method) {
      EXPECT_EQ(method->size, sizeof *method);
      EXPECT_TRUE(static_cast<Methods*>(user)->emplace(method->method, *method).second);
    };
    EXPECT_EQ(ripc_rpc_list_methods(rpc.get(), visitor, &methods), RIPC_OK);
    return methods;
  };
  EXPECT_EQ(ripc_rpc_list_methods(rpc_.get(), nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_TRUE(methods_of(rpc_).empty());
  for (int round = 0; round < 40; ++round)
    ASSERT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, RIPC_CALL_ANSWERED);
  EXPECT_EQ(call(rpc_, server_.id(), 4711).outcome, RIPC_CALL_DID_NOT_RUN);

  const Methods made = methods_of(rpc_);
  ASSERT_EQ(made.size(), 2u);
  const ripc_rpc_method_statistics& echo = made.at(CallServer::kEcho);
  EXPECT_EQ(echo.calls, 40u);
  EXPECT_EQ(echo.answered, 40u);
  EXPECT_EQ(echo.statuses[RIPC_OK], 40u);
  EXPECT_EQ(echo.call_time.count, 40u);
  EXPECT_GT(echo.call_time.minimum, 0u);
  EXPECT_LE(echo.call_time.minimum, echo.call_time.p50);
  EXPECT_LE(echo.call_time.p50, echo.call_time.p99);
  EXPECT_LE(echo.call_time.p99, echo.call_time.maximum);
  const auto& histogram = echo.call_time.histogram;
  EXPECT_EQ(std::accumulate(std::begin(histogram), std::end(histogram), std::uint64_t{0}), 40u);
  EXPECT_NE(histogram[std::bit_width(echo.call_time.maximum) - 1], 0u);
  EXPECT_EQ(made.at(4711).did_not_run, 1u);
  EXPECT_EQ(made.at(4711).statuses[RIPC_UNSUPPORTED], 1u);
  EXPECT_EQ(made.at(4711).call_time.count, 0u);

  const ripc_rpc_method_statistics run = methods_of(server_.rpc()).at(CallServer::kEcho);
  EXPECT_EQ(run.requests_run, 40u);
  EXPECT_EQ(run.calls, 0u);
  EXPECT_EQ(run.request_time.count, 40u);
}

TEST_P(RemoteCalls, OfManyMethodsAreCountedTogether) {
  for (std::uint32_t method = 0; method < RIPC_RPC_MAX_METHODS + 10; ++method)
    (void)call(rpc_, server_.id(), 1000 + method);
  std::size_t count = 0;
  const ripc_rpc_method_visitor visitor = [](void* user, const ripc_rpc_method_statistics*) {
    ++*static_cast<std::size_t*>(user);
  };
  EXPECT_EQ(ripc_rpc_list_methods(rpc_.get(), visitor, &count), RIPC_OK);
  EXPECT_EQ(count, std::size_t{RIPC_RPC_MAX_METHODS});
  EXPECT_EQ(statistics_of(rpc_).calls, RIPC_RPC_MAX_METHODS + 10u);
}

}  // namespace
}  // namespace conformance
