// SPDX-License-Identifier: Apache-2.0
// Calls to groups: one living member runs each call.
#include <gtest/gtest.h>

#include "call_ends.hpp"
#include "groups.hpp"

namespace conformance {
namespace {

constexpr std::uint32_t kWho = 10;     // answers with the member's number
constexpr std::uint32_t kRefuse = 11;  // the first member drops it, others answer as kWho does

class GroupCalls : public CallTest {
 protected:
  // Each member has its own context. To the library, it looks like another process.
  struct Member {
    Member(Context context, std::uint32_t of, ripc_service_id group, const ripc_rpc_options& options)
        : number(of), server(std::move(context), options) {
      EXPECT_EQ(ripc_rpc_handle(server.rpc().get(), kWho, 0, &Member::answer, this), RIPC_OK);
      EXPECT_EQ(ripc_rpc_handle(server.rpc().get(), kRefuse, 0, &Member::refuse, this), RIPC_OK);
      EXPECT_EQ(ripc_group_join(server.service().get(), group), RIPC_OK) << ripc_last_error();
      server.start();
    }
    static void answer(void* user, ripc_request* request) {
      auto& self = *static_cast<Member*>(user);
      ++self.calls;
      EXPECT_EQ(ripc_request_reply(request, self.number, nullptr, 0, nullptr), RIPC_OK);
    }
    static void refuse(void* user, ripc_request* request) {
      auto& self = *static_cast<Member*>(user);
      if (self.number != 0) return answer(user, request);
      ++self.calls;
      ripc_request_drop(request, RIPC_LIMIT);
    }
    const std::uint32_t number;
    std::atomic<int> calls{0};
    CallServer server;
  };

  void add(std::uint32_t number, const ripc_rpc_options& options = rpc_options()) {
    members_.push_back(std::make_unique<Member>(make_context(), number, group_, options));
  }
  // Waits until the list of the caller's context has this many members.
  bool sees(std::size_t count) {
    return eventually([&] {
      std::size_t seen = 0;
      const ripc_service_visitor visitor = [](void* user, const ripc_service_info*) {
        ++*static_cast<std::size_t*>(user);
      };
      return ripc_group_members(context_.get(), group_, visitor, &seen) == RIPC_OK && seen == count;
    });
  }
  Outcome call_group(std::uint32_t method, const ripc_call_options& options = call_options()) {
    return call(rpc_, group_, method, {}, options);
  }

