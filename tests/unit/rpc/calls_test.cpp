// SPDX-License-Identifier: Apache-2.0
// Single cases of calls on a fake network: when the clock is read, and what arrives before a send returns. Also what is
// lost with a path or with a server that ends.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fake_calls.hpp"

namespace ripc::internal::rpc {
namespace {

TEST(CallClock, IsLookedAtForOneCallIn16OnceTheFirst64WereMeasured) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  Calls calls(network, client, *server.server);
  const auto looks_of = [&](int count) {
    const std::uint64_t before = client.clock_looks + server.clock_looks;
    for (int call = 0; call < count; ++call) {
      calls.begin();
      network.run(kMillisecond);
    }
    return client.clock_looks + server.clock_looks - before;
  };
  (void)looks_of(64);
  // When the call begins, when it arrives, when it is answered, and when its answer arrives.
  EXPECT_EQ(looks_of(160), 160 / 16 * 4);
  std::map<std::uint32_t, ripc_rpc_method_statistics> methods;
  client.client->add_to(methods);
  server.server->add_to(methods);
  EXPECT_EQ(methods[1].call_time.count, 64u + 10);
  EXPECT_EQ(methods[1].request_time.count, 64u + 10);
  EXPECT_EQ(methods[1].answered, 224u);
}

TEST(CallClock, IsLookedAtForEachCallOverAPathThatLoses) {
  FakeNetwork network(7, {.lost = 1});
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  Calls calls(network, client, *server.server);
  for (int call = 0; call < 200; ++call) {
    calls.begin();
    network.run(kMillisecond);
  }
  network.run(1000 * kMillisecond);
  std::map<std::uint32_t, ripc_rpc_method_statistics> methods;
  client.client->add_to(methods);
  EXPECT_EQ(methods[1].call_time.count, 200u);
}

TEST(CallModel, SlowHandlersDoNotNarrowAPathThatLoses) {
  FakeNetwork network(7, {.may_lose = true, .delay = kMillisecond / 10});
  FakeNode client(network, kClient, {.slots = 32});
  FakeNode server(network, kServer);
  Calls calls(network, client, *server.server);
  std::vector<ripc_request*> kept;
  const ripc_rpc_handler keep = [](void* user, ripc_request* request) {
    static_cast<std::vector<ripc_request*>*>(user)->push_back(request);
  };
  ASSERT_TRUE(server.server->handle(2, {keep, &kept, false}).ok());
  for (int call = 0; call < 100; ++call) {
    calls.begin();
    network.run(kMillisecond);
  }
  calls.method = 2;
  for (const Nanoseconds time : {kMillisecond, 20 * kMillisecond}) {
    std::size_t at_once = 0;
    for (int round = 0; round < 50; ++round) {
      for (int call = 0; call < 32; ++call) calls.begin();
      for (std::size_t answered = 0; answered < 32; answered += at_once) {
        network.run(time);
        at_once = kept.size();
        ASSERT_NE(at_once, 0u);
        for (ripc_request* const request : std::exchange(kept, {}))
          EXPECT_TRUE(request->server->reply(*request, 3, {}, nullptr).ok());
      }
      network.run(kMillisecond);
    }
    EXPECT_EQ(at_once, 32u) << time;
  }
}

TEST(CallModel, ACallWaitsForAServerAsLongAsTheContextLooksForOne) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode elsewhere(network, kServer + 1);
  client.patience = UINT64_MAX;
  Calls calls(network, client, *elsewhere.server);
  calls.begin();
  network.run(30'000 * kMillisecond);
  EXPECT_TRUE(calls.ended.empty());
  FakeNode server(network, kServer);
  const Calls answers(network, client, *server.server);
  network.run(1000 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  EXPECT_EQ(calls.ended[0].outcome, std::uint32_t{RIPC_CALL_ANSWERED});
}

TEST(CallModel, ACallToAGroupDoesNotFailWithAMemberThatHasJustEnded) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode one(network, kServer);
  FakeNode other(network, kServer + 1);
  network.groups[kGroup] = {kServer, kServer + 1};
  Calls calls(network, client, *one.server);
  const Calls answers(network, client, *other.server);
  calls.to = kGroup;
  for (int call = 0; call < 20; ++call) calls.begin();  // sessions with both
  network.run(100 * kMillisecond);
  client.just_ended = kServer;
  std::array<std::byte, 8> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  calls.returns = {&room, 1};  // such a call takes the general path
  for (int call = 0; call < 20; ++call) {
    calls.begin();
    network.run(100 * kMillisecond);
  }
  ASSERT_EQ(calls.ended.size(), 40u);
  for (const ripc_call_result& end : calls.ended) EXPECT_EQ(end.outcome, std::uint32_t{RIPC_CALL_ANSWERED});
}

TEST(CallModel, ACallToAGroupGoesToTheSlowerMemberOnceTheLineOfTheQuickerOneIsFull) {
  FakeNetwork network(7);
  FakeNode client(network, kClient, {.slots = 1, .queue = 1});
  FakeNode quick(network, kServer);
  FakeNode slow(network, kServer + 1);
  network.groups[kGroup] = {kServer, kServer + 1};
  std::vector<ripc_request*> kept;
  const ripc_rpc_handler keep = [](void* user, ripc_request* request) {
    static_cast<std::vector<ripc_request*>*>(user)->push_back(request);
  };
  Calls calls(network, client, *quick.server);
  calls.to = kGroup;
  ASSERT_TRUE(slow.server->handle(1, {keep, &kept, false}).ok());
  for (std::size_t call = 1; call <= 20; ++call) {
    calls.begin();
    network.run(20 * kMillisecond);
    for (ripc_request* const request : std::exchange(kept, {}))
      EXPECT_TRUE(request->server->reply(*request, 3, {}, nullptr).ok());
    network.run(kMillisecond);
    ASSERT_EQ(calls.ended.size(), call);
  }
  ASSERT_GT(calls.runs, 0);
  ASSERT_LT(calls.runs, 20);
  // Each member has one call under way and one in line.
  for (int call = 0; call < 4; ++call) calls.begin();
  for (int call = 0; call < 2; ++call) {
    network.run(100 * kMillisecond);
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_TRUE(slow.server->reply(*kept[0], 3, {}, nullptr).ok());
    kept.clear();
  }
  network.run(100 * kMillisecond);
  EXPECT_EQ(calls.ended.size(), 24u);
}

TEST(CallModel, ACallThatDoesNotBeginLeavesNoTraceInTheStatistics) {
  FakeNetwork network(7);
  FakeNode client(network, kClient, {.slots = 1, .queue = 1});
  CallRequest request;
  request.to = kServer;
  request.method = 1;
  request.now = network.now;
  ASSERT_TRUE(client.client->begin(request, nullptr).ok());
  request.method = 2;
  EXPECT_EQ(client.client->begin(request, nullptr).code(), RIPC_AGAIN);
  std::map<std::uint32_t, ripc_rpc_method_statistics> methods;
  client.client->add_to(methods);
  EXPECT_EQ(methods.size(), 1u);
  EXPECT_EQ(methods[1].calls, 1u);
}

TEST(CallModel, ACallThatIsLostWithAPathThatLosesNothingEndsSoonAndNeverRuns) {
  FakeNetwork network(7, {.longest_delay = kMillisecond, .has_two_paths = true});
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  Calls calls(network, client, *server.server);
  calls.begin();  // opens the session
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  calls.begin();
  network.weather.lost = 1;
  network.cut(kClient, kServer, 100);
  client.disconnect(kServer);
  network.run(1000 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 2u);
  EXPECT_EQ(calls.ended[1].outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(calls.ended[1].status, RIPC_PEER_DEAD);
  EXPECT_EQ(calls.runs, 1);
}

TEST(CallModel, ACallToAGroupWhoseListNamesOnlyAnUnreachableMemberEndsWhenTheSearchDoes) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  network.groups[kGroup] = {kServer};
  FakeNode elsewhere(network, kServer + 1);
  Calls calls(network, client, *elsewhere.server);
  calls.to = kGroup;
  calls.begin();
  network.run(client.patience + 500 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u) << "its deadline is a minute away";
  EXPECT_EQ(calls.ended[0].outcome, std::uint32_t{RIPC_CALL_DID_NOT_RUN});
  EXPECT_EQ(calls.ended[0].status, RIPC_NO_SERVICE);
}

TEST(CallModel, ACallToAServiceWhoseProcessDoesNotAnswerTimesOut) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode elsewhere(network, kServer + 1);
  Calls calls(network, client, *elsewhere.server);
  // An earlier search has found that there is no service.
  calls.begin();
  network.run(client.patience + 500 * kMillisecond);
  client.looks_end = false;
  calls.begin();
  network.run(client.patience + 500 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 2u);
  EXPECT_EQ(calls.ended[0].status, RIPC_NO_SERVICE);
  EXPECT_EQ(calls.ended[1].outcome, std::uint32_t{RIPC_CALL_DID_NOT_RUN});
  EXPECT_EQ(calls.ended[1].status, RIPC_TIMEOUT);
}

