// SPDX-License-Identifier: Apache-2.0
// The multicast resolver's packets as datagrams of a real device.
#include "transport/verbs/fabric_multicast/fabric_network.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/resolver/multicast_helpers.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr Nanoseconds kPatience = 20'000'000'000;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// One end, as the resolver's thread uses it.
class End {
 public:
  struct Heard {
    std::string text;
    bool to_group = false;
    spi::PeerAddress from;
  };
  End(const std::shared_ptr<const DeviceList>& devices, const FabricNetworkOptions& options) {
    Result<std::unique_ptr<FabricNetwork>> network = FabricNetwork::open(devices, options);
    EXPECT_TRUE(network.ok()) << network.status().text();
    if (network.ok()) network_ = std::move(*network);
  }
  FabricNetwork* operator->() const { return network_.get(); }

  // Waits until the group is joined on a port. Packets that come meanwhile are dropped.
  bool joins() {
    return wait(kPatience, [&](spi::Arrival, const spi::ReceivedPacket&) { return !network_->interfaces().empty(); });
  }
  // The next packet; an empty text: none came in time.
  Heard hear() { return hear_within(kPatience); }
  // Waits only 10 ms for a packet; also does the work that is due.
  Heard try_to_hear() { return hear_within(10'000'000); }
  void send(const std::string& text) const {
    const Deadline deadline = Deadline::after(kPatience);
    while (network_->send_to_groups(bytes_of(text)).packets == 0) ASSERT_FALSE(deadline.expired());
  }

 private:
  Heard hear_within(Nanoseconds patience) {
    Heard heard;
    wait(patience, [&](spi::Arrival arrival, const spi::ReceivedPacket& received) {
      if (arrival != spi::Arrival::packet) return false;
      heard = {{reinterpret_cast<const char*>(received.bytes.data()), received.bytes.size()},
               received.to_group,
               received.from};
      return true;
    });
    return heard;
  }
  template <typename Stop>
  bool wait(Nanoseconds patience, const Stop& stop) {
    const Deadline deadline = Deadline::after(patience);
    std::vector<pollfd> descriptors = network_->descriptors();
    while (!deadline.expired() &&
           ::poll(descriptors.data(), descriptors.size(), deadline.remaining_milliseconds()) > 0) {
      spi::ReceivedPacket received;
      if (stop(network_->receive(descriptors.front().fd, buffer_, received), received)) return true;
    }
    return false;
  }

  std::unique_ptr<FabricNetwork> network_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(8192);
};

class FabricMulticast : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const DeviceList>> devices = DeviceList::open();
    if (!devices.ok()) GTEST_SKIP() << devices.status().text();
    devices_ = *devices;
    const auto has_datagrams = [](const DevicePort& port) { return port.mtu != 0; };
    const std::vector<DevicePort> ports = devices_->ports();
    if (std::none_of(ports.begin(), ports.end(), has_datagrams)) GTEST_SKIP() << "no device has datagrams";
    options_ = options(26673);
  }
  static FabricNetworkOptions options(std::uint16_t port) {
    FabricNetworkOptions options;
    options.groups.resize(1);
    EXPECT_TRUE(remote::Endpoint::parse("239.255.82.73", port, options.groups.front()));
    return options;
  }

  // The group, as librdmacm would report it.
  static JoinedGroup group_on(const DevicePort& port) {
    JoinedGroup group{.queue_pair = 0xffffff, .queue_key = 0x01234567};
    group.address.port_num = port.number;
    group.address.is_global = 1;
    group.address.grh.sgid_index = port.gid_index;
    remote::Endpoint address;
    EXPECT_TRUE(remote::Endpoint::parse("239.255.82.74", 1, address));
    group.address.grh.dgid = gid_of(address);
    return group;
  }

  std::shared_ptr<const DeviceList> devices_;
  FabricNetworkOptions options_;
};

TEST_F(FabricMulticast, AGroupMessageReachesAllAndItsSenderIsAnsweredAlone) {
  End asker(devices_, options_);
  End holder(devices_, options_);
  End other(devices_, options_);
  ASSERT_TRUE(asker.joins() && holder.joins() && other.joins()) << asker->text();
  asker.send("question");
  const End::Heard question = holder.hear();
  EXPECT_EQ(question.text, "question");
  EXPECT_TRUE(question.to_group);
  EXPECT_EQ(holder->send_to(question.from, bytes_of("reply")).packets, 1U);
  const End::Heard reply = asker.hear();
  EXPECT_EQ(reply.text, "reply");
  EXPECT_FALSE(reply.to_group);
  // The asker, too, knows where the reply came from.
  EXPECT_EQ(asker->send_to(reply.from, bytes_of("thanks")).packets, 1U);
  EXPECT_EQ(holder.hear().text, "thanks");
  EXPECT_EQ(other.hear().text, "question");
  holder.send("last");
  EXPECT_EQ(other.hear().text, "last") << "and nothing of what was said to single ones";
}

