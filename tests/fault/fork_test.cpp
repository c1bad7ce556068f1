// SPDX-License-Identifier: Apache-2.0
// Tests applications that fork. Calls in the child return RIPC_FORKED, and the parent goes on. A child that lives on
// does not make its dead parent look alive.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "fault_support.hpp"
#include "ripc/rpc.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kForker = 1001;
constexpr ripc_service_id kWatcher = 1002;

class Fork : public testing::Test {
  void SetUp() override {
    if (kSanitized)
      GTEST_SKIP() << "another thread may hold a lock of the sanitizer's allocator, for ever in the child";
  }
};

// Runs in the child. Returns 0, or the number of the call that did not return RIPC_FORKED.
int calls_of_a_child(ripc_context* context, ripc_service* service) {
  const std::vector<std::byte> bytes = make_item(64, 1);
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
  if (ripc_send(service, kWatcher, &item, 1, nullptr, nullptr) != RIPC_FORKED) return 11;
  ripc_message* message = nullptr;
  if (ripc_receive(service, 0, 0, &message) != RIPC_FORKED) return 12;
  ripc_service* another = nullptr;
  if (ripc_service_register(context, nullptr, &another) != RIPC_FORKED) return 13;
  std::size_t limit = 0;
  if (ripc_short_limit(service, kWatcher, 1, &limit) != RIPC_FORKED) return 14;
  if (ripc_wait_room(service, kWatcher, 0) != RIPC_FORKED) return 15;
  ripc_service_info info{};
  info.size = sizeof info;
  if (ripc_resolve(context, kWatcher, &info) != RIPC_FORKED) return 16;
  void* data = nullptr;
  if (ripc_buffer_lease(context, 4096, &data) != RIPC_FORKED) return 17;
  return 0;
}

TEST_F(Fork, TheChildsCallsSaySoAndTheParentGoesOn) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path());
  const Service service = make_service(context, kForker);
  const Context other_context = make_context(directory.path());
  const Service other = make_service(other_context, kWatcher);
  ASSERT_TRUE(service && other);
  ASSERT_EQ(exchange(service, other, 1), "");
  for (std::uint64_t round = 0; round < 10; ++round) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(calls_of_a_child(context.get(), service.get()));
    }
    ASSERT_GT(child, 0);
    EXPECT_EQ(exchange(service, other, round), "") << "while the child lives";
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the call with this number did not return RIPC_FORKED";
    EXPECT_EQ(exchange(service, other, round), "") << "after the child's end";
  }
}

TEST_F(Fork, AChildMayMakeAContextOfItsOwn) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path());
  const Service service = make_service(context, kForker);
  ASSERT_TRUE(service);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const Context own = make_context(directory.path());
    const Service greeter = make_service(own, kWatcher);
    _exit(greeter && send_short(greeter, kForker, 5) == RIPC_OK ? 0 : 1);
  }
  const Message message = receive(service);
  ASSERT_TRUE(message);
  EXPECT_EQ(ripc_message_get_source(message.get()), kWatcher);
  EXPECT_EQ(flaw_of(message.get()), "");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(Fork, DestroyingACallOfTheParentDoesNothingInAChild) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path());
  const Service client = make_service(context, kForker);
  const Service server = make_service(context, kWatcher);
  ripc_rpc* rpc = nullptr;
  ASSERT_EQ(ripc_rpc_create(client.get(), nullptr, &rpc), RIPC_OK);
  std::optional<ripc::Call> call;
  call.emplace(rpc, kWatcher, 1, ripc::Items{}, ripc::CallOptions{});
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    call.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_FALSE(call->done());
  call.reset();
  ripc_rpc_destroy(rpc);
}

// Arguments DIRECTORY. A service that talks to the watcher, forks a child that only stays alive, and waits to be
// killed.
int forker(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0));
  const Service service = make_service(context, kForker);
  if (!service || send_short(service, kWatcher, 1) != RIPC_OK) return 1;
  if (!receive(service)) return 2;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, 0);
    alarm(60);
    std::ofstream(arguments.at(0) + "/child.new") << getpid();
    (void)std::rename((arguments.at(0) + "/child.new").c_str(), (arguments.at(0) + "/child").c_str());
    for (;;) pause();
  }
  for (;;) pause();
}

TEST_F(Fork, AfterTheParentsDeathItsServicesAreDeadAlthoughTheChildLives) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path());
  const Service watcher = make_service(context, kWatcher);
  ASSERT_TRUE(watcher);
  Process process("forker", {directory.path()});
  ASSERT_TRUE(receive(watcher));
  ASSERT_EQ(send_short(watcher, kForker, 2), RIPC_OK) << ripc_last_error();
  pid_t child = 0;
  ASSERT_TRUE(eventually([&] { return static_cast<bool>(std::ifstream(directory.path() + "/child") >> child); }));
  // Nobody receives this message any more.
  std::vector<std::byte> bytes = make_item(50000, 3);
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_LONG, 0};
  ripc_ticket* ticket = nullptr;
  ASSERT_EQ(ripc_send(watcher.get(), kForker, &item, 1, nullptr, &ticket), RIPC_OK) << ripc_last_error();
  const Ticket owned(ticket);
  process.kill();
  EXPECT_EQ(ripc_ticket_wait(ticket, kLimit), RIPC_PEER_DEAD);
  EXPECT_EQ(send_short(watcher, kForker, 4), RIPC_NO_SERVICE);
  EXPECT_TRUE(eventually([&] {
    (void)receive(watcher, 0);
    return statistics_of(watcher).senders == 0;
  }));
  {
    const Context successor_context = make_context(directory.path());
    const Service successor = make_service(successor_context, kForker);
    ASSERT_TRUE(successor) << "the ID is free again";
    EXPECT_EQ(exchange(watcher, successor, 5), "");
  }
  EXPECT_EQ(::kill(child, 0), 0) << "the child was to live all the time";
  ::kill(child, SIGKILL);
}

// Counts the sockets that make a process look alive: listeners, and connections between contexts.
int sockets_of_life() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET) ++count;
  }
  return count;
}

TEST_F(Fork, NoChildHoldsAListenerOrConnectionWhileAnotherThreadConnects) {
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path());
  const Service service = make_service(context, kForker);
  ASSERT_TRUE(service);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> connected{0};
  std::thread connecting([&] {
    while (!stop) {
      const Context other_context = make_context(directory.path());
      const Service other = make_service(other_context, kWatcher);
      if (other && send_short(other, kForker, 1) == RIPC_OK) ++connected;
      while (receive(service, 0)) {
      }
    }
  });
  ASSERT_TRUE(eventually([&] { return connected != 0; }));
  EXPECT_GT(sockets_of_life(), 0);
  std::fflush(nullptr);
  int leaks = 0;
  for (int round = 0; round < 300; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(sockets_of_life() == 0 ? 0 : 1);
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++leaks;
  }
  stop = true;
  connecting.join();
  EXPECT_EQ(leaks, 0) << "of 300 children";
  EXPECT_GT(connected, 10u) << "the forks met nothing";
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"forker", fault::forker}}); }
