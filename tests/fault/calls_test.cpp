// SPDX-License-Identifier: Apache-2.0
// Calls whose server or client is killed at any moment, or whose server loses its ID to another process, and calls over
// a cable that loses, doubles and reorders packets. The server logs what ran, and the client what it got, in
// shared memory that outlives them. Both logs must agree: nothing runs twice, and each outcome is true.
// RIPC_FAULT_ROUNDS sets the number of kills, RIPC_FAULT_SEED the moments.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "hosts_fixture.hpp"
#include "ripc/rpc.h"

namespace fault {
namespace {

constexpr ripc_service_id kServer = 2001;
constexpr ripc_service_id kClient = 2002;
constexpr std::uint32_t kMethod = 1;
constexpr std::size_t kMaxCalls = 1 << 24;
constexpr std::size_t kUnderWay = 16;
constexpr std::size_t kLarge = 100'000;  // of what some calls carry there, and back into a return buffer
constexpr int kIsFenced = 4;             // the server's exit code

using Rpc = std::unique_ptr<ripc_rpc, support::Release<ripc_rpc_destroy>>;
using Bytes = std::vector<std::byte>;

Rpc make_rpc(const Service& service) {
  ripc_rpc* made = nullptr;
  EXPECT_EQ(ripc_rpc_create(service.get(), nullptr, &made), RIPC_OK) << ripc_last_error();
  return Rpc(made);
}

// A number for each call, in a file that several processes map: how often it ran, or what its caller knows.
class CallLog {
 public:
  explicit CallLog(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::ftruncate(fd, kMaxCalls), 0);
    void* const memory = ::mmap(nullptr, kMaxCalls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT_NE(memory, MAP_FAILED);
    ::close(fd);
    of_calls_ = static_cast<std::atomic<std::uint8_t>*>(memory);
  }
  ~CallLog() { ::munmap(static_cast<void*>(of_calls_), kMaxCalls); }
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  std::atomic<std::uint8_t>& of(std::uint64_t call) { return of_calls_[call]; }

 private:
  std::atomic<std::uint8_t>* of_calls_ = nullptr;
};

// What a caller logs: an outcome is this and more.
constexpr std::uint8_t kBegun = 1;
constexpr std::uint8_t kEnded = 2;

bool is_large(std::uint64_t call) { return call % 50 == 3; }
Bytes large_part_of(std::uint64_t call) { return Bytes(kLarge, static_cast<std::byte>(call * 31)); }

bool is_true(ripc_call_outcome outcome, int runs) {
  return outcome == RIPC_CALL_ANSWERED ? runs == 1 : runs <= (outcome == RIPC_CALL_DID_NOT_RUN ? 0 : 1);
}

// Logs each call, answers most at once, some after others, and a few never. Arguments DIRECTORY TRANSPORT LOG.
int server(const std::vector<std::string>& arguments) {
  struct State {
    CallLog log;
    std::deque<ripc_request*> later = {};
    static std::uint64_t number_of(ripc_request* request) {
      ripc_item_view view;
      std::uint64_t number = 0;
      if (ripc_request_get_item(request, 0, &view) == RIPC_OK && view.size == sizeof number)
        std::memcpy(&number, view.data, sizeof number);
      return number;
    }
    static void answer(ripc_request* request) {
      const std::uint64_t answer = ~number_of(request);
      ripc_item items[] = {{&answer, sizeof answer, RIPC_ITEM_AUTO, 0}, {}};
      ripc_item_view large;
      const std::size_t count = ripc_request_get_item_count(request);
      if (count == 2 && ripc_request_get_item(request, 1, &large) == RIPC_OK)
        items[1] = {large.data, large.size, RIPC_ITEM_RETURN, 0};
      if (ripc_request_reply(request, 0, items, count, nullptr) != RIPC_OK) ripc_request_drop(request, RIPC_CANCELLED);
    }
    static void handle(void* user, ripc_request* request) {
      auto& self = *static_cast<State*>(user);
      const std::uint64_t number = number_of(request);
      ++self.log.of(number % kMaxCalls);
      if (number % 50 == 7) return ripc_request_drop(request, RIPC_PERMISSION);
      if (number % 5 != 0) return answer(request);
      self.later.push_back(request);
      if (self.later.size() < 3) return;
      answer(self.later.front());
      self.later.pop_front();
    }
  };
  State state{CallLog(arguments.at(2))};
  const Context context = make_context(arguments.at(0), 0, arguments.at(1).c_str());
  if (!context) return 1;
  const Service service = make_service(context, kServer, [](ripc_service_options& options) { options.takeover = 1; });
  if (!service) return 1;
  const Rpc rpc = make_rpc(service);
  if (ripc_rpc_handle(rpc.get(), kMethod, 0, &State::handle, &state) != RIPC_OK) return 1;
  ripc_status status = RIPC_OK;
  while (status == RIPC_OK) status = ripc_rpc_run(rpc.get(), RIPC_FOREVER, nullptr);
  for (ripc_request* request : state.later) ripc_request_drop(request, RIPC_CANCELLED);
  return status == RIPC_FENCED ? kIsFenced : 1;
}

// Keeps calls under way, and knows how each of them ended. `told`, if it is given, gets to know it too.
class Caller {
 public:
  Caller(const Context& context, ripc_service_id id, CallLog* told = nullptr, std::uint64_t first = 0)
      : service_(make_service(context, id)), rpc_(make_rpc(service_)), told_(told), first_(first) {}