TEST_F(FabricMulticast, OwnPacketsAreReceivedOnlyWhereTheyAreWanted) {
  FabricNetworkOptions echoing = options_;
  echoing.receives_own_packets = true;
  End self_check(devices_, echoing);
  End usual(devices_, options_);
  ASSERT_TRUE(self_check.joins() && usual.joins());
  self_check.send("from the self-check");
  EXPECT_EQ(self_check.hear().text, "from the self-check");
  EXPECT_EQ(usual.hear().text, "from the self-check");
  usual.send("from the usual one");
  EXPECT_EQ(self_check.hear().text, "from the usual one");
  self_check.send("again");
  EXPECT_EQ(usual.hear().text, "again") << "not its own";
}

TEST_F(FabricMulticast, AnotherPortIsAnotherWorld) {
  End here(devices_, options_);
  End elsewhere(devices_, options(26674));
  End also_here(devices_, options_);
  ASSERT_TRUE(here.joins() && elsewhere.joins() && also_here.joins());
  elsewhere.send("not for you");
  also_here.send("for you");
  EXPECT_EQ(here.hear().text, "for you");
}

TEST_F(FabricMulticast, ABurstIsReceivedToItsEnd) {
  constexpr std::size_t kCount = 200;  // fewer than there are buffers
  End sender(devices_, options_);
  End receiver(devices_, options_);
  ASSERT_TRUE(sender.joins() && receiver.joins());
  for (std::size_t index = 0; index < kCount; ++index) sender.send(std::to_string(index));
  for (std::size_t index = 0; index < kCount; ++index) ASSERT_EQ(receiver.hear().text, std::to_string(index));
}

TEST_F(FabricMulticast, APacketTooLargeForThePortIsRefused) {
  End end(devices_, options_);
  End other(devices_, options_);
  ASSERT_TRUE(end.joins() && other.joins());
  end.send(std::string(end->packet_limit(), 'x'));
  EXPECT_EQ(other.hear().text.size(), end->packet_limit());
  const std::string too_long(8192, 'x');
  const spi::SentPackets sent = end->send_to_groups(bytes_of(too_long));
  EXPECT_EQ(sent.packets, 0U);
  EXPECT_GE(sent.failures, 1U) << "the device would lose it without a word";
}

TEST_F(FabricMulticast, APortThatComesLaterMayLowerTheLimit) {
  const auto devices = std::make_shared<const DeviceList>(devices_->library(), std::vector<DevicePort>{});
  End end(devices, options_);
  EXPECT_GT(end->packet_limit(), 512U);
  std::vector<DevicePort> ports = devices_->ports();
  for (DevicePort& port : ports) port.mtu = std::min(port.mtu, 512U);
  devices->set_ports(ports);
  ASSERT_TRUE(end.joins()) << end->text();
  EXPECT_EQ(end->packet_limit(), 512U);
}

TEST_F(FabricMulticast, ABusyGroupDoesNotKeepAnotherOneWaiting) {
  FabricNetworkOptions other = options_;
  ASSERT_TRUE(remote::Endpoint::parse("239.255.82.74", 26673, other.groups.front()));
  FabricNetworkOptions both = options_;
  both.groups.push_back(other.groups.front());
  End busy(devices_, options_);
  End quiet(devices_, other);
  End receiver(devices_, both);
  ASSERT_TRUE(busy.joins() && quiet.joins());
  const Deadline deadline = Deadline::after(kPatience);
  for (const auto& [sender, text] : {std::pair(&quiet, "quiet"), std::pair(&busy, "busy")}) {
    do {
      ASSERT_FALSE(deadline.expired()) << receiver->text();
      sender->send(text);
    } while (receiver.try_to_hear().text != text);
  }
  for (int count = 0; count < 100; ++count) busy.send("busy");
  quiet.send("after all");
  while (receiver.hear().text != "after all") {
    ASSERT_FALSE(deadline.expired());
    busy.send("busy");
  }
}

TEST_F(FabricMulticast, ARemovedDeviceIsReleasedWhilePacketsKeepComing) {
  End busy(devices_, options_);
  const auto devices = std::make_shared<const DeviceList>(devices_->library(), devices_->ports());
  End receiver(devices, options_);
  ASSERT_TRUE(busy.joins());
  const Deadline deadline = Deadline::after(kPatience);
  do {
    ASSERT_FALSE(deadline.expired()) << receiver->text();
    busy.send("busy");
  } while (receiver.try_to_hear().text != "busy");
  for (int count = 0; count < 100; ++count) busy.send("busy");
  devices->set_ports({});
  while (!receiver->interfaces().empty()) {
    ASSERT_FALSE(deadline.expired()) << receiver->text();
    busy.send("busy");
    static_cast<void>(receiver.try_to_hear());
  }
}

TEST_F(FabricMulticast, AfterAnErrorOfTheQueuePairItWorksAgain) {
  End sender(devices_, options_);
  End receiver(devices_, options_);
  ASSERT_TRUE(sender.joins() && receiver.joins());
  for (const End* broken : {&sender, &receiver}) {
    ibv_qp_attr change{};
    change.qp_state = IBV_QPS_ERR;
    for (ibv_qp* pair : (*broken)->pairs()) ASSERT_EQ(devices_->library()->modify_qp(pair, &change, IBV_QP_STATE), 0);
    // Packets that were under way are lost; the resolver also asks again.
    const Deadline deadline = Deadline::after(kPatience);
    do {
      ASSERT_FALSE(deadline.expired());
      static_cast<void>(sender->send_to_groups(bytes_of("again")));
      static_cast<void>(sender.try_to_hear());
    } while (receiver.try_to_hear().text != "again");
  }
}

