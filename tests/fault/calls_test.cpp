// SPDX-License-Identifier: Apache-2.0
// Tests calls whose server or client is killed at any moment, or whose server loses its ID to another process. Also
// tests calls over a cable that loses, duplicates and reorders packets. The logs of the server and the client must
// agree: no call runs twice, and each outcome is true.
// RIPC_FAULT_ROUNDS sets the number of kills, RIPC_FAULT_SEED chooses their moments.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "call_ends.hpp"
#include "hosts_fixture.hpp"
#include "support/process_state.hpp"

namespace fault {
namespace {

// The client's role: makes calls until it is killed. Arguments DIRECTORY TRANSPORT LOG FIRST.
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
    // Every third server is killed without waiting for its first answer.
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

// The former server is alive and learns in the middle of calls that it is no longer the server.
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
    // Most clients die after some answers, every third one without waiting for an answer.
    const std::uint64_t last = next + random.below(200);
    const std::uint8_t wanted = round % 3 != 0 ? kEnded : kBegun;
    ASSERT_TRUE(eventually([&] { return told.of(last) >= wanted; })) << "calls stand still";
    process.kill();
    while (told.of(next) != 0) ++next;
  }
  // The server still serves a new client.
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

// The link needs a connection for the argument, and a stopped server makes none.
TEST(CallsToAStoppedServer, BeginWithoutWaitingForTheConnectionOfTheirLink) {
  const TemporaryDirectory directory;
  CallLog log(directory.path() + "/runs");
  const Process server("server", {directory.path(), "socket", directory.path() + "/runs"});
  const Context context = make_context(directory.path(), 0, "socket");
  Caller caller(context, kClient);
  caller.release(60 * kSecond);
  ASSERT_TRUE(caller.settle()) << "nothing is answered";
  server.signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return support::state_of_process(server.pid()) == 'T'; }));
  const Caller::End& large = caller.hold_large(kSecond, 100'000);
  EXPECT_TRUE(caller.settle()) << "it never ends";
  EXPECT_EQ(large.outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(large.status, RIPC_TIMEOUT);
  server.signal(SIGCONT);
  caller.release(60 * kSecond);
  ASSERT_TRUE(caller.settle()) << "calls stand still";
  EXPECT_EQ(caller.flaw(log), "");
}

// The server is on another host, behind a relayed cable.
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
  // Makes calls until `wanted` more are answered. `weather` says what happens to how many of 1000 packets.
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
  // A living server answers its calls despite the losses, or its handler drops them.
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
  return fault::run(argc, argv, {{"server", fault::call_server}, {"client", fault::client}});
}
