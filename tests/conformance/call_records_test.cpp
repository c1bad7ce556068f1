// SPDX-License-Identifier: Apache-2.0
// Calls without callbacks: requests and ends that are read from records.
#include "call_ends.hpp"
#include "ripc/rpc_records.h"

namespace conformance {
namespace {

ripc_rpc_options recorded() {
  ripc_rpc_options options = rpc_options();
  options.recorded = 1;
  return options;
}

class CallRecords : public CallTest {
 protected:
  struct Read {
    ripc_rpc_record head{};
    ripc_record items{};
    std::vector<ripc_item_view> views;
    Message message;  // an answer's message, unless it was given back
    std::uintptr_t user() const { return reinterpret_cast<std::uintptr_t>(head.user); }
  };

  CallRecords()
      : server_context_(make_context()),
        server_service_(make_service(server_context_)),
        server_(make_rpc(server_service_, recorded())),
        client_service_(make_service(context_)),
        client_(make_rpc(client_service_, recorded())) {
    EXPECT_EQ(ripc_rpc_handle(server_.get(), CallServer::kEcho, 0, nullptr, name(11)), RIPC_OK);
  }
  static void* name(std::uintptr_t number) { return reinterpret_cast<void*>(number); }
  ripc_service_id to() const { return id_of(server_service_); }

  std::uint64_t begin(std::uintptr_t user, Items items = {}, const ripc_call_options& options = call_options()) {
    std::uint64_t call = 0;
    EXPECT_EQ(ripc_rpc_call(client_.get(), to(), CallServer::kEcho, items.begin(), items.size(), &options, nullptr,
                            name(user), &call),
              RIPC_OK)
        << ripc_last_error();
    return call;
  }

  std::vector<Read> run(const Rpc& rpc, std::uint64_t timeout = kMillisecond, std::size_t capacity = 8) {
    memory_.assign(capacity * RIPC_RPC_MAX_RECORD / 8, 0);
    std::size_t count = 0;
    status_ = ripc_rpc_run_records(rpc.get(), timeout, memory_.data(), memory_.size() * 8, &count);
    std::vector<Read> read(count);
    const auto* next = reinterpret_cast<const unsigned char*>(memory_.data());
    for (Read& each : read) {
      std::memcpy(&each.head, next, sizeof each.head);
      std::memcpy(&each.items, next + sizeof each.head, sizeof each.items);
      each.views.resize(each.items.item_count);
      if (!each.views.empty())
        std::memcpy(each.views.data(), next + sizeof each.head + sizeof each.items,
                    each.views.size() * sizeof(ripc_item_view));
      if (each.head.request == nullptr) each.message.reset(each.items.message);
      EXPECT_EQ(each.items.record_size % 8, 0u);
      next += sizeof each.head + each.items.record_size;
    }
    return read;
  }

  // Returns the next record of an endpoint, while both endpoints run.
  Read next(const Rpc& rpc) {
    for (const std::uint64_t limit = now() + kLimit; now() < limit;) {
      if (std::vector<Read> read = run(rpc, kMillisecond, 1); !read.empty()) return std::move(read.front());
      (void)ripc_rpc_run((&rpc == &server_ ? client_ : server_).get(), 0, nullptr);
    }
    ADD_FAILURE() << "nothing was recorded: " << ripc_status_name(status_);
    return {};
  }

