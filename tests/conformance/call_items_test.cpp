// SPDX-License-Identifier: Apache-2.0
// Calls: how arguments and answers travel, workers, peers that die, and what a call costs.
#include <cstring>

#include "allocation_counter.hpp"
#include "call_ends.hpp"

namespace conformance {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

class CallItems : public CallTest {
 protected:
  CallItems() : server_(make_context(), with_workers()) { server_.start(); }
  static ripc_rpc_options with_workers() {
    ripc_rpc_options options = rpc_options();
    options.workers = 2;
    options.worker_queue = 2;
    return options;
  }
  CallServer server_;
};
CONFORMANCE_SUITE(CallItems);

std::string large(unsigned seed) {
  const Bytes bytes = pattern(kLarge, seed);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_P(CallItems, OfAnySizeAreTheCallersWhenTheCallHasBegun) {
  const std::string expected = large(1);
  for (int round = 0; round < 2; ++round) {  // waiting for a session, and sent at once
    std::string argument = expected;
    Begun begun(rpc_, server_.id(), CallServer::kEcho, {item(argument), item(std::string("tail"))});
    argument.assign(argument.size(), '!');
    const Outcome& outcome = begun.end(rpc_);
    EXPECT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(outcome.status);
    EXPECT_TRUE(outcome.items == (std::vector<std::string>{expected, "tail"}));
  }
}

TEST_P(CallItems, ThatAreLentComeBackOnce) {
  const std::string expected = large(2);
  for (int round = 0; round < 2; ++round) {
    std::atomic<int> ends{0};
    ripc_call_options options = call_options();
    options.loan_ended = [](void* user, ripc_status) { ++*static_cast<std::atomic<int>*>(user); };
    options.loan_user = &ends;
    Begun begun(rpc_, server_.id(), CallServer::kEcho, {item(expected, RIPC_ITEM_LONG)}, options);
    EXPECT_TRUE(begun.end(rpc_).items == std::vector<std::string>{expected});
    EXPECT_TRUE(eventually([&] { return ends == 1; }));
  }
}

TEST_P(CallItems, ThatAreLentComeBackFromACallThatWasNotSent) {
  const std::string expected = large(3);
  std::atomic<int> ends{0};
  ripc_call_options options = call_options(50 * kMillisecond);
  options.loan_ended = [](void* user, ripc_status status) {
    EXPECT_EQ(status, RIPC_TIMEOUT);
    ++*static_cast<std::atomic<int>*>(user);
  };
  options.loan_user = &ends;
  Begun begun(rpc_, 4711, CallServer::kEcho, {item(expected, RIPC_ITEM_LONG)}, options);
  EXPECT_EQ(begun.end(rpc_).outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(ends, 1);
}

TEST_P(CallItems, ThatAreLentStayTheCallersIfTheCallCannotBegin) {
  ripc_rpc_options of_one = rpc_options();
  of_one.queue = 1;
  const Service service = make_service(context_);
  Rpc rpc = make_rpc(service, of_one);
  const std::string bytes = large(5);
  std::atomic<int> ends{0};
  ripc_call_options options = call_options();
  options.loan_ended = [](void* user, ripc_status) { ++*static_cast<std::atomic<int>*>(user); };
  options.loan_user = &ends;
  const Items lent = {item(bytes, RIPC_ITEM_LONG)};
  EXPECT_EQ(Begun(rpc, 0, CallServer::kEcho, lent, options).begun, RIPC_INVALID_ARGUMENT);
  Begun waits(rpc, 4711, CallServer::kEcho, lent, options);  // for a service that never appears
  ASSERT_EQ(waits.begun, RIPC_OK);
  Begun refused(rpc, 4711, CallServer::kEcho, lent, options);
  EXPECT_EQ(refused.begun, RIPC_AGAIN);
  EXPECT_EQ(ends, 0);
  rpc.reset();
  EXPECT_EQ(ends, 1) << "that of the call that began";
  EXPECT_EQ(waits.ends(), 1);
  EXPECT_EQ(refused.ends(), 0);
}

TEST_P(CallItems, ThatAreLentAreRefusedWhereNobodyLearnsOfTheEndOfTheLoan) {
  const std::string plain = large(4);
  const auto leased = lease(context_, kLarge);
  for (int round = 0; round < 2; ++round) {  // before there is a session, and over one
    EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho, {item(plain, RIPC_ITEM_LONG)}).begun, RIPC_INVALID_ARGUMENT);
    const Outcome known = call(rpc_, server_.id(), CallServer::kEcho, {item_at(leased.get(), kLarge, RIPC_ITEM_LONG)});
    EXPECT_EQ(known.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(known.status);
  }
}

TEST_P(CallItems, OfAnAnswerAreRefusedWhereNobodyLearnsOfTheEndOfTheLoan) {
  Begun begun(rpc_, server_.id(), CallServer::kKeep);
  ripc_request* const request = server_.take(rpc_);
  ASSERT_NE(request, nullptr);
  const std::string plain = large(4);
  const ripc_item answer = item(plain, RIPC_ITEM_LONG);
  EXPECT_EQ(ripc_request_reply(request, 0, &answer, 1, nullptr), RIPC_INVALID_ARGUMENT);
  ripc_ticket* made = nullptr;
  EXPECT_EQ(ripc_request_reply(request, 0, &answer, 1, &made), RIPC_OK) << ripc_last_error();
  const Ticket ticket(made);
  EXPECT_EQ(begun.end(rpc_).items, std::vector<std::string>{plain});
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(CallItems, ThatAreGivenMustLieInLeases) {
  const std::string plain = "plain";
  const auto buffer = lease(context_, 4096);
  for (int round = 0; round < 2; ++round) {  // before there is a session, and over one
    EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho, {item(plain, RIPC_ITEM_GIVEN)}).begun, RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho, {item_at(buffer.get(), 4097, RIPC_ITEM_GIVEN)}).begun,
              RIPC_INVALID_ARGUMENT);
    EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, RIPC_CALL_ANSWERED);
  }
}

