// SPDX-License-Identifier: Apache-2.0
// A process that is stopped and continues, by Ctrl-Z, a debugger or a container's freezer: this ends none of its waits.
#include <signal.h>

#include "peer_host.hpp"
#include "puppet.hpp"
#include "support/process_state.hpp"

namespace conformance {
namespace {

constexpr ripc_service_id kStoppedId = 77;

class StoppedProcess : public PairTest {
 protected:
  void SetUp() override {
    if (peer_host() != nullptr) GTEST_SKIP() << "looks at its peer in /proc";
    PairTest::SetUp();
    puppet_ = std::make_unique<Puppet>(peer_setup());
    ASSERT_EQ(puppet_->register_id(kStoppedId), "RIPC_OK");
  }
  // Stops the process several times, each time while it sleeps. The first times it may not be in the wait yet.
  void stop_and_continue() {
    const auto is = [&](char state) {
      return eventually([&] { return support::state_of_process(puppet_->pid()) == state; });
    };
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(is('S'));
      puppet_->signal(SIGSTOP);
      ASSERT_TRUE(is('T'));
      puppet_->signal(SIGCONT);
    }
  }

  std::unique_ptr<Puppet> puppet_;
};
CONFORMANCE_SUITE(StoppedProcess);

TEST_P(StoppedProcess, GoesOnToReceive) {
  puppet_->tell("receive");
  stop_and_continue();
  ASSERT_EQ(send_text(client_, kStoppedId, "hello"), RIPC_OK);
  EXPECT_EQ(puppet_->answer().substr(0, 7), "RIPC_OK");
}

TEST_P(StoppedProcess, GoesOnToWaitForRoom) {
  ASSERT_EQ(puppet_->status_of("fill " + std::to_string(server_id())), "RIPC_AGAIN");
  puppet_->tell("wait_room " + std::to_string(server_id()) + " 10000");
  stop_and_continue();
  EXPECT_TRUE(eventually([&] {
    ripc_message* message = nullptr;
    const ripc_status status = ripc_receive(server_.get(), 0, 0, &message);
    ripc_message_release(message);
    return status == RIPC_EMPTY;
  })) << "all of them are taken";
  EXPECT_EQ(puppet_->answer(), "RIPC_OK");
}

TEST_P(StoppedProcess, HoldsUpNeitherWaitsForOthersNorTheEndOfAContextThatWatchesIt) {
  Context context = make_context([](ripc_context_options& options) { options.resolve_timeout = RIPC_FOREVER; });
  puppet_->signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return support::state_of_process(puppet_->pid()) == 'T'; }));
  ripc_watch* watch = nullptr;
  const auto ignore = [](void*, ripc_status, const ripc_service_info*) {};
  ASSERT_EQ(ripc_service_watch(context.get(), kStoppedId, ignore, nullptr, &watch), RIPC_OK);
  EXPECT_EQ(ripc_wait_service(context.get(), client_id(), kLimit, nullptr), RIPC_OK);
  ripc_service_unwatch(watch);
  context.reset();
  puppet_->signal(SIGCONT);
}

}  // namespace
}  // namespace conformance
