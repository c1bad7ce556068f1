// SPDX-License-Identifier: Apache-2.0
// Calls for which memory runs out, at any of their steps.
#include <optional>

#include "call_ends.hpp"
#include "no_memory.hpp"

namespace conformance {
namespace {

class CallWithoutMemory : public NoMemoryTest {};
CONFORMANCE_SUITE(CallWithoutMemory);

// This thread runs both ends, from the search for the server to the answer. `argument` travels both ways.
TEST_P(CallWithoutMemory, EndsOnceWithATrueOutcomeOrIsNotBegun) {
  struct Ends {
    Service caller_service, server_service;
    Rpc caller, server;
    int runs = 0;
    int ends = 0;
    ripc_call_outcome outcome = RIPC_CALL_ANSWERED;
    static void run_one(const Rpc& rpc) {
      const ripc_status status = ripc_rpc_run(rpc.get(), kMillisecond, nullptr);
      EXPECT_TRUE(is_reported(status) || status == RIPC_TIMEOUT) << ripc_status_name(status);
    }
    void run() const {
      run_one(server);
      run_one(caller);
    }
    static void answer(void* user, ripc_request* request) {
      ++static_cast<Ends*>(user)->runs;
      ripc_item_view view;
      EXPECT_EQ(ripc_request_get_item(request, 0, &view), RIPC_OK);
      const ripc_item item = item_at(view.data, view.size, RIPC_ITEM_AUTO);
      if (ripc_request_reply(request, 0, &item, 1, nullptr) != RIPC_OK) ripc_request_drop(request, RIPC_NO_MEMORY);
    }
    static void end(void* user, const ripc_call_result* result) {
      auto& self = *static_cast<Ends*>(user);
      ++self.ends;
      self.outcome = static_cast<ripc_call_outcome>(result->outcome);
      ripc_message_release(result->message);
    }
  } ends;
  const auto make_ends = [&] {
    ends.caller.reset();
    ends.server.reset();
    ends.caller_service = make_service(client_context_);
    ends.server_service = make_service(server_context_);
    ends.caller = make_rpc(ends.caller_service);
    ends.server = make_rpc(ends.server_service);
    ASSERT_EQ(ripc_rpc_handle(ends.server.get(), 1, 0, &Ends::answer, &ends), RIPC_OK);
    ends.runs = ends.ends = 0;
  };
  for (const std::size_t size : {std::size_t{32}, kLong}) {
    SCOPED_TRACE(testing::Message() << size << " bytes");
    const ripc_item argument = item_at(data_.data(), size, RIPC_ITEM_AUTO);
    // An answer for which the server has no memory is lost, and its call ends when its time is over.
    const ripc_call_options options = call_options(50 * kMillisecond);
    const auto begin = [&] {
      return ripc_rpc_call(ends.caller.get(), id_of(ends.server_service), 1, &argument, 1, &options, &Ends::end, &ends,
                           nullptr);
    };
    const auto end_it = [&] {
      EXPECT_TRUE(eventually([&] {
        ends.run();
        return ends.ends != 0;
      })) << "the call never ends";
      EXPECT_EQ(ends.ends, 1);
      EXPECT_LE(ends.runs, ends.outcome == RIPC_CALL_DID_NOT_RUN ? 0 : 1);
      EXPECT_GE(ends.runs, ends.outcome == RIPC_CALL_ANSWERED ? 1 : 0);
      ends.runs = ends.ends = 0;
    };
    fail_each(
        [&] {
          const ripc_status status = begin();
          for (int round = 0; status == RIPC_OK && ends.ends == 0 && round < 5; ++round) ends.run();
          return status;
        },
        [&](ripc_status status) {
          if (status == RIPC_OK) end_it();
          EXPECT_EQ(ends.ends, 0);
          ASSERT_EQ(begin(), RIPC_OK) << "nothing is left behind";
          end_it();
        },
        make_ends);
  }
}

TEST_P(CallWithoutMemory, ToNobodyEndsThoughTheSearchLacksMemory) {
  constexpr ripc_service_id kNobody = 987654321;
  const Context context =
      make_context([](ripc_context_options& options) { options.resolve_timeout = 20 * kMillisecond; });
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    SCOPED_TRACE(testing::Message() << "allocation " << nth);
    ASSERT_LT(nth, kMostAllocations);
    const Service service = make_service(context);
    const Rpc rpc = make_rpc(service);
    std::optional<std::uint32_t> outcome;
    const ripc_call_done end = [](void* user, const ripc_call_result* result) {
      *static_cast<std::optional<std::uint32_t>*>(user) = result->outcome;
    };
    const ripc_call_options options = call_options(kLimit);
    const FailingAllocation failing(nth, Where::elsewhere);
    ASSERT_EQ(ripc_rpc_call(rpc.get(), kNobody, 1, nullptr, 0, &options, end, &outcome, nullptr), RIPC_OK);
    EXPECT_TRUE(eventually([&] {
      (void)ripc_rpc_run(rpc.get(), kMillisecond, nullptr);
      return outcome.has_value();
    }));
    EXPECT_EQ(outcome, RIPC_CALL_DID_NOT_RUN);
    failed = failing.failed();
  }
}

TEST_P(CallWithoutMemory, TellsOfAllMethodsOrOfNone) {
  const Rpc rpc = make_rpc(client_);
  const ripc_rpc_handler none = [](void*, ripc_request*) {};
  for (const std::uint32_t method : {1U, 2U, 3U})
    ASSERT_EQ(ripc_rpc_handle(rpc.get(), method, 0, none, nullptr), RIPC_OK);
  std::size_t visited = 0;
  const ripc_rpc_method_visitor count = [](void* user, const ripc_rpc_method_statistics*) {
    ++*static_cast<std::size_t*>(user);
  };
  fail_each(
      [&] {
        visited = 0;
        return ripc_rpc_list_methods(rpc.get(), count, &visited);
      },
      [&](ripc_status status) { EXPECT_EQ(visited, status == RIPC_OK ? 3u : 0u); });
}

}  // namespace
}  // namespace conformance
