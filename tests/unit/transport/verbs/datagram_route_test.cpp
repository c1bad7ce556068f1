// SPDX-License-Identifier: Apache-2.0
// The routes of datagrams: whose addresses are looked up, how many routes there are, and how long they are used.
#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "../spi_calls.hpp"
#include "nodes.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"

namespace ripc::internal::verbs {
namespace {

std::atomic<int> handles_made{0}, handles_ended{0};
std::atomic<int> tries_to_failure{0};  // 0: none of them fails
decltype(&::ibv_create_ah) create_of_device = nullptr;
decltype(&::ibv_destroy_ah) destroy_of_device = nullptr;

ibv_ah* counted_create(ibv_pd* domain, ibv_ah_attr* attributes) {
  if (tries_to_failure != 0 && --tries_to_failure == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_ah* const handle = create_of_device(domain, attributes);
  handles_made += handle != nullptr ? 1 : 0;
  return handle;
}
int counted_destroy(ibv_ah* handle) {
  ++handles_ended;
  return destroy_of_device(handle);
}
int handles() { return handles_made - handles_ended; }

union ibv_gid address_of(const std::string& ip) {
  remote::Endpoint endpoint;
  EXPECT_TRUE(remote::Endpoint::parse(ip, 1, endpoint));
  return gid_of(endpoint);
}

// Claims that datagrams for its ports go to this address.
class Liar {
 public:
  Liar(const DeviceList& devices, const std::string& ip)
      : devices_(std::make_shared<const DeviceList>(devices.library(), devices.ports())), node(devices_) {
    // Only now, because the node has compared its ports with those of the device.
    std::vector<DevicePort> ports = devices_->ports();
    for (DevicePort& port : ports) port.gid = address_of(ip);
    devices_->set_ports(std::move(ports));
  }

 private:
  std::shared_ptr<const DeviceList> devices_;

 public:
  Node node;
};

class Ways : public Nodes {
 protected:
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
    if (!devices_->ports().front().ethernet) GTEST_SKIP() << "here no address follows from another";
    library_ = const_cast<VerbsLibrary*>(devices_->library().get());
    create_of_device = library_->create_ah;
    destroy_of_device = library_->destroy_ah;
    library_->create_ah = counted_create;
    library_->destroy_ah = counted_destroy;
    handles_made = 2;  // both ways of the first session
    handles_ended = 0;
  }
  void TearDown() override {
    Nodes::TearDown();
    client_.reset();
    server_.reset();
    if (library_ == nullptr) return;
    EXPECT_EQ(handles(), 0);
    library_->create_ah = create_of_device;
    library_->destroy_ah = destroy_of_device;
  }

  VerbsLibrary* library_ = nullptr;
};

TEST_F(Ways, NoOneIsMadeToLookForTheAddressOfAnotherMachine) {
  // The route to this address exists without a look-up.
  Liar liar(*devices_, "239.1.2.3");
  const auto channel = connect(liar.node);
  ASSERT_NE(channel, nullptr) << "it gets a link by UDP";
  EXPECT_EQ(std::dynamic_pointer_cast<DatagramChannel>(channel), nullptr) << channel->describe(Deadline::after(0)).text;
  EXPECT_EQ(handles_made, 2) << "that of the first session";
}

TEST_F(Ways, AServerThatTellsOfAnotherMachineIsSentNoDatagrams) {
  Liar liar(*devices_, "239.1.2.3");
  Result<std::unique_ptr<spi::Port>> port = liar.node.transport().open_port(
      {.id = 8, .queue_messages = 1024, .queue_bytes = 8192, .max_senders = 16}, events_);
  ASSERT_TRUE(port.ok());
  const auto channel = test::connect(client_->transport(), liar.node.transport().address(), 8, Deadline::after(kLimit));
  ASSERT_TRUE(channel.ok()) << channel.status().text();
  EXPECT_EQ(std::dynamic_pointer_cast<DatagramChannel>(*channel), nullptr)
      << (*channel)->describe(Deadline::after(0)).text;
}

TEST_F(Ways, AllLinksOfASessionShareOneWayThatEndsWithIt) {
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Node other(devices_, options_);
    const int before = handles_made;
    std::vector<std::shared_ptr<spi::Channel>> links;
    for (int count = 0; count < 4; ++count) {
      links.push_back(connect(other));
      ASSERT_NE(std::dynamic_pointer_cast<DatagramChannel>(links.back()), nullptr);
    }
    EXPECT_EQ(handles_made - before, 2) << "one of each side, anew for each session: the address may have moved";
  }
}

TEST_F(Ways, AWayThatCouldNotBeFoundOnceIsFoundLaterInTheSameSession) {
  for (const int side : {1, 2}) {  // that of the server is looked for first
    SCOPED_TRACE(side);
    Node other(devices_, options_);
    tries_to_failure = side;
    std::vector<std::shared_ptr<spi::Channel>> links{connect(other)};
    ASSERT_EQ(tries_to_failure, 0);
    EXPECT_EQ(std::dynamic_pointer_cast<DatagramChannel>(links.front()), nullptr);
    EXPECT_TRUE(support::eventually([&] {
      links.back().reset();
      (void)port_->poll(sink_, 64);
      links.back() = connect(other);
      return std::dynamic_pointer_cast<DatagramChannel>(links.back()) != nullptr;
    }));
  }
}

TEST_F(Ways, AWayToAGroupThatIsUsedNoMoreEnds) {
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  const DevicePort port = devices_->ports().front();
  memory::Pool pool(std::uint64_t{64} << 20);
  const auto registrar = std::make_shared<Registrar>(port.device, pool);
  Result<std::shared_ptr<DatagramSender>> sender = DatagramSender::create(port, registrar, *loop);
  ASSERT_TRUE(sender.ok()) << sender.status().text();
  ibv_ah_attr address{};
  address.port_num = port.number;
  address.is_global = 1;
  address.grh.sgid_index = port.gid_index;
  address.grh.dgid = address_of("239.1.2.3");
  const int before = handles();
  for (int count = 0; count < 1000; ++count) {
    const Result<DatagramRoute> route = (*sender)->route_to_group(address, 0xffffff, 7);
    ASSERT_TRUE(route.ok()) << route.status().text();
    ASSERT_EQ((*sender)->send(*route, {.kind = wire::datagram::Kind::multicast, .token = 1}, {}), RIPC_OK);
  }
  EXPECT_LE(handles() - before, static_cast<int>(DatagramSender::kSends)) << "those of what may be under way";
  sender->reset();
  EXPECT_EQ(handles(), before);
}

}  // namespace
}  // namespace ripc::internal::verbs
