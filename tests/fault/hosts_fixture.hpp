// SPDX-License-Identifier: Apache-2.0
// The fixtures of tests between two hosts: the hosts, a holder on the other host, and the test's own end.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "hosts.hpp"
#include "hosts_holder.hpp"

namespace fault {

class HostTest : public testing::Test {
 protected:
  explicit HostTest(Hosts::Cable cable = Hosts::Cable::direct) : hosts_(cable) {}
  void SetUp() override {
    if (!hosts_.obstacle().empty()) GTEST_SKIP() << hosts_.obstacle();
    // The hosts find each other by multicast; nothing leaves the namespaces.
    ASSERT_EQ(setenv("RIPC_MULTICAST", "on", 1), 0);
  }

  // Starts both ends. A peer that cannot be reached for `peer_timeout` is dead.
  void start(std::uint64_t peer_timeout) {
    ASSERT_EQ(setenv("RIPC_PEER_TIMEOUT_MS", std::to_string(peer_timeout / kMillisecond).c_str(), 1), 0);
    start_holder();
    asker_ = std::make_unique<Asker>(directory_here_.path());
    ASSERT_TRUE(*asker_);
    ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  }
  void start_holder() { process_ = hosts_.start_there("holder", {directory_there_.path()}); }

  // The path that a context takes to the holder. If there is none, `transport` is empty and `reason` says why.
  static ripc_service_info path_to_holder(const Context& context) {
    ripc_service_info info{};
    info.size = sizeof info;
    if (ripc_find_path(context.get(), kHolder, &info) != RIPC_OK) {
      info = {};
      std::snprintf(info.reason, sizeof info.reason, "%s", ripc_last_error());
    }
    return info;
  }

  // Sends a long message each way; both must arrive whole.
  void exchange_long(std::uint64_t seed) {
    Ticket ticket;
    ASSERT_EQ(asker_->send_long(kLong, seed, ticket), RIPC_OK) << ripc_last_error();
    ASSERT_EQ(ripc_ticket_wait(ticket.get(), kLimit), RIPC_OK) << ripc_last_error();
    ASSERT_EQ(asker_->request_long(kLong, seed + 1), RIPC_OK) << ripc_last_error();
    ASSERT_EQ(asker_->receive_long(kLimit), RIPC_OK);
  }

  // Sends `count` short messages to the holder, and waits whenever there is no room.
  void flood(std::uint64_t count, std::uint64_t patience) {
    for (std::uint64_t sent = 0; sent < count;) {
      const ripc_status status = send_short(asker_->service(), kHolder, sent, 64, kIgnored);
      if (status == RIPC_OK) {
        ++sent;
      } else {
        ASSERT_EQ(status, RIPC_AGAIN) << ripc_last_error();
        ASSERT_EQ(ripc_wait_room(asker_->service().get(), kHolder, patience), RIPC_OK) << ripc_last_error();
      }
    }
  }

  Hosts hosts_;
  const TemporaryDirectory directory_here_;
  const TemporaryDirectory directory_there_;
  Process process_;
  std::unique_ptr<Asker> asker_;
};

// A test whose cable loses what the test wants it to lose.
class RelayedHostTest : public HostTest {
 protected:
  RelayedHostTest() : HostTest(Hosts::Cable::relayed) {}
};

}  // namespace fault
