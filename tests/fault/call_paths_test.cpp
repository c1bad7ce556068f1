// SPDX-License-Identifier: Apache-2.0
// Tests calls that are under way while the path to their server changes from shared memory to sockets and back. The
// server stays, or another one takes over its ID. No call runs twice, each call ends once, and each outcome is true.
// RIPC_FAULT_ROUNDS sets the number of changes, RIPC_FAULT_SEED chooses their moments.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "call_ends.hpp"
#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr const char* kBoth = "shm,socket";
// Long enough that no call times out.
constexpr std::uint64_t kHour = 3600 * kSecond;

// Hides the services and contexts of a runtime directory, like a user who deletes old files.
class Rendezvous {
 public:
  explicit Rendezvous(std::string directory) : directory_(std::move(directory)) {}
  // Services move first: a record whose context is missing would be taken for that of a dead process.
  void hide() const {
    move_all("services", "hidden-services");
    move_all("contexts", "hidden-contexts");
  }
  void show() const {
    move_all("hidden-contexts", "contexts");
    move_all("hidden-services", "services");
  }

 private:
  void move_all(const std::string& from, const std::string& to) const {
    std::filesystem::create_directory(directory_ + "/" + to);
    for (const std::string& name : names_in(directory_ + "/" + from))
      std::filesystem::rename(directory_ + "/" + from + "/" + name, directory_ + "/" + to + "/" + name);
  }
  std::string directory_;
};

// Ends the control connections of all shared-memory links of this process.
void break_shared_memory() {
  for (const std::string& name : names_in("/proc/self/fd")) {
    const int fd = std::stoi(name);
    int type = 0;
    int listens = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) continue;
    size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 0) ::shutdown(fd, SHUT_RDWR);
  }
}

std::string transport_to_server(const Context& context) {
  ripc_service_info info{};
  info.size = sizeof info;
  return ripc_find_path(context.get(), kServer, &info) == RIPC_OK ? info.transport : ripc_last_error();
}

// Two hosts that share a runtime directory, as containers do.
class CallsOverChangingPaths : public HostTest {
 protected:
  void SetUp() override {
    HostTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(setenv("RIPC_PEER_TIMEOUT_MS", "1000", 1), 0);
    log_.emplace(log_path_);
    process_ = hosts_.start_there("server", {directory_here_.path(), kBoth, log_path_});
    context_ = make_context(directory_here_.path(), 0, kBoth);
    neighbour_ = make_far_context(directory_there_.path());
    caller_.emplace(context_, kClient);
  }
  void call_until_answered(std::uint64_t count) {
    const std::uint64_t wanted = caller_->count(RIPC_CALL_ANSWERED) + count;
    ASSERT_TRUE(eventually([&] {
      caller_->run(kHour);
      return caller_->count(RIPC_CALL_ANSWERED) >= wanted;
    })) << "calls stand still";
  }
  // Makes a call and waits until the server has it.
  const Caller::End& hold() {
    const Caller::End& held = caller_->hold(kHour);
    EXPECT_TRUE(eventually([&] {
      caller_->run(kHour);
      return log_->of(held.number) == 1;
    }));
    return held;
  }
  // Tells the server to answer the held call. Returns whether the call ended with an answer.
  bool release(const Caller::End& held) {
    const Caller::End* told = &caller_->release(kHour);
    EXPECT_TRUE(eventually([&] {
      caller_->run(kHour);
      if (told->times == 1 && told->outcome != RIPC_CALL_ANSWERED) told = &caller_->release(kHour);
      return held.times == 1;
    })) << "a call never ends";
    return held.outcome == RIPC_CALL_ANSWERED;
  }
  void change_to_sockets() {
    // The path over the cable must exist before it is needed.
    ASSERT_TRUE(eventually([&] {
      caller_->run(kHour);
      return transport_to_server(neighbour_) == "socket";
    })) << transport_to_server(neighbour_);
    // The stopped server leaves calls unread when the path ends.
    process_.signal(SIGSTOP);
    for (int step = 0; step < 10; ++step) caller_->run(kHour);
    rendezvous_.hide();
    break_shared_memory();
    process_.signal(SIGCONT);
    ASSERT_NO_FATAL_FAILURE(call_until_answered(200));
    EXPECT_EQ(transport_to_server(context_), "socket");
  }
  void change_to_shared_memory() {
    rendezvous_.show();
    silence(true);
    // Shared memory is now the only way to the server.
    ASSERT_NO_FATAL_FAILURE(call_until_answered(200));
    EXPECT_EQ(transport_to_server(context_), "shm");
    silence(false);
  }
  // Drops all frames between the hosts, except multicast, while `on`.
  void silence(bool on) {
    const auto set = [on](const char* address) {
      return std::string("neighbour ") + (on ? "replace " : "delete ") + address +
             (on ? " lladdr 02:00:00:00:00:99 nud permanent" : "") + " dev cable";
    };
    hosts_.here(set(Hosts::kThere));
    hosts_.there(set(Hosts::kHere));
  }

