// SPDX-License-Identifier: Apache-2.0
// Runs the conformance suite, one role of a peer process (peer.hpp), or a host of such processes (peer_host.hpp). Tests
// that need an environment variable set it themselves; the user's settings must not change the results.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness.hpp"
#include "peer.hpp"
#include "peer_host.hpp"
#include "support/cluster_key.hpp"
#include "support/initialized.hpp"

namespace {

constexpr unsigned kSecondsPerTest = 240;  // generous: a test under a sanitizer, or in the RDMA lab, on a busy machine

char running_test[256];

// A wait of the library that never ends must not stop the whole run silently.
void give_up(int) {
  static const char text[] = "\nwatchdog: this test does not end: ";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, sizeof text - 1);
  written = ::write(STDERR_FILENO, running_test, std::strlen(running_test));
  written = ::write(STDERR_FILENO, "\n", 1);
  std::abort();
}

// Returns whether this machine has what the transport needs, and prints what is missing. With RIPC_TEST_MUST_RUN, as in
// the lab, anything missing is a failure.
bool can_run(const std::string& transport) {
  ripc_context_options options = support::initialized(ripc_context_options_init);
  options.transports = transport.c_str();
  const conformance::TemporaryDirectory directory;
  options.runtime_directory = directory.path().c_str();
  ripc_context* context = nullptr;
  const ripc_status status = ripc_context_create(&options, &context);
  ripc_context_destroy(context);
  if (status == RIPC_UNSUPPORTED) std::printf("skipped: %s: %s\n", transport.c_str(), ripc_last_error());
  return status != RIPC_UNSUPPORTED;
}

class Watchdog : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    std::strncpy(running_test, name.c_str(), sizeof running_test - 1);
    ::alarm(kSecondsPerTest);
  }
  void OnTestEnd(const testing::TestInfo&) override { ::alarm(0); }
};

}  // namespace

int main(int argc, char** argv) {
  for (const char* name : {"RIPC_RUNTIME_DIR",
                           "RIPC_TRANSPORTS",
                           "RIPC_RESOLVER_FILE",
                           "RIPC_SPIN_US",
                           "RIPC_PEERS",
                           "RIPC_SOCKET_PORTS",
                           "RIPC_SOCKET_ADDRESS",
                           "RIPC_SOCKET_INTERFACE",
                           "RIPC_SOCKET_RECEIVE_BUFFER",
                           "RIPC_SOCKET_STREAMS",
                           "RIPC_RAILS",
                           "RIPC_SOCKET_BULK_CONNECTIONS",
                           "RIPC_VERBS_CONNECTIONS",
                           "RIPC_VERBS_GROUPS",
                           "RIPC_PEER_TIMEOUT_MS",
                           "RIPC_RESOLVERS",
                           "RIPC_ZOOKEEPER",
                           "RIPC_ZOOKEEPER_SESSION_MS",
                           "RIPC_IDENTITY_FILE",
                           "RIPC_TRUST_FILE"}) {
    ::unsetenv(name);
  }
  if (const char* const names = std::getenv("RIPC_TEST_RAIL_NAMES")) ::setenv("RIPC_RAILS", names, 1);
  support::use_cluster_key();
  int exit_status = 0;
  if (conformance::run_peer_role(argc, argv, &exit_status)) return exit_status;
  if (conformance::run_peer_host(argc, argv, &exit_status)) return exit_status;
  testing::InitGoogleTest(&argc, argv);
  (void)conformance::peer_host();  // it lives as long as this process, even if no test needs it
  constexpr int kSkipped = 77;
  for (const std::string& transport : conformance::transports()) {
    if (!can_run(transport)) return std::getenv("RIPC_TEST_MUST_RUN") != nullptr ? 1 : kSkipped;
  }
  ::signal(SIGALRM, give_up);
  testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
  return RUN_ALL_TESTS();
}