  void run(std::uint64_t timeout) {
    while (under_way_ < kUnderWay && first_ + ends_.size() < kMaxCalls - 1) begin(timeout);
    (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
  }
  bool settle() {
    return eventually([this] {
      (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
      return under_way_ == 0;
    });
  }
  std::uint64_t count(ripc_call_outcome outcome) const { return counts_[outcome]; }
  ripc_rpc_statistics statistics() const {
    ripc_rpc_statistics statistics;
    ripc_rpc_statistics_init(&statistics);
    EXPECT_EQ(ripc_rpc_get_statistics(rpc_.get(), &statistics), RIPC_OK);
    return statistics;
  }
  // "", or what is not as it should be.
  std::string flaw(CallLog& log) const {
    for (std::size_t call = 0; call < ends_.size(); ++call) {
      const End& end = ends_[call];
      const int runs = log.of(end.number);
      if (end.times == 1 && end.is_right && is_true(end.outcome, runs)) continue;
      return "call " + std::to_string(call) + " ran " + std::to_string(runs) + " times, ended " +
             std::to_string(end.times) + " times with outcome " + std::to_string(end.outcome) + ", " +
             ripc_status_name(end.status) + (end.is_right ? "" : ", wrong answer");
    }
    return "";
  }

 private:
  struct End {
    Caller* caller = nullptr;
    std::uint64_t number = 0;
    int times = 0;
    ripc_call_outcome outcome = RIPC_CALL_ANSWERED;
    ripc_status status = RIPC_PENDING;
    bool is_right = true;
    Bytes large = {};  // the return buffer
  };

  void begin(std::uint64_t timeout) {
    End& end = ends_.emplace_back(End{this, first_ + ends_.size()});
    if (told_ != nullptr) told_->of(end.number) = kBegun;
    const Bytes large = is_large(end.number) ? large_part_of(end.number) : Bytes();
    const ripc_item arguments[] = {{&end.number, sizeof end.number, RIPC_ITEM_AUTO, 0},
                                   {large.data(), large.size(), RIPC_ITEM_AUTO, 0}};
    end.large.resize(large.size());
    const ripc_return_buffer buffer{end.large.data(), end.large.size()};
    ripc_call_options options;
    ripc_call_options_init(&options);
    options.timeout = timeout;
    options.returns = &buffer;
    options.return_count = large.empty() ? 0 : 1;
    ++under_way_;
    ASSERT_EQ(ripc_rpc_call(rpc_.get(), kServer, kMethod, arguments, large.empty() ? 1 : 2, &options, &Caller::done,
                            &end, nullptr),
              RIPC_OK)
        << ripc_last_error();
  }
  static void done(void* user, const ripc_call_result* result) {
    End& end = *static_cast<End*>(user);
    ++end.times;
    end.outcome = static_cast<ripc_call_outcome>(result->outcome);
    end.status = static_cast<ripc_status>(result->status);
    if (result->outcome == RIPC_CALL_ANSWERED) {
      const std::uint64_t expected = ~end.number;
      end.is_right = result->item_count == (end.large.empty() ? 1 : 2) && result->items[0].size == sizeof expected &&
                     std::memcmp(result->items[0].data, &expected, sizeof expected) == 0;
      if (!end.large.empty() && end.is_right)
        end.is_right = result->items[1].kind == RIPC_VIEW_RETURNED && end.large == large_part_of(end.number);
    }
    end.large = Bytes();
    ripc_message_release(result->message);
    if (CallLog* const told = end.caller->told_) told->of(end.number) = static_cast<std::uint8_t>(kEnded + end.outcome);
    --end.caller->under_way_;
    ++end.caller->counts_[end.outcome];
  }

  const Service service_;
  const Rpc rpc_;
  CallLog* const told_;
  const std::uint64_t first_;  // number of a call
  std::deque<End> ends_;       // whose addresses stay
  std::size_t under_way_ = 0;
  std::uint64_t counts_[3] = {};
};

// Calls until it is killed. Arguments DIRECTORY TRANSPORT LOG FIRST.
int client(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0), 0, arguments.at(1).c_str());
  if (!context) return 1;
  CallLog told(arguments.at(2));
  Caller caller(context, kClient, &told, std::stoull(arguments.at(3)));
  for (;;) caller.run(2 * kSecond);
}

class CallsAndKills : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, CallsAndKills, testing::Values("shm", "socket"),
                         [](const auto& one) { return one.param; });

TEST_P(CallsAndKills, RunAtMostOnceAndEndWithATrueOutcome) {
  const auto [rounds, seed] = rounds_from_environment(4);
  Random random(seed);
  const TemporaryDirectory directory;
  CallLog log(directory.path() + "/runs");
  const Context context = make_context(directory.path(), 0, GetParam());
  Caller caller(context, kClient);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Process process("server", {directory.path(), GetParam(), directory.path() + "/runs"});
    const std::uint64_t before = caller.count(RIPC_CALL_ANSWERED);
    // Every third one dies before it is known to have answered.
    if (round % 3 != 0) {
      ASSERT_TRUE(eventually([&] {
        caller.run(2 * kSecond);
        return caller.count(RIPC_CALL_ANSWERED) != before;
      })) << "nothing is answered";
    }
    for (std::uint64_t steps = random.below(200); steps != 0; --steps) caller.run(2 * kSecond);
    process.kill();
  }
  ASSERT_TRUE(caller.settle()) << "a call never ends";
  EXPECT_EQ(caller.flaw(log), "");
  EXPECT_GT(caller.count(RIPC_CALL_ANSWERED), rounds);
  EXPECT_GT(caller.count(RIPC_CALL_MAY_HAVE_RUN), 0u);
  std::printf("%llu answered, %llu did not run, %llu may have run\n",
              static_cast<unsigned long long>(caller.count(RIPC_CALL_ANSWERED)),
              static_cast<unsigned long long>(caller.count(RIPC_CALL_DID_NOT_RUN)),
              static_cast<unsigned long long>(caller.count(RIPC_CALL_MAY_HAVE_RUN)));
}