TEST_P(CallItems, ThatAreGivenAreTheLibrarysAndAreTakenBack) {
  for (int round = 0; round < 2; ++round) {
    auto buffer = lease(context_, 4096);
    std::fill_n(buffer.get(), 100, static_cast<unsigned char>('g'));
    Begun begun(rpc_, server_.id(), CallServer::kEcho, {item_at(buffer.get(), 100, RIPC_ITEM_GIVEN)});
    ASSERT_EQ(begun.begun, RIPC_OK);
    (void)buffer.release();
    EXPECT_EQ(begun.end(rpc_).items, std::vector<std::string>{std::string(100, 'g')});
  }
  EXPECT_TRUE(eventually([this] { return pool_statistics_of(context_).leased == 0; }));
}

TEST_P(CallItems, OfAnAnswerLandInTheCallersMemory) {
  for (int round = 0; round < 2; ++round) {
    Bytes memory(kLarge);
    const ripc_return_buffer buffer{memory.data(), memory.size()};
    ripc_call_options options = call_options();
    options.returns = &buffer;
    options.return_count = 1;
    Begun begun(rpc_, server_.id(), CallServer::kKeep, {}, options);
    std::thread answers([this] {
      ripc_request* const request = server_.take();
      EXPECT_EQ(ripc_request_get_return_count(request), 1u);
      EXPECT_EQ(ripc_request_get_return_size(request, 0), kLarge);
      const Bytes answer = pattern(kLarge, 4);
      const std::string tail = "tail";
      const ripc_item items[] = {item(answer, RIPC_ITEM_RETURN, 0), item(tail)};
      EXPECT_EQ(ripc_request_reply(request, 5, items, 2, nullptr), RIPC_OK) << ripc_last_error();
    });
    const Outcome& outcome = begun.end(rpc_);
    answers.join();
    ASSERT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(outcome.status);
    EXPECT_EQ(outcome.code, 5u);
    ASSERT_EQ(outcome.kinds.size(), 2u);
    EXPECT_EQ(outcome.kinds[0], static_cast<std::uint32_t>(RIPC_VIEW_RETURNED));
    EXPECT_TRUE(memory == pattern(kLarge, 4));
    EXPECT_EQ(outcome.items[1], "tail");
  }
}

TEST_P(CallItems, OfACancelledCallAreNotWrittenAnyMore) {
  Bytes memory(kLarge);
  const ripc_return_buffer buffer{memory.data(), memory.size()};
  ripc_call_options options = call_options();
  options.returns = &buffer;
  options.return_count = 1;
  Begun begun(rpc_, server_.id(), CallServer::kKeep, {}, options);
  ripc_request* const request = server_.take(rpc_);
  ASSERT_EQ(ripc_rpc_cancel(rpc_.get(), begun.name), RIPC_OK);
  const Bytes answer = pattern(kLarge, 5);
  const ripc_item late = item(answer, RIPC_ITEM_RETURN, 0);
  if (ripc_request_reply(request, 0, &late, 1, nullptr) != RIPC_OK) ripc_request_drop(request, RIPC_CANCELLED);
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).outcome, RIPC_CALL_ANSWERED);
  EXPECT_TRUE(memory == Bytes(kLarge));
  EXPECT_EQ(begun.ends(), 1);
}