  const Rendezvous rendezvous_{directory_here_.path()};
  const std::string log_path_ = directory_here_.path() + "/runs";
  std::optional<CallLog> log_;
  Context context_;
  Context neighbour_;  // on this host, over sockets only
  std::optional<Caller> caller_;
};

TEST_F(CallsOverChangingPaths, RunAtMostOnceAndEndOnceWhenTheServerStays) {
  const auto [rounds, seed] = rounds_from_environment(100);
  Random random(seed);
  std::uint64_t answered_over_sockets = 0;
  std::uint64_t answered_over_shared_memory = 0;
  ASSERT_NO_FATAL_FAILURE(call_until_answered(200));
  ASSERT_EQ(transport_to_server(context_), "shm");
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Caller::End& first = hold();
    for (std::uint64_t steps = random.below(200); steps != 0; --steps) caller_->run(kHour);
    ASSERT_NO_FATAL_FAILURE(change_to_sockets());
    if (release(first)) ++answered_over_sockets;
    const Caller::End& second = hold();
    for (std::uint64_t steps = random.below(200); steps != 0; --steps) caller_->run(kHour);
    ASSERT_NO_FATAL_FAILURE(change_to_shared_memory());
    if (release(second)) ++answered_over_shared_memory;
  }
  caller_->release(kHour);
  ASSERT_TRUE(caller_->settle()) << "a call never ends";
  EXPECT_EQ(caller_->flaw(*log_), "");
  // A server that is not found at once is taken for dead, so some held calls may end without an answer.
  EXPECT_GT(answered_over_sockets, 0u);
  EXPECT_GT(answered_over_shared_memory, 0u);
  std::printf(
      "%llu answered, %llu did not run, %llu may have run; of %llu held calls each, %llu and %llu were answered\n",
      static_cast<unsigned long long>(caller_->count(RIPC_CALL_ANSWERED)),
      static_cast<unsigned long long>(caller_->count(RIPC_CALL_DID_NOT_RUN)),
      static_cast<unsigned long long>(caller_->count(RIPC_CALL_MAY_HAVE_RUN)), static_cast<unsigned long long>(rounds),
      static_cast<unsigned long long>(answered_over_sockets),
      static_cast<unsigned long long>(answered_over_shared_memory));
}

TEST(CallsToServersInTurn, RunAtMostOnceAndEndOnceWhenTheNextOneHasOtherTransports) {
  const auto [rounds, seed] = rounds_from_environment(25);
  Random random(seed);
  const TemporaryDirectory directory;
  const std::string runs = directory.path() + "/runs";
  CallLog log(runs);
  const Context context = make_context(directory.path(), 0, kBoth);
  Caller caller(context, kClient);
  const auto call_until = [&](const auto& is_over) {
    return eventually([&] {
      caller.run(2 * kSecond);
      return is_over();
    });
  };
  Process holder;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    // Each server shares a transport with the former one, to notify it of the takeover.
    const bool is_by_socket = round % 2 == 1;
    Process next("server", {directory.path(), is_by_socket ? "socket" : kBoth, runs});
    if (round != 0) {
      ASSERT_TRUE(call_until([&] { return holder.wait(0) == kIsFenced; })) << "the former server goes on";
    }
    holder = std::move(next);
    const std::uint64_t before = caller.count(RIPC_CALL_ANSWERED);
    ASSERT_TRUE(call_until([&] { return caller.count(RIPC_CALL_ANSWERED) != before; })) << "nothing is answered";
    ASSERT_EQ(transport_to_server(context), is_by_socket ? "socket" : "shm");
    for (std::uint64_t steps = random.below(200); steps != 0; --steps) caller.run(2 * kSecond);
  }
  ASSERT_TRUE(caller.settle()) << "a call never ends";
  EXPECT_EQ(caller.flaw(log), "");
  EXPECT_GT(caller.count(RIPC_CALL_ANSWERED), rounds);
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"server", fault::call_server}}); }