// The former server is alive, and learns in the midst of calls that it is not the server any more.
TEST_P(CallsAndKills, RunAtMostOnceAndEndWithATrueOutcomeWhenTheServersIdIsTakenOver) {
  const auto [rounds, seed] = rounds_from_environment(4);
  Random random(seed);
  const TemporaryDirectory directory;
  const std::vector<std::string> arguments{directory.path(), GetParam(), directory.path() + "/runs"};
  CallLog log(arguments.back());
  const Context context = make_context(directory.path(), 0, GetParam());
  Caller caller(context, kClient);
  Process holder("server", arguments);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::uint64_t before = caller.count(RIPC_CALL_ANSWERED);
    ASSERT_TRUE(eventually([&] {
      caller.run(2 * kSecond);
      return caller.count(RIPC_CALL_ANSWERED) != before;
    })) << "nothing is answered";
    for (std::uint64_t steps = random.below(200); steps != 0; --steps) caller.run(2 * kSecond);
    Process next("server", arguments);
    ASSERT_TRUE(eventually([&] {
      caller.run(2 * kSecond);
      return holder.wait(0) == kIsFenced;
    })) << "the former server goes on";
    holder = std::move(next);
  }
  ASSERT_TRUE(caller.settle()) << "a call never ends";
  EXPECT_EQ(caller.flaw(log), "");
  EXPECT_GT(caller.count(RIPC_CALL_ANSWERED), rounds);
}