TEST_F(FabricMulticast, ItGivesEverythingBack) {
  const auto use = [&] {
    End one(devices_, options_);
    End other(devices_, options_);
    ASSERT_TRUE(one.joins() && other.joins());
    one.send("question");
    const End::Heard question = other.hear();
    ASSERT_EQ(question.text, "question");
    ASSERT_EQ(other->send_to(question.from, bytes_of("reply")).packets, 1U);
    ASSERT_EQ(one.hear().text, "reply");
  };
  use();
  const std::size_t before = open_descriptors();
  // More rounds than a group can have queue pairs, so those of earlier rounds have left.
  for (int round = 0; round < 100; ++round) ASSERT_NO_FATAL_FAILURE(use());
  EXPECT_EQ(open_descriptors(), before);
}

// A handle expires, because the address may move to another machine.
TEST_F(FabricMulticast, AWayIsKeptForAWhileAndOnlySoMany) {
  const std::vector<DevicePort> ports = devices_->ports();
  const auto port = std::find_if(ports.begin(), ports.end(), [](const DevicePort& one) { return one.mtu != 0; });
  const Result<std::shared_ptr<GroupQueue>> queue = GroupQueue::create(*port, group_on(*port), false);
  ASSERT_TRUE(queue.ok()) << queue.status().text();
  GroupPeer peer{.queue_pair = 0xffffff};
  std::memcpy(peer.gid.data(), port->gid.raw, peer.gid.size());
  const std::string text = "for nobody";
  constexpr Nanoseconds kNow = 1'000'000'000'000;
  EXPECT_EQ((*queue)->send_to(peer, bytes_of(text), kNow), GroupQueue::Sending::no_handle);
  ASSERT_TRUE((*queue)->find_handle(peer, kNow).ok());
  EXPECT_EQ((*queue)->send_to(peer, bytes_of(text), kNow + GroupQueue::kHandleAge - 1), GroupQueue::Sending::sent);
  EXPECT_EQ((*queue)->send_to(peer, bytes_of(text), kNow + GroupQueue::kHandleAge), GroupQueue::Sending::no_handle);
  ASSERT_TRUE((*queue)->find_handle(peer, kNow + GroupQueue::kHandleAge).ok());
  EXPECT_EQ((*queue)->handles(), 1U) << "it takes the place of the former one";
  EXPECT_EQ((*queue)->send_to(peer, bytes_of(text), kNow + GroupQueue::kHandleAge), GroupQueue::Sending::sent);

  // On Ethernet a LID means nothing to the device.
  for (std::size_t count = 0; count < 2 * GroupQueue::kMostHandles; ++count) {
    GroupPeer another = peer;
    another.lid = static_cast<std::uint16_t>(count + 1);
    ASSERT_TRUE((*queue)->find_handle(another, kNow).ok());
  }
  EXPECT_EQ((*queue)->handles(), GroupQueue::kMostHandles);
  EXPECT_EQ((*queue)->send_to(peer, bytes_of(text), kNow + GroupQueue::kHandleAge), GroupQueue::Sending::no_handle);
}

TEST_F(FabricMulticast, AnInterfaceThatNoDeviceHasGivesNoPortAndTheReason) {
  FabricNetworkOptions nowhere = options_;
  nowhere.interfaces = {"ripc-none0"};
  End end(devices_, nowhere);
  EXPECT_TRUE(end->interfaces().empty());
  EXPECT_NE(end->text().find("no port"), std::string::npos) << end->text();
  EXPECT_EQ(end->send_to_groups(bytes_of("question")).packets, 0U);
}

TEST_F(FabricMulticast, AResolverFindsServicesOverItWithoutUdp) {
  resolver::MulticastOptions options = test::loopback_options();
  options.udp = false;
  // Both ends are on this host, and a device does not say whose queue pair sent a datagram.
  options_.peers = options.peers = PeerPolicy(RIPC_PEERS_ANY);
  const auto over_the_fabric = [&] {
    resolver::MulticastResolver::Networks networks;
    Result<std::unique_ptr<FabricNetwork>> network = FabricNetwork::open(devices_, options_);
    EXPECT_TRUE(network.ok()) << network.status().text();
    if (network.ok()) networks.push_back(std::move(*network));
    return networks;
  };
  test::MulticastContext holder(options, over_the_fabric());
  const spi::ServiceRecord record = holder.publish(7);
  test::MulticastContext asker(options, over_the_fabric());
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
  holder->withdraw(record);
  EXPECT_TRUE(test::eventually([&] { return !asker.look(7).ok(); })) << "its end is announced, too";
}

}  // namespace
}  // namespace ripc::internal::verbs
