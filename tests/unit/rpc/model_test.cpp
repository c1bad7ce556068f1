// SPDX-License-Identifier: Apache-2.0
// Checks what calls promise in random schedules of calls, losses, restarts and cancels. A handler runs at most once,
// each call ends once and in time, and its outcome is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fake_calls.hpp"

namespace ripc::internal::rpc {
namespace {

// What the test, which sees both ends, knows about one call.
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
  // members: the number of members of the called group; 0 for calls to one server.
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
      if (what == 77) client_.lose_and_remake_path(kServer + any_server());
      network_.run(network_.up_to(5 * kMillisecond));
    }
    while (!requests_.empty()) answer_one();
    // Runs past the last deadline, and until nothing that was sent can still arrive.
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
  // Ends the requests of one server, or of all.
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
constexpr unsigned kShare = 10;  // runs a tenth of the schedules, which take ten times as long
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

}  // namespace
}  // namespace ripc::internal::rpc