TEST_P(CallItems, WaitForWorkersWhileOthersAreAnswered) {
  std::deque<Begun> busy;
  for (int number = 0; number < 2; ++number) busy.emplace_back(rpc_, server_.id(), CallServer::kWork);
  while (statistics_of(server_.rpc()).requests_run < 2) (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
  ASSERT_TRUE(server_.wait_until_working(2));
  Begun expired(rpc_, server_.id(), CallServer::kWork, {}, call_options(50 * kMillisecond));
  Begun queued(rpc_, server_.id(), CallServer::kWork);
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kWork).status, RIPC_AGAIN);  // and it did not run
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).code, 7u);
  EXPECT_EQ(expired.end(rpc_).status, RIPC_TIMEOUT);
  // The server measures the expired call's time from its arrival. The next call arrives after the notice that no one
  // waits for that call any more.
  EXPECT_EQ(call(rpc_, server_.id(), CallServer::kEcho).code, 7u);
  server_.release();
  for (Begun& one : busy) EXPECT_EQ(one.end(rpc_).code, 9u);
  EXPECT_EQ(queued.end(rpc_).code, 9u);
  // The other worker may not have reached the expired call yet.
  while (statistics_of(server_.rpc()).requests_expired == 0) (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
  const ripc_rpc_statistics statistics = statistics_of(server_.rpc());
  EXPECT_EQ(statistics.requests_expired, 1u);
  EXPECT_EQ(statistics.requests_run, 5u);  // two that were busy, one that waited, and the echoes
}

// A leased item of 32 bytes to give away.
ripc_item lease_to_give(const Context& context, const void* bytes) {
  void* data = nullptr;
  EXPECT_EQ(ripc_buffer_lease(context.get(), 32, &data), RIPC_OK);
  std::memcpy(data, bytes, 32);
  return item_at(data, 32, RIPC_ITEM_GIVEN);
}

// Two calls of 32 bytes at a time; `is_given`: with arguments and answers that are leased and given away.
class CountedCalls {
 public:
  CountedCalls(const Rpc& rpc, const Context& context, Context far, bool is_given)
      : rpc_(rpc), context_(context), is_given_(is_given), server_(std::move(far)) {
    const ripc_rpc_handler echo = [](void* user, ripc_request* request) {
      CountedCalls& self = *static_cast<CountedCalls*>(user);
      count_allocations_here();
      ripc_item_view view;
      EXPECT_EQ(ripc_request_get_item(request, 0, &view), RIPC_OK);
      const ripc_item answer = self.item_of(self.server_.context(), view.data);
      EXPECT_EQ(ripc_request_reply(request, 0, &answer, 1, nullptr), RIPC_OK);
    };
    EXPECT_EQ(ripc_rpc_handle(server_.rpc().get(), kMethod, 0, echo, this), RIPC_OK);
    server_.start();
  }
  void run(std::uint64_t calls) {
    left_ = calls;
    begin();
    begin();
    while (statistics_of(rpc_).calls != ended()) (void)ripc_rpc_run(rpc_.get(), 10 * kMillisecond, nullptr);
  }

 private:
  static constexpr std::uint32_t kMethod = 10;

  ripc_item item_of(const Context& context, const void* bytes) const {
    return is_given_ ? lease_to_give(context, bytes) : item_at(bytes, 32, RIPC_ITEM_AUTO);
  }
  void begin() {
    constexpr char kArgument[32] = "argument";
    const ripc_item argument = item_of(context_, kArgument);
    EXPECT_EQ(
        ripc_rpc_call(rpc_.get(), server_.id(), kMethod, &argument, 1, nullptr, &CountedCalls::done, this, nullptr),
        RIPC_OK);
  }
  static void done(void* user, const ripc_call_result* result) {
    CountedCalls& self = *static_cast<CountedCalls*>(user);
    EXPECT_EQ(result->outcome, static_cast<std::uint32_t>(RIPC_CALL_ANSWERED));
    ripc_message_release(result->message);
    if (self.left_ == 0) return;
    --self.left_;
    self.begin();
  }
  std::uint64_t ended() const {
    const ripc_rpc_statistics statistics = statistics_of(rpc_);
    return statistics.answered + statistics.did_not_run + statistics.may_have_run;
  }

  const Rpc& rpc_;
  const Context& context_;
  const bool is_given_;
  CallServer server_;
  std::uint64_t left_ = 0;
};

TEST_P(CallItems, CostNoAllocationOnceWarm) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
  for (const bool is_given : {false, true}) {
    CountedCalls calls(rpc_, context_, make_context(), is_given);
    calls.run(2000);
    count_allocations_here();
    const std::uint64_t before = allocation_count_there();
    calls.run(5000);
    // When a thread pauses, both calls may be under way together for the first time. This costs one more message on
    // each side, and a request. Where calls are repeated, more of them may meet; each number of them costs once.
    EXPECT_LE(allocation_count_there() - before, traits().exact_costs ? 6u : 20u) << (is_given ? "given" : "automatic");
  }
}

}  // namespace
}  // namespace conformance