  Context server_context_;
  Service server_service_;
  Rpc server_;
  Service client_service_;
  Rpc client_;
  std::vector<std::uint64_t> memory_;
  ripc_status status_ = RIPC_OK;
};
CONFORMANCE_SUITE(CallRecords);

TEST_P(CallRecords, TellOfARequestAndOfItsAnswer) {
  begin(5, {item(std::string("one")), item(std::string("two"))});
  const Read request = next(server_);
  EXPECT_EQ(request.head.kind, static_cast<std::uint32_t>(RIPC_RPC_RECORD_REQUEST));
  EXPECT_EQ(request.head.code, CallServer::kEcho);
  EXPECT_EQ(request.user(), 11u);
  EXPECT_EQ(request.items.source, id_of(client_service_));
  EXPECT_EQ(request.items.message, nullptr);
  ASSERT_EQ(request.views.size(), 2u);
  EXPECT_EQ(text_of(request.views[0]), "one");
  EXPECT_EQ(text_of(request.views[1]), "two");
  EXPECT_GT(request.head.deadline, now());
  EXPECT_LE(request.head.deadline, now() + 5'000 * kMillisecond);
  const std::string answer = "answer";
  const ripc_item one = item(answer);
  ASSERT_EQ(ripc_request_reply(request.head.request, 9, &one, 1, nullptr), RIPC_OK);
  const Read end = next(client_);
  EXPECT_EQ(end.head.kind, static_cast<std::uint32_t>(RIPC_RPC_RECORD_END));
  EXPECT_EQ(end.user(), 5u);
  EXPECT_EQ(end.head.code, 9u);
  EXPECT_EQ(end.head.outcome, static_cast<std::uint32_t>(RIPC_CALL_ANSWERED));
  EXPECT_EQ(end.head.status, static_cast<std::uint32_t>(RIPC_OK));
  EXPECT_EQ(end.head.request, nullptr);
  EXPECT_EQ(end.message, nullptr);
  EXPECT_EQ(end.items.source, to());
  ASSERT_EQ(end.views.size(), 1u);
  EXPECT_EQ(text_of(end.views[0]), answer);
}

TEST_P(CallRecords, NameNoPeerOfACallWithoutAnAnswer) {
  begin(5);
  const Read request = next(server_);
  ripc_request_drop(request.head.request, RIPC_LIMIT);
  const Read end = next(client_);
  EXPECT_EQ(end.head.status, static_cast<std::uint32_t>(RIPC_LIMIT));
  EXPECT_STREQ(end.items.peer_identity, "");
  EXPECT_EQ(end.items.peer_user, UINT32_MAX);
}

TEST_P(CallRecords, KeepLongItemsInTheirMessages) {
  const Bytes large = pattern(1 << 20, 1);
  begin(5, {item(large)});
  const Read request = next(server_);
  EXPECT_NE(request.items.message, nullptr);
  ASSERT_EQ(request.views.size(), 1u);
  EXPECT_TRUE(holds(request.views[0], RIPC_VIEW_LENT, large));
  const ripc_item back = item_at(request.views[0].data, request.views[0].size, RIPC_ITEM_AUTO);
  ASSERT_EQ(ripc_request_reply(request.head.request, 0, &back, 1, nullptr), RIPC_OK) << ripc_last_error();
  const Read end = next(client_);
  EXPECT_NE(end.message, nullptr);
  ASSERT_EQ(end.views.size(), 1u);
  EXPECT_TRUE(holds(end.views[0], RIPC_VIEW_LENT, large));
}

TEST_P(CallRecords, TellOfARefusedRequestThatItDidNotRun) {
  begin(5);
  ripc_request_refuse(next(server_).head.request, RIPC_LIMIT);
  const Read end = next(client_);
  EXPECT_EQ(end.head.outcome, static_cast<std::uint32_t>(RIPC_CALL_DID_NOT_RUN));
  EXPECT_EQ(end.head.status, static_cast<std::uint32_t>(RIPC_LIMIT));
  EXPECT_EQ(end.items.source, 0u);
  EXPECT_EQ(statistics_of(server_).requests_run, 0u);
}

TEST_P(CallRecords, WaitUntilThereIsRoomForThem) {
  for (std::uintptr_t user = 1; user <= 5; ++user) begin(user);
  for (int count = 0; count < 5; ++count)
    ASSERT_EQ(ripc_request_reply(next(server_).head.request, 0, nullptr, 0, nullptr), RIPC_OK);
  std::uintptr_t sum = 0;
  for (int count = 0; count < 5; ++count) sum += next(client_).user();
  EXPECT_EQ(sum, 15u);
}

TEST_P(CallRecords, WakeTheThreadThatWaitsForACallThatAnotherCancels) {
  const std::uint64_t call = begin(5);
  ripc_request* const request = next(server_).head.request;
  std::thread waits([&] {
    const std::vector<Read> read = run(client_, kLimit);
    ASSERT_EQ(read.size(), 1u);
    EXPECT_EQ(read[0].user(), 5u);
    EXPECT_EQ(read[0].head.status, static_cast<std::uint32_t>(RIPC_CANCELLED));
  });
  EXPECT_EQ(ripc_rpc_cancel(client_.get(), call), RIPC_OK);
  waits.join();
  ripc_request_drop(request, RIPC_CANCELLED);
}

TEST_P(CallRecords, TellHowCallsEndedThatWereClosed) {
  begin(1);
  ripc_request* const request = next(server_).head.request;
  ripc_call_options options = call_options();
  std::uint64_t unsent = 0;
  EXPECT_EQ(ripc_rpc_call(client_.get(), 4711, 0, nullptr, 0, &options, nullptr, name(2), &unsent), RIPC_OK);
  EXPECT_EQ(ripc_rpc_close(client_.get()), RIPC_OK);
  std::map<std::uintptr_t, std::uint32_t> outcomes;
  for (const Read& end : run(client_)) {
    EXPECT_EQ(end.head.status, static_cast<std::uint32_t>(RIPC_CLOSED));
    outcomes[end.user()] = end.head.outcome;
  }
  EXPECT_EQ(outcomes,
            (std::map<std::uintptr_t, std::uint32_t>{{1, RIPC_CALL_MAY_HAVE_RUN}, {2, RIPC_CALL_DID_NOT_RUN}}));
  EXPECT_TRUE(run(client_).empty());
  EXPECT_EQ(status_, RIPC_CLOSED);
  EXPECT_EQ(ripc_rpc_call(client_.get(), to(), 0, nullptr, 0, &options, nullptr, nullptr, nullptr), RIPC_CLOSED);
  ripc_request_drop(request, RIPC_CANCELLED);
}

TEST_P(CallRecords, OfRequestsThatNoOneReadsAreOfCallsThatDidNotRun) {
  for (std::uintptr_t user = 1; user <= 3; ++user) begin(user);
  for (const std::uint64_t limit = now() + kLimit; statistics_of(server_).requests_run < 3 && now() < limit;) {
    (void)ripc_rpc_run(server_.get(), 0, nullptr);
    (void)ripc_rpc_run(client_.get(), 0, nullptr);
  }
  EXPECT_EQ(statistics_of(server_).requests_run, 3u);
  server_.reset();
  for (int count = 0; count < 2; ++count) {
    const Read end = next(client_);
    EXPECT_EQ(end.head.outcome, static_cast<std::uint32_t>(RIPC_CALL_DID_NOT_RUN));
    EXPECT_EQ(end.head.status, static_cast<std::uint32_t>(RIPC_CLOSED));
  }
  client_.reset();  // nobody reads the third end
}

TEST_P(CallRecords, LeaveCallbacksAsTheyAre) {
  EXPECT_EQ(
      ripc_rpc_handle(
          server_.get(), 8, 0,
          [](void*, ripc_request* request) { (void)ripc_request_reply(request, 8, nullptr, 0, nullptr); }, nullptr),
      RIPC_OK);
  ripc_call_options options = call_options();
  std::uint32_t code = 0;
  const auto done = [](void* user, const ripc_call_result* result) {
    *static_cast<std::uint32_t*>(user) = result->code;
    ripc_message_release(result->message);
  };
  EXPECT_EQ(ripc_rpc_call(client_.get(), to(), 8, nullptr, 0, &options, done, &code, nullptr), RIPC_OK);
  for (const std::uint64_t limit = now() + kLimit; code == 0 && now() < limit;) {
    EXPECT_TRUE(run(server_, 0).empty());
    EXPECT_TRUE(run(client_, 0).empty());
  }
  EXPECT_EQ(code, 8u);
}

TEST_P(CallRecords, NeedAnEndpointAndMemoryForThem) {
  alignas(8) std::array<unsigned char, RIPC_RPC_MAX_RECORD> memory{};
  std::size_t count = 7;
  EXPECT_EQ(ripc_rpc_run_records(rpc_.get(), 0, memory.data(), memory.size(), &count), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_handle(rpc_.get(), 1, 0, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run_records(nullptr, 0, memory.data(), memory.size(), &count), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run_records(client_.get(), 0, nullptr, memory.size(), &count), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run_records(client_.get(), 0, memory.data(), memory.size(), nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run_records(client_.get(), 0, memory.data() + 1, memory.size(), &count), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run_records(client_.get(), 0, memory.data(), memory.size() - 1, &count), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_rpc_run_records(client_.get(), 0, memory.data(), memory.size(), &count), RIPC_EMPTY);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(ripc_rpc_run_records(client_.get(), kMillisecond, memory.data(), memory.size(), &count), RIPC_TIMEOUT);
  EXPECT_EQ(ripc_rpc_close(nullptr), RIPC_INVALID_ARGUMENT);
  ripc_request_refuse(nullptr, RIPC_OK);
}

}  // namespace
}  // namespace conformance