  const ripc_service_id group_ = fresh_group();
  std::vector<std::unique_ptr<Member>> members_;
};

CONFORMANCE_SUITE(GroupCalls);

TEST_P(GroupCalls, AreAnsweredByOneMember) {
  for (std::uint32_t number = 0; number < 3; ++number) add(number);
  ASSERT_TRUE(sees(3));
  for (int round = 0; round < 300; ++round) {
    const Outcome outcome = call_group(kWho);
    ASSERT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(outcome.status);
    ASSERT_LT(outcome.code, 3u);
  }
  int runs = 0;
  for (const auto& member : members_) {
    EXPECT_GT(member->calls, 0);
    runs += member->calls;
  }
  EXPECT_EQ(runs, 300);
}

TEST_P(GroupCalls, WithoutAMemberFindNoService) {
  const Hasty hasty(*this);
  const Outcome outcome = call(hasty.rpc, group_, kWho, {}, call_options(kLimit));
  EXPECT_EQ(outcome.outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(outcome.status, RIPC_NO_SERVICE);
}

TEST_P(GroupCalls, WaitForTheFirstMember) {
  Begun begun(rpc_, group_, kWho);
  ASSERT_EQ(begun.begun, RIPC_OK);
  ASSERT_EQ(ripc_rpc_run(rpc_.get(), 50 * kMillisecond, nullptr), RIPC_TIMEOUT);
  add(1);
  EXPECT_EQ(begun.end(rpc_).outcome, RIPC_CALL_ANSWERED) << ripc_status_name(begun.outcome.status);
}

TEST_P(GroupCalls, PassByAMemberThatHasGone) {
  for (std::uint32_t number = 0; number < 3; ++number) add(number);
  ASSERT_TRUE(sees(3));
  for (int round = 0; round < 20; ++round) ASSERT_EQ(call_group(kWho).outcome, RIPC_CALL_ANSWERED);
  members_.erase(members_.begin());  // the list still names it
  for (int round = 0; round < 50; ++round) {
    const Outcome outcome = call_group(kWho);
    ASSERT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << round << ": " << ripc_status_name(outcome.status);
    ASSERT_NE(outcome.code, 0u);
  }
}

TEST_P(GroupCalls, GoToAnotherMemberIfOneIsBusy) {
  ripc_rpc_options busy = rpc_options();
  busy.workers = 1;
  busy.worker_queue = 1;
  add(0, busy);
  add(1, busy);
  ASSERT_TRUE(sees(2));
  // Each member has room for one call that runs and one that waits.
  std::vector<std::unique_ptr<Begun>> begun;
  for (int index = 0; index < 5; ++index)
    begun.push_back(std::make_unique<Begun>(rpc_, group_, CallServer::kWork, Items{}, call_options(kLimit)));
  const auto ended = [&] {
    return std::count_if(begun.begin(), begun.end(), [](const auto& one) { return one->has_ended(); });
  };
  const std::uint64_t limit = now() + kLimit;
  while (ended() == 0 && now() < limit) (void)ripc_rpc_run(rpc_.get(), 10 * kMillisecond, nullptr);
  for (const auto& member : members_) member->server.release();
  int refused = 0;
  for (const auto& one : begun) {
    const Outcome& outcome = one->end(rpc_);
    if (outcome.outcome == RIPC_CALL_ANSWERED) continue;
    EXPECT_EQ(outcome.outcome, RIPC_CALL_DID_NOT_RUN);
    EXPECT_EQ(outcome.status, RIPC_AGAIN);
    ++refused;
  }
  // Both members refused these. A worker that is slow to begin leaves room for fewer calls.
  EXPECT_GE(refused, 1);
  EXPECT_LE(refused, 3);
}

TEST_P(GroupCalls, ThatMayHaveRunGoToAnotherMemberOnlyIfIdempotent) {
  add(0);
  ASSERT_TRUE(sees(1));
  const Outcome once = call_group(kRefuse);
  EXPECT_EQ(once.outcome, RIPC_CALL_MAY_HAVE_RUN);
  EXPECT_EQ(once.status, RIPC_LIMIT);
  add(1);
  ASSERT_TRUE(eventually([&] { return call_group(kWho).code == 1; }));  // the caller knows the new member
  ripc_call_options options = call_options();
  options.idempotent = 1;
  const int before = members_[0]->calls;
  // Calls prefer the faster member while the times of both are known.
  for (const std::uint64_t limit = now() + kLimit; members_[0]->calls == before && now() < limit;) {
    const Outcome outcome = call_group(kRefuse, options);
    ASSERT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(outcome.status);
    ASSERT_EQ(outcome.code, 1u);
  }
  EXPECT_GT(members_[0]->calls, before) << "no call came to the member that drops them";
}

TEST_P(GroupCalls, ThatEveryMemberRefusesEndAsTheLastSays) {
  add(1);
  add(2);
  ASSERT_TRUE(sees(2));
  const Outcome outcome = call_group(4711);
  EXPECT_EQ(outcome.outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(outcome.status, RIPC_UNSUPPORTED);
}

TEST_P(GroupCalls, EndWhenTheyAreCancelled) {
  Begun waiting(rpc_, group_, kWho);
  ASSERT_EQ(ripc_rpc_cancel(rpc_.get(), waiting.name), RIPC_OK);
  EXPECT_EQ(waiting.outcome.status, RIPC_CANCELLED);
  EXPECT_EQ(waiting.outcome.outcome, RIPC_CALL_DID_NOT_RUN);
  add(1);
  ASSERT_TRUE(sees(1));
  Begun kept(rpc_, group_, CallServer::kKeep);
  ripc_request* const request = members_[0]->server.take(rpc_);
  ASSERT_NE(request, nullptr);
  ASSERT_EQ(ripc_rpc_cancel(rpc_.get(), kept.name), RIPC_OK);
  EXPECT_EQ(kept.outcome.outcome, RIPC_CALL_MAY_HAVE_RUN);
  EXPECT_EQ(kept.ends(), 1);
  ripc_request_drop(request, RIPC_OK);
}

TEST_P(GroupCalls, CarryLargeArgumentsToTheMemberThatTakesThem) {
  add(1);
  ASSERT_TRUE(sees(1));
  const Bytes argument = pattern(1 << 20, 1);
  const std::string expected(reinterpret_cast<const char*>(argument.data()), argument.size());
  std::atomic<int> loans{0};
  ripc_call_options options = call_options();
  options.loan_ended = [](void* user, ripc_status) { ++*static_cast<std::atomic<int>*>(user); };
  options.loan_user = &loans;
  for (const ripc_item_kind kind : {RIPC_ITEM_AUTO, RIPC_ITEM_LONG}) {
    const Outcome outcome = call(rpc_, group_, CallServer::kEcho, {item(argument, kind)}, options);
    ASSERT_EQ(outcome.outcome, RIPC_CALL_ANSWERED) << ripc_status_name(outcome.status);
    EXPECT_TRUE(outcome.items == std::vector<std::string>{expected});
  }
  EXPECT_TRUE(eventually([&] { return loans == 1; }));
}

TEST_P(GroupCalls, PreferTheMemberThatAnswersSooner) {
  add(1);
  add(2);
  ASSERT_TRUE(sees(2));
  // One member keeps the calls that it gets. All others go to the other member, up to its slots.
  Begun first(rpc_, group_, CallServer::kKeep);
  const std::uint64_t limit = now() + kLimit;
  const auto keeper = [&]() -> Member* {
    for (const auto& member : members_) {
      if (member->server.kept() != 0) return member.get();
    }
    return nullptr;
  };
  while (keeper() == nullptr && now() < limit) (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
  ASSERT_NE(keeper(), nullptr);
  Member& loaded = *keeper();
  std::vector<std::unique_ptr<Begun>> kept;
  for (int index = 0; index < 3; ++index)
    kept.push_back(std::make_unique<Begun>(rpc_, loaded.server.id(), CallServer::kKeep));
  for (int round = 0; round < 50; ++round) {
    const Outcome outcome = call_group(kWho);
    ASSERT_EQ(outcome.outcome, RIPC_CALL_ANSWERED);
  }
  EXPECT_EQ(loaded.calls, 0) << "calls went to the member with more under way";
  for (int index = 0; index < 4; ++index) ripc_request_drop(loaded.server.take(rpc_), RIPC_OK);
  EXPECT_EQ(first.end(rpc_).outcome, RIPC_CALL_MAY_HAVE_RUN);
  for (const auto& one : kept) EXPECT_EQ(one->end(rpc_).outcome, RIPC_CALL_MAY_HAVE_RUN);
}

}  // namespace
}  // namespace conformance
