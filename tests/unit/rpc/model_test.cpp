// SPDX-License-Identifier: Apache-2.0
// Random schedules of calls, losses, restarts and cancels against what calls promise: a handler runs at most once, each
// call ends once and in time, and its outcome is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <optional>
#include <string>

#include "fake_network.hpp"

namespace ripc::internal::rpc {
namespace {

constexpr ripc_service_id kClient = 1;
constexpr ripc_service_id kServer = 2;  // the first
constexpr ripc_service_id kGroup = ripc_service_id{1} << 62 | 5;
constexpr Nanoseconds kMillisecond = 1'000'000;

// What is known of one call, by whoever knows everything.
struct Known {
  bool is_idempotent = false;
  int runs = 0;
  int ends = 0;
  ripc_call_result result{};
  std::uint64_t answer = 0;
  Nanoseconds deadline = 0;
  Nanoseconds ended_at = 0;
};

class Schedule {
 public:
  // members: 0 for calls to one server, else of the group that is called.
  Schedule(unsigned seed, Weather weather, std::size_t members)
      : network_(seed, weather),
        client_(network_, kClient, {.slots = 4}),
        to_(members == 0 ? kServer : kGroup),
        servers_(std::max<std::size_t>(members, 1)) {
    for (std::size_t index = 0; index < servers_.size(); ++index) {
      if (members != 0) network_.groups[kGroup].insert(kServer + index);
      start_server(index);
    }
  }
  ~Schedule() { end_requests(); }
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const auto what = network_.random() % 100;
      if (what < 40) begin();
      if (what >= 40 && what < 70) answer_one();
      if (what >= 70 && what < 74) cancel_one();
      if (what >= 74 && what < 76) client_.disconnect(kServer + any_server());
      if (what == 76) restart();
      network_.run(network_.up_to(5 * kMillisecond));
    }
    while (!requests_.empty()) answer_one();
    // Until the last deadline, and until nothing that was sent can still arrive.
    network_.run(60'000 * kMillisecond);
  }

  // How many calls were answered; 0 after a failure.
  int check() const {
    int answered = 0;
    for (const auto& [number, call] : calls_) {
      SCOPED_TRACE("call " + std::to_string(number));
      const bool is_answered = call.result.outcome == RIPC_CALL_ANSWERED;
      EXPECT_EQ(call.ends, 1);
      EXPECT_LE(call.ended_at, call.deadline + 2 * TimerWheel::kTick);
      EXPECT_EQ(call.result.status == RIPC_OK, is_answered);
      EXPECT_EQ(call.answer, is_answered ? ~number : 0);
      EXPECT_GE(call.runs, is_answered ? 1 : 0);
      const int most_runs = call.is_idempotent ? INT_MAX : 1;
      EXPECT_LE(call.runs, call.result.outcome == RIPC_CALL_DID_NOT_RUN ? 0 : most_runs);
      if (testing::Test::HasFailure()) return 0;
      answered += is_answered ? 1 : 0;
    }
    return answered;
  }

 private:
  struct Begun {
    Schedule* schedule;
    std::uint64_t number;
  };

  std::size_t any_server() { return network_.random() % servers_.size(); }
  void start_server(std::size_t index) {
    servers_[index] = std::make_unique<FakeNode>(network_, kServer + index);
    ASSERT_TRUE(servers_[index]->server->handle(1, {&Schedule::handle, this, false}).ok());
  }
  void restart() {
    const std::size_t index = any_server();
    const std::shared_ptr<Server> ended = servers_[index]->server;
    servers_[index].reset();
    end_requests(ended.get());
    network_.run(network_.up_to(300 * kMillisecond));
    start_server(index);
  }
  // Of one server, or of all.
  void end_requests(const Server* server = nullptr) {
    std::erase_if(requests_, [&](ripc_request* request) {
      if (server != nullptr && request->server != server) return false;
      request->server->drop(*request, RIPC_CANCELLED, wire::call::State::may_have_run);
      return true;
    });
  }

  void begin() {
    const std::uint64_t number = ++last_;
    Known& call = calls_[number];
    begun_.push_back(std::make_unique<Begun>(Begun{this, number}));
    const ripc_item argument{&number, sizeof number, RIPC_ITEM_AUTO, 0};
    CallRequest request;
    request.to = to_;
    request.method = 1;
    request.items = {&argument, 1};
    request.is_idempotent = call.is_idempotent = to_ == kGroup && network_.chance(50);
    request.is_rough = network_.chance(30);
    request.now = request.is_rough ? client_.rough_now() : network_.now;
    request.deadline = request.now + (request.is_rough ? 1000 * kMillisecond : 1) + network_.up_to(2000 * kMillisecond);
    request.done = &Schedule::done;
    request.user = begun_.back().get();
    call.deadline = request.deadline;
    std::uint64_t name = 0;
    ASSERT_TRUE(client_.client->begin(request, &name).ok());
    names_.push_back(name);
  }
  void cancel_one() {
    if (!names_.empty()) (void)client_.client->cancel(names_[network_.random() % names_.size()]);
  }
  void answer_one() {
    if (requests_.empty()) return;
    const std::size_t index = network_.random() % requests_.size();
    ripc_request& request = *requests_[index];
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
    if (network_.chance(5)) return request.server->drop(request, RIPC_CANCELLED, wire::call::State::may_have_run);
    const std::uint64_t answer = ~number_of(request);
    const ripc_item item{&answer, sizeof answer, RIPC_ITEM_AUTO, 0};
    if (!request.server->reply(request, 0, {&item, 1}, nullptr).ok())
      request.server->drop(request, RIPC_CANCELLED, wire::call::State::may_have_run);
  }
  static std::uint64_t number_of(const ripc_request& request) {
    std::uint64_t number = 0;
    std::memcpy(&number, request.items[0].data, sizeof number);
    return number;
  }