TEST_P(CallsAndKills, RunAtMostOnceAndAreReportedTrulyWhenTheClientIsKilled) {
  const auto [rounds, seed] = rounds_from_environment(4);
  Random random(seed);
  const TemporaryDirectory directory;
  const std::string told_path = directory.path() + "/told";
  CallLog runs(directory.path() + "/runs");
  CallLog told(told_path);
  const Process server("server", {directory.path(), GetParam(), directory.path() + "/runs"});
  std::uint64_t next = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Process process("client", {directory.path(), GetParam(), told_path, std::to_string(next)});
    // Most die after some answers, others before they are known to have one.
    const std::uint64_t last = next + random.below(200);
    const std::uint8_t wanted = round % 3 != 0 ? kEnded : kBegun;
    ASSERT_TRUE(eventually([&] { return told.of(last) >= wanted; })) << "calls stand still";
    process.kill();
    while (told.of(next) != 0) ++next;
  }
  // The server has lost nothing by it.
  const Context context = make_context(directory.path(), 0, GetParam());
  Caller caller(context, kClient, nullptr, next);
  ASSERT_TRUE(eventually([&] {
    caller.run(2 * kSecond);
    return caller.count(RIPC_CALL_ANSWERED) != 0;
  })) << "nothing is answered";
  ASSERT_TRUE(caller.settle()) << "a call never ends";
  EXPECT_EQ(caller.flaw(runs), "");
  std::uint64_t unknown = 0;
  for (std::uint64_t call = 0; call < next; ++call) {
    const std::uint8_t known = told.of(call);
    const bool is_known = known >= kEnded;
    unknown += is_known ? 0 : 1;
    ASSERT_LE(runs.of(call), 1) << "call " << call;
    ASSERT_TRUE(!is_known || is_true(static_cast<ripc_call_outcome>(known - kEnded), runs.of(call))) << "call " << call;
  }
  EXPECT_GT(unknown, 0u);
  EXPECT_LT(unknown, next);
  std::printf("%llu calls, %llu of them under way when their client was killed\n",
              static_cast<unsigned long long>(next), static_cast<unsigned long long>(unknown));
}

// Two hosts.
class CallsOverABadCable : public RelayedHostTest {
 protected:
  void SetUp() override {
    RelayedHostTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(setenv("RIPC_PEER_TIMEOUT_MS", "20000", 1), 0);
    path_ = directory_here_.path() + "/runs";
    log_.emplace(path_);
    process_ = hosts_.start_there("server", {directory_there_.path(), "socket", path_});
    context_ = make_far_context(directory_here_.path());
    caller_.emplace(context_, kClient);
  }
  // With what happens to packets, of 1000 of them.
  void call_many(const Weather& weather, std::uint64_t wanted) {
    hosts_.relay().set(weather);
    const std::uint64_t until = caller_->count(RIPC_CALL_ANSWERED) + wanted;
    ASSERT_TRUE(eventually(
        [&] {
          caller_->run(10 * kSecond);
          return caller_->count(RIPC_CALL_ANSWERED) >= until;
        },
        60 * kSecond))
        << "calls stand still";
  }
  void check() {
    hosts_.relay().set({});
    ASSERT_TRUE(eventually([&] { return caller_->settle(); })) << "a call never ends";
    EXPECT_EQ(caller_->flaw(*log_), "");
  }

  std::string path_;
  std::optional<CallLog> log_;
  Context context_;
  std::optional<Caller> caller_;
};

TEST_F(CallsOverABadCable, AreAnsweredWhateverIsLostDoubledAndReordered) {
  ASSERT_NO_FATAL_FAILURE(call_many({}, 500));
  for (const std::uint64_t lost : {std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{100}}) {
    SCOPED_TRACE(std::to_string(lost) + " of 1000 packets are lost");
    ASSERT_NO_FATAL_FAILURE(call_many({.lost = lost, .duplicated = 20, .reordered = 20}, 500));
  }
  check();
  // Calls to a server that lives are answered in spite of it, or dropped by their handler.
  EXPECT_EQ(caller_->count(RIPC_CALL_DID_NOT_RUN), 0u);
  EXPECT_GT(caller_->statistics().repeats, 0u);
}

TEST_F(CallsOverABadCable, SurviveAPartition) {
  ASSERT_NO_FATAL_FAILURE(call_many({}, 100));
  hosts_.plug(false);
  const std::uint64_t until = now() + 3 * kSecond;
  while (now() < until) caller_->run(10 * kSecond);
  hosts_.plug(true);
  ASSERT_NO_FATAL_FAILURE(call_many({}, 200));
  check();
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) {
  return fault::run(argc, argv, {{"server", fault::server}, {"client", fault::client}});
}
