// SPDX-License-Identifier: Apache-2.0
// Ports that stop working while they are in use. The tests take down interfaces of this machine, so it must be one of
// the RDMA lab; RIPC_TEST_MAY_CUT says that it is.
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <bit>
#include <cstdlib>
#include <string>

#include "nodes.hpp"
#include "remote/session/endpoint.hpp"
#include "support/command.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::verbs {
namespace {

class Ports : public Nodes {
 protected:
  // The peer's time-out is an hour, so nothing is noticed merely by waiting.
  Ports() : Nodes(patience_of(std::uint64_t{3600} * 1'000'000'000)) {}
  void SetUp() override {
    if (std::getenv("RIPC_TEST_MAY_CUT") == nullptr) GTEST_SKIP() << "cuts the network: for the RDMA lab";
    Nodes::SetUp();
    if (IsSkipped()) return;
    ip_ = devices_->ports().front().ip;
    ifaddrs* list = nullptr;
    ASSERT_EQ(getifaddrs(&list), 0);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
          remote::Endpoint::of(*entry->ifa_addr).ip() == ip_) {
        interface_ = entry->ifa_name;
        const std::uint32_t mask = reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask)->sin_addr.s_addr;
        prefix_ = std::to_string(std::popcount(mask));
      }
    }
    freeifaddrs(list);
    if (interface_.empty()) GTEST_SKIP() << "the device has no IPv4 address, which would stay";
  }
  void TearDown() override {
    if (!interface_.empty()) set("up");
    Nodes::TearDown();
  }
  // Takes the address away, or gives it back.
  void address(const char* action) {
    ASSERT_TRUE(
        support::run_command("ip address " + std::string(action) + " " + ip_ + "/" + prefix_ + " dev " + interface_));
  }
  void set(const char* state) { ASSERT_TRUE(support::run_command("ip link set dev " + interface_ + " " + state)); }
  bool is_published(const Node& node) const {
    return (node.transport().address().locator + ";").find("ip=" + ip_ + ";") != std::string::npos;
  }

  std::string ip_, prefix_, interface_;
};

TEST_F(Ports, ThatGoDownEndTheirSessionsAndAreNotPublishedUntilTheyAreUpAgain) {
  ASSERT_EQ(send(100, 'a'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  ASSERT_TRUE(is_published(*server_));
  const spi::Address address = server_->transport().address();
  set("down");
  EXPECT_TRUE(support::eventually([&] { return !channel_->alive(); }));
  EXPECT_EQ(send(100, 'b'), RIPC_PEER_DEAD);
  EXPECT_TRUE(support::eventually([&] { return !is_published(*server_); }));

  set("up");
  EXPECT_TRUE(support::eventually([&] { return is_published(*server_); }));
  EXPECT_EQ(server_->transport().address(), address);
  EXPECT_TRUE(support::eventually([&] { return connect(); }));
  ASSERT_EQ(send(100, 'c'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(2));
  EXPECT_EQ(sink_.packets.back(), std::string(100, 'c'));
}

// The port stays up with one GID less; the peer's time-out is an hour. When the address comes back, it may have another
// index in the GID table. Contexts that are opened from then on find it there.
TEST_F(Ports, WhoseAddressIsTakenAwayEndTheirSessionsAndAreNotPublished) {
  if (devices_->devices().front()->iwarp) GTEST_SKIP() << "its datagrams are of the network, not of the device";
  ASSERT_EQ(send(100, 'a'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  address("del");
  EXPECT_TRUE(support::eventually([&] { return !channel_->alive(); }));
  EXPECT_EQ(send(100, 'b'), RIPC_PEER_DEAD);
  EXPECT_TRUE(support::eventually([&] { return !is_published(*server_); }));
  address("add");
  EXPECT_TRUE(support::eventually([&] {
    const Result<std::shared_ptr<const DeviceList>> devices = DeviceList::open();
    return devices.ok() && is_published(Node(*devices));
  }));
}

TEST_F(Ports, ThatAreDownFromTheBeginningAreNotPublished) {
  set("down");
  EXPECT_TRUE(support::eventually([&] { return !is_published(*server_); }));
  const Node late(devices_);
  EXPECT_EQ(late.transport().address().locator.find("ip=" + ip_), std::string::npos);
}

}  // namespace
}  // namespace ripc::internal::verbs