TEST(CallModel, ACallThatALongReachableGroupMemberLeavesWaitsForAnotherMember) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  auto first = std::make_unique<FakeNode>(network, kServer);
  network.groups[kGroup] = {kServer};
  Calls calls(network, client, *first->server);
  calls.to = kGroup;
  calls.begin();  // finds the group
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  first->reads = false;
  calls.begin();
  network.run(2 * client.patience);
  first->end_server();  // refuses the unread call
  network.groups[kGroup] = {kServer + 1};
  network.run(client.patience / 2);
  EXPECT_EQ(calls.ended.size(), 1u);
  FakeNode other(network, kServer + 1);
  const Calls answers(network, client, *other.server);
  network.run(client.patience);
  ASSERT_EQ(calls.ended.size(), 2u);
  EXPECT_EQ(calls.ended[1].outcome, std::uint32_t{RIPC_CALL_ANSWERED});
}

TEST(CallModel, ACallWaitsInTheClientWhileItsPathIsMadeWideEnough) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  Calls calls(network, client, *server.server);
  std::array<std::byte, 8> memory{};
  const ripc_return_buffer room{memory.data(), memory.size()};
  calls.returns = {&room, 1};  // such a call takes the general path
  client.is_narrow = true;
  calls.begin();
  network.run(100 * kMillisecond);
  EXPECT_LE(client.sends, 101) << "it looks once in a millisecond";
  client.is_narrow = false;
  network.run(10 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  EXPECT_EQ(calls.ended[0].outcome, std::uint32_t{RIPC_CALL_ANSWERED});
  client.is_narrow = true;
  calls.timeout = 50 * kMillisecond;
  calls.begin();
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 2u);
  EXPECT_EQ(calls.ended[1].outcome, std::uint32_t{RIPC_CALL_DID_NOT_RUN});
  EXPECT_EQ(calls.ended[1].status, std::uint32_t{RIPC_TIMEOUT});
}

