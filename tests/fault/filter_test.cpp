// SPDX-License-Identifier: Apache-2.0
// Tests two hosts with a firewall between them that passes only TCP or only UDP, and silently drops the rest. Messages
// take the open path, and the status says so.
#include <gtest/gtest.h>

#include <fstream>

#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr std::uint64_t kPeerTimeout = 4 * kSecond;
constexpr ripc_service_id kBrief = 3004;
constexpr int kTcp = 6;
constexpr int kUdp = 17;

class Firewall : public RelayedHostTest {
 protected:
  // The asker finds the holder in a file, because multicast needs UDP.
  void start() {
    const std::string file = directory_here_.path() + "/known";
    std::ofstream(file) << kHolder << " socket:" << Hosts::kThere << ":27500\n";
    ASSERT_EQ(setenv("RIPC_MULTICAST", "off", 1), 0);
    ASSERT_EQ(setenv("RIPC_PEER_TIMEOUT_MS", std::to_string(kPeerTimeout / kMillisecond).c_str(), 1), 0);
    ASSERT_EQ(setenv("RIPC_SOCKET_PORTS", "27500-27599", 1), 0);
    start_holder();
    ASSERT_EQ(unsetenv("RIPC_SOCKET_PORTS"), 0);
    ASSERT_EQ(setenv("RIPC_RESOLVER_FILE", file.c_str(), 1), 0);
    asker_ = std::make_unique<Asker>(directory_here_.path());
    ASSERT_TRUE(*asker_);
  }
  void TearDown() override {
    EXPECT_EQ(unsetenv("RIPC_RESOLVER_FILE"), 0);
    EXPECT_EQ(unsetenv("RIPC_PEER_TIMEOUT_MS"), 0);
  }
  std::string reason() const { return path_to_holder(asker_->context()).reason; }
  bool goes_over_tcp() const { return reason().find("UDP does not get through") != std::string::npos; }
  // Expects that every message sent since the holder started has arrived, once.
  void all_has_come() {
    const std::optional<Told> told = asker_->ask();
    ASSERT_TRUE(told) << ripc_last_error();
    EXPECT_EQ(told->taken, statistics_of(asker_->service()).messages_sent);
    EXPECT_EQ(told->lost + told->late, 0u);
  }
};

class FirewallAgainstUdp : public Firewall, public testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(FirewallAgainstUdp, NothingIsLostAndThePathSaysThatUdpDoesNotGetThrough) {
  hosts_.relay().filter(GetParam().first, GetParam().second);
  ASSERT_NO_FATAL_FAILURE(start());
  // This is the very first message: nothing is known about the path yet.
  ASSERT_EQ(send_short(asker_->service(), kHolder, 1, 64, kIgnored), RIPC_OK) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(flood(3000, kLimit));
  ASSERT_NO_FATAL_FAILURE(all_has_come());
  EXPECT_TRUE(goes_over_tcp()) << reason();
  ASSERT_NO_FATAL_FAILURE(exchange_long(10));
}

// The sender sends more than a connection takes at once, before anything is known about the path.
TEST_P(FirewallAgainstUdp, NothingIsLostOfASenderThatEndsAtOnce) {
  hosts_.relay().filter(GetParam().first, GetParam().second);
  ASSERT_NO_FATAL_FAILURE(start());
  std::uint64_t sent = 0;
  {
    const Context context = make_far_context(directory_here_.path());
    const Service service = make_service(context, kBrief);
    ASSERT_TRUE(service);
    while (send_short(service, kHolder, sent, 1000, kIgnored) == RIPC_OK) ++sent;
    EXPECT_GT(sent, 20u);
  }
  std::uint64_t taken = 0;
  EXPECT_TRUE(eventually(
      [&] {
        const std::optional<Told> told = asker_->ask_once();
        if (told) taken = told->taken - statistics_of(asker_->service()).messages_sent;
        return told && taken >= sent;
      },
      kLimit))
      << taken << " of " << sent << " have come";
  EXPECT_EQ(taken, sent);
}

INSTANTIATE_TEST_SUITE_P(, FirewallAgainstUdp,
                         testing::Values(std::pair(kUdp, kUdp), std::pair(kUdp, 0), std::pair(0, kUdp)),
                         [](const auto& instance) {
                           return instance.param.first == 0    ? "OnTheWayBack"
                                  : instance.param.second == 0 ? "OnTheWayThere"
                                                               : "BothWays";
                         });

TEST_F(Firewall, ThatComesLaterIsFoundOutAndMessagesGoOnOverTcp) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  EXPECT_FALSE(goes_over_tcp()) << reason();
  for (const auto& [there, back] : {std::pair(kUdp, kUdp), std::pair(0, kUdp)}) {
    hosts_.relay().filter(there, back);
    // The existing links, one each way, switch to TCP without looking up the path again.
    ASSERT_TRUE(asker_->ask()) << ripc_last_error();
    EXPECT_TRUE(goes_over_tcp()) << reason();
    ASSERT_NO_FATAL_FAILURE(exchange_long(20));
    // A new pair of links uses UDP again.
    hosts_.relay().filter(0, 0);
    asker_.reset();
    asker_ = std::make_unique<Asker>(directory_here_.path());
    ASSERT_TRUE(asker_->ask()) << ripc_last_error();
    EXPECT_FALSE(goes_over_tcp()) << reason();
  }
}

TEST_F(Firewall, ThatStopsTcpIsNamedAsACause) {
  hosts_.relay().filter(kTcp, kTcp);
  ASSERT_NO_FATAL_FAILURE(start());
  ripc_service_info info{};
  info.size = sizeof info;
  EXPECT_EQ(ripc_find_path(asker_->context().get(), kHolder, &info), RIPC_TIMEOUT);
  const std::string text = ripc_last_error();
  EXPECT_NE(text.find("firewall"), std::string::npos) << text;
  EXPECT_NE(text.find(std::string(Hosts::kThere) + ":27500"), std::string::npos) << text;
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"holder", fault::holder}}); }