  static void handle(void* user, ripc_request* request) {
    auto& self = *static_cast<Schedule*>(user);
    ++self.calls_.at(number_of(*request)).runs;
    self.requests_.push_back(request);
    if (self.network_.chance(50)) self.answer_one();
  }
  static void done(void* user, const ripc_call_result* result) {
    const Begun& begun = *static_cast<Begun*>(user);
    Known& call = begun.schedule->calls_.at(begun.number);
    ++call.ends;
    call.result = *result;
    call.ended_at = begun.schedule->network_.now;
    if (result->item_count == 1) std::memcpy(&call.answer, result->items[0].data, sizeof call.answer);
    ripc_message_release(result->message);
  }

  FakeNetwork network_;
  FakeNode client_;
  const ripc_service_id to_;
  std::vector<std::unique_ptr<FakeNode>> servers_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Known> calls_;
  std::vector<std::unique_ptr<Begun>> begun_;
  std::vector<std::uint64_t> names_;
  std::vector<ripc_request*> requests_;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kShare = 10;  // of the schedules, which take ten times as long
#else
constexpr unsigned kShare = 1;
#endif

void run_schedules(unsigned all, Weather weather, std::size_t members = 0) {
  const unsigned count = all / kShare;
  int answered = 0;
  for (unsigned seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule schedule(seed, weather, members);
    schedule.run(120);
    answered += schedule.check();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(answered, static_cast<int>(count));
}

TEST(CallModel, HoldsWhereNothingIsLost) { run_schedules(1000, {.longest_delay = 3 * kMillisecond}); }

TEST(CallModel, HoldsWhereServersEndBeforeTheyHaveReadAll) {
  run_schedules(1000, {.unread = 50, .longest_delay = 3 * kMillisecond});
  run_schedules(500, {.lost = 10, .doubled = 10, .unread = 50, .longest_delay = 10 * kMillisecond});
  run_schedules(500, {.unread = 50, .longest_delay = 3 * kMillisecond}, 3);
}

TEST(CallModel, HoldsWhereMessagesFindNoRoom) {
  run_schedules(1000, {.without_room = 30, .longest_delay = 3 * kMillisecond});
}

TEST(CallModel, HoldsUnderLossDuplicationAndReordering) {
  run_schedules(2000, {.lost = 10, .doubled = 10, .without_room = 5, .longest_delay = 30 * kMillisecond});
}

TEST(CallModel, HoldsWhereMostIsLost) { run_schedules(500, {.lost = 60, .doubled = 5, .longest_delay = kMillisecond}); }

TEST(CallModel, HoldsOfGroupsWhereNothingIsLost) {
  run_schedules(1000, {.without_room = 10, .longest_delay = 3 * kMillisecond}, 3);
}

TEST(CallModel, HoldsOfGroupsUnderLossDuplicationAndReordering) {
  run_schedules(1000, {.lost = 10, .doubled = 10, .without_room = 5, .longest_delay = 30 * kMillisecond}, 3);
}

TEST(CallModel, HoldsWherePathsThatLoseAndPathsThatDoNotTakeTurns) {
  run_schedules(1000, {.lost = 10, .doubled = 5, .longest_delay = 10 * kMillisecond, .has_two_paths = true});
}

// Calls with much time, of a server that answers each at once.
struct Calls {
  Calls(FakeNetwork& on, FakeNode& from, Server& server) : network(on), client(from) {
    const ripc_rpc_handler answer = [](void* user, ripc_request* request) {
      ++static_cast<Calls*>(user)->runs;
      EXPECT_TRUE(request->server->reply(*request, 3, {}, nullptr).ok());
    };
    EXPECT_TRUE(server.handle(1, {answer, this, false}).ok());
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  void begin() {
    CallRequest request;
    request.to = to;
    request.method = 1;
    request.is_rough = true;
    request.now = client.rough_now();
    request.deadline = request.now + 60'000 * kMillisecond;
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
  int runs = 0;
  std::vector<ripc_call_result> ended;
};

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
  // When it begins, when it comes, when it is answered, and when its answer comes.
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
  // One under way and one in line at each.
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
  // The next one is not sent to where nobody reads.
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

// How a call ends whose refusal, and then `late`, come before its send returns. Nothing is lost, so each comes once.
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