TEST(CallModel, AClientForgetsTheGroupMembersThatItHasOnlyCompared) {
  FakeNetwork network(7);
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  Calls calls(network, client, *server.server);
  calls.to = kGroup;
  constexpr std::size_t kMembers = 200;
  calls.ended.reserve(2 * kMembers);
  std::array<std::size_t, 2> used{};
  for (std::size_t& bytes : used) {
    for (std::size_t call = 0; call < kMembers; ++call) {
      // The one that exists has answered long ago, so both count as equal.
      network.groups[kGroup] = {kServer, kServer + 100 + calls.ended.size()};
      calls.begin();
      network.run(5000 * kMillisecond);
    }
    network.run(60'000 * kMillisecond);
    bytes = mallinfo2().uordblks;
  }
  EXPECT_EQ(calls.ended.size(), 2 * kMembers);
  EXPECT_LT(used[1], used[0] + kMembers / 4 * sizeof(ClientSession));
}

TEST(CallModel, CallsAreAnsweredThoughTheServerLearnsLaterThanTheClientThatAPathThatLosesIsGone) {
  FakeNetwork network(7, {.may_lose = true, .has_two_paths = true});
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  client.change_path(kServer);  // to the path that loses
  server.change_path(kClient);
  Calls calls(network, client, *server.server);
  std::vector<ripc_request*> kept;
  const ripc_rpc_handler keep = [](void* user, ripc_request* request) {
    static_cast<std::vector<ripc_request*>*>(user)->push_back(request);
  };
  ASSERT_TRUE(server.server->handle(2, {keep, &kept, false}).ok());
  calls.begin();
  calls.method = 2;
  calls.begin();
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  ASSERT_EQ(kept.size(), 1u);

  network.weather.lost = 100;
  client.change_path(kServer);
  client.client->changed();
  network.run(10 * kMillisecond);
  calls.method = 1;
  calls.begin();
  EXPECT_TRUE(kept[0]->server->reply(*kept[0], 3, {}, nullptr).ok());
  network.run(100 * kMillisecond);
  EXPECT_EQ(calls.runs, 2);
  EXPECT_EQ(calls.ended.size(), 1u);

  server.change_path(kClient);
  network.run(1000 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 3u);
  for (const ripc_call_result& result : calls.ended) EXPECT_EQ(result.outcome, RIPC_CALL_ANSWERED);
}

TEST(CallModel, CallsThatAreUnreadWhenTheirServerEndsDidNotRunAndEndAtOnce) {
  FakeNetwork network(7);
  FakeNode client(network, kClient, {.slots = 2});
  auto server = std::make_unique<FakeNode>(network, kServer);
  Calls calls(network, client, *server->server);
  calls.begin();  // opens the session
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  server->reads = false;
  for (int call = 0; call < 3; ++call) calls.begin();  // the third one waits for a slot
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 1u);
  server->end_server();
  network.run(100 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 4u);
  for (const ripc_call_result& result : std::span(calls.ended).subspan(1)) {
    EXPECT_EQ(result.outcome, RIPC_CALL_DID_NOT_RUN);
    EXPECT_EQ(result.status, RIPC_CLOSED);
  }
  // The next call is not sent to a server that does not read.
  calls.begin();
  network.run(100 * kMillisecond);
  server.reset();
  network.run(5000 * kMillisecond);
  ASSERT_EQ(calls.ended.size(), 5u);
  EXPECT_EQ(calls.ended[4].outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(calls.ended[4].status, RIPC_NO_SERVICE);
  EXPECT_EQ(calls.runs, 1);
}

TEST(CallModel, AClientThatAsksAgainForItsSessionGetsTheSame) {
  FakeNetwork network(7, {.lost = 60, .doubled = 30, .longest_delay = kMillisecond});
  FakeNode server(network, kServer);
  std::vector<std::unique_ptr<FakeNode>> clients;
  for (ripc_service_id id = 100; id < 150; ++id) {
    clients.push_back(std::make_unique<FakeNode>(network, id));
    CallRequest request;
    request.to = kServer;
    request.method = 1;
    request.now = network.now;
    request.deadline = network.now + 5000 * kMillisecond;
    request.done = [](void*, const ripc_call_result* result) { ripc_message_release(result->message); };
    ASSERT_TRUE(clients.back()->client->begin(request, nullptr).ok());
  }
  network.run(5000 * kMillisecond);
  ripc_rpc_statistics statistics{};
  server.server->add_to(statistics);
  EXPECT_EQ(statistics.sessions_served, 50u);
}

TEST(CallModel, EveryCallToALivingServerIsAnsweredInTimeDespiteLosses) {
  FakeNetwork network(7, {.lost = 20, .doubled = 10, .longest_delay = kMillisecond});
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  ASSERT_TRUE(server.server
                  ->handle(1, {[](void*, ripc_request* request) {
                                 EXPECT_TRUE(request->server->reply(*request, 3, {}, nullptr).ok());
                               },
                               nullptr, false})
                  .ok());
  int answered = 0;
  for (int call = 0; call < 200; ++call) {
    CallRequest request;
    request.to = kServer;
    request.method = 1;
    request.now = network.now;
    request.deadline = network.now + 5000 * kMillisecond;
    request.user = &answered;
    request.done = [](void* user, const ripc_call_result* result) {
      *static_cast<int*>(user) += result->outcome == RIPC_CALL_ANSWERED && result->code == 3;
      ripc_message_release(result->message);
    };
    ASSERT_TRUE(client.client->begin(request, nullptr).ok());
  }
  network.run(5000 * kMillisecond);
  EXPECT_EQ(answered, 200);
  ripc_rpc_statistics statistics{};
  server.server->add_to(statistics);
  EXPECT_EQ(statistics.requests_run, 200u);
  EXPECT_GT(statistics.duplicates, 0u);
  EXPECT_GT(statistics.answers_repeated, 0u);
}

// How a call ends if its refusal, and then `late`, arrive before its send returns. Nothing is lost, so each arrives
// once.
ripc_call_result end_in_send(std::optional<wire::call::State> late) {
  using wire::call::Header;
  std::vector<ripc_call_result> ends;
  std::array<std::byte, 100> memory{};
  FakeNetwork network(1);
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  Header refused{.kind = wire::call::Kind::state};
  const auto refuse = [](void* user, ripc_request* request) {
    auto& header = *static_cast<Header*>(user);
    header.number = request->number;
    header.session = request->session;
    request->server->drop(*request, RIPC_AGAIN, wire::call::State::not_run);
  };
  EXPECT_TRUE(server.server->handle(1, {refuse, &refused, false}).ok());
  const ripc_return_buffer room{memory.data(), memory.size()};
  CallRequest request;
  request.to = kServer;
  request.method = 1;
  request.now = network.now;
  request.deadline = network.now + 30'000 * kMillisecond;
  request.done = [](void* user, const ripc_call_result* result) {
    static_cast<std::vector<ripc_call_result>*>(user)->push_back(*result);
  };
  request.user = &ends;
  std::uint64_t name = 0;
  EXPECT_TRUE(client.client->begin(request, &name).ok());  // opens the session
  network.run(100 * kMillisecond);
  EXPECT_EQ(ends.size(), 1U);

  request.returns = {&room, 1};
  client.during_send = [&] {
    network.run(kMillisecond);
    if (!late) return;
    std::vector<std::byte> bytes(wire::call::kHeaderSize);
    refused.state = *late;
    wire::call::encode(refused, bytes.data());
    client.received(kServer, {bytes});
  };
  EXPECT_TRUE(client.client->begin(request, &name).ok());
  client.during_send = nullptr;
  network.run(100 * kMillisecond);
  EXPECT_EQ(ends.size(), 2U);
  return ends.back();
}

TEST(CallReturns, ARepeatedAnswerBringsWhatTheFirstOneCarried) {
  FakeNetwork network(1);
  FakeNode client(network, kClient);
  FakeNode server(network, kServer);
  ripc_request* taken = nullptr;
  const auto take = [](void* user, ripc_request* request) { *static_cast<ripc_request**>(user) = request; };
  ASSERT_TRUE(server.server->handle(1, {take, &taken, false}).ok());
  std::array<std::byte, 8> carried_to{}, written_to{}, too_small{};
  const std::array<ripc_return_buffer, 3> rooms{
      {{carried_to.data(), carried_to.size()}, {written_to.data(), written_to.size()}, {too_small.data(), 2}}};
  std::vector<ripc_item_view> views;
  CallRequest request;
  request.to = kServer;
  request.method = 1;
  request.now = network.now;
  request.deadline = network.now + 30'000 * kMillisecond;
  request.returns = rooms;
  request.done = [](void* user, const ripc_call_result* result) {
    static_cast<std::vector<ripc_item_view>*>(user)->assign(result->items, result->items + result->item_count);
    ripc_message_release(result->message);
  };
  request.user = &views;
  ASSERT_TRUE(client.client->begin(request, nullptr).ok());
  network.run(100 * kMillisecond);
  ASSERT_NE(taken, nullptr);

  const std::array bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  std::vector<std::vector<std::byte>> answer(4, std::vector<std::byte>(wire::call::kHeaderSize));
  wire::call::encode(
      {.kind = wire::call::Kind::answer, .number = taken->number, .session = taken->session, .incarnation = 7},
      answer[0].data());
  for (std::uint32_t index = 0; index < 3; ++index) {
    const bool is_carried = index != 1;
    answer[index + 1].resize(wire::call::kReturnedSize + (is_carried ? bytes.size() : 0));
    wire::call::encode_returned(
        {index, bytes.size(), is_carried ? std::span<const std::byte>(bytes) : std::span<const std::byte>()},
        answer[index + 1].data());
  }
  client.received(kServer, answer);
  ASSERT_EQ(views.size(), 3u);
  for (std::size_t index = 0; index < 2; ++index) {
    EXPECT_EQ(views[index].kind, RIPC_VIEW_RETURNED);
    EXPECT_EQ(views[index].return_index, index);
    EXPECT_EQ(views[index].data, rooms[index].data);
    EXPECT_EQ(views[index].size, bytes.size());
  }
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), carried_to.begin()));
  EXPECT_EQ(written_to, (std::array<std::byte, 8>{})) << "the first answer wrote it";
  EXPECT_EQ(views[2].kind, RIPC_VIEW_FAILED) << "it does not fit";
  EXPECT_EQ(too_small, (std::array<std::byte, 8>{}));
  server.server->drop(*taken, RIPC_CANCELLED, wire::call::State::may_have_run);
}

TEST(CallInSend, EndsWithARefusalThatComesBeforeTheSendReturns) {
  const ripc_call_result end = end_in_send({});
  EXPECT_EQ(end.outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(end.status, RIPC_AGAIN);
}

TEST(CallInSend, EndsWithARefusalThoughAnEarlierStateComesLate) {
  for (const wire::call::State late : {wire::call::State::running, wire::call::State::unseen}) {
    const ripc_call_result end = end_in_send(late);
    EXPECT_EQ(end.outcome, RIPC_CALL_DID_NOT_RUN);
    EXPECT_EQ(end.status, RIPC_AGAIN);
  }
}

}  // namespace
}  // namespace ripc::internal::rpc
