// SPDX-License-Identifier: Apache-2.0
// Links whose session has moved to another pair of addresses: here from one address of a device to another one.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "nodes.hpp"
#include "remote/link/link_source.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::verbs {
namespace {

class MovedLinks : public Nodes {
 protected:
  static constexpr std::size_t kMessages = 100;
  static constexpr std::size_t kQueue = 1024;  // as the port of Nodes is asked for
  explicit MovedLinks(TransportOptions options = {}) : Nodes(std::move(options)) {}
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
    ASSERT_NO_FATAL_FAILURE(add_port(devices_->ports().front().mtu));
    // With this message, the test learns the server's end of the session.
    ASSERT_EQ(send(8, '0'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
    sink_.packets.clear();
    first_ = link().session()->local();
  }

  // Adds another address of the first port: the one of another entry of its GID table.
  void add_port(std::uint32_t mtu) {
    DevicePort port = devices_->ports().front();
    port.gid_index = port.gid_index == 0 ? 1 : 0;
    port.mtu = mtu;
    ASSERT_EQ(devices_->library()->query_gid(port.device->context, port.number, port.gid_index, &port.gid), 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    std::memcpy(&address.sin6_addr, port.gid.raw, sizeof port.gid.raw);
    second_ = remote::Endpoint::of(reinterpret_cast<const sockaddr&>(address));
    port.ip = second_.ip();
    devices_->set_ports({devices_->ports().front(), port});
  }
  DatagramChannel& link() const { return dynamic_cast<DatagramChannel&>(*channel_); }
  // As if the control connection had been made again between these addresses.
  void move_to(const remote::Endpoint& address) {
    const remote::SessionPointer there = dynamic_cast<const remote::LinkSource&>(*sink_.source).session();
    const remote::SessionPointer here = link().session();
    server_->in_responder([&] { there->set_ends(address, address); });
    client_->in_responder([&] {
      here->set_ends(address, address);
      for (const auto& channel : here->channels()) channel->check_path();
    });
  }
  std::string path() { return channel_->describe(Deadline::after(0)).text; }
  bool goes_by(const remote::Endpoint& address) {
    return support::eventually([&] { return path().find("(" + address.ip() + ")") != std::string::npos; });
  }
  // Moves the link to an address without a device.
  void move_away() {
    remote::Endpoint nowhere;
    ASSERT_TRUE(remote::Endpoint::parse("192.0.2.1", 0, nowhere));
    ASSERT_NO_FATAL_FAILURE(move_to(nowhere));
    ASSERT_TRUE(support::eventually([&] { return path().find("over TCP, 192.0.2.1") != std::string::npos; })) << path();
  }
  void send_all(char fill) {
    for (std::size_t index = 0; index < kMessages; ++index) ASSERT_EQ(send(8, fill), RIPC_OK) << index;
  }
  // Messages that arrived before the link moved, and were not read, come first.
  void expect_all_in_order() {
    ASSERT_NO_FATAL_FAILURE(send_all('a'));
    ASSERT_NO_FATAL_FAILURE(move_to(second_));
    ASSERT_TRUE(goes_by(second_)) << path();
    ASSERT_NO_FATAL_FAILURE(send_all('b'));
    ASSERT_NO_FATAL_FAILURE(receive(2 * kMessages));
    ASSERT_NO_FATAL_FAILURE(move_to(first_));
    ASSERT_TRUE(goes_by(first_)) << path();
    ASSERT_NO_FATAL_FAILURE(send_all('c'));
    ASSERT_NO_FATAL_FAILURE(receive(3 * kMessages));
    std::string order;
    for (const std::string& packet : sink_.packets) order += packet.front();
    EXPECT_EQ(order, std::string(kMessages, 'a') + std::string(kMessages, 'b') + std::string(kMessages, 'c'));
    expect_nothing_lost();
  }
  // The link moves to the control connection and back, while nothing is read.
  void expect_all_in_order_without_devices() {
    const std::string large(std::size_t{20} << 10, 'l');
    ASSERT_NO_FATAL_FAILURE(send_all('a'));
    ASSERT_NO_FATAL_FAILURE(move_away());
    ASSERT_NO_FATAL_FAILURE(send_all('b'));
    ASSERT_EQ(send(large.size(), 'l'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(move_away());
    for (std::size_t index = 0; index < kMessages; ++index)
      ASSERT_TRUE(support::eventually([&] { return send(8, 'c') == RIPC_OK; })) << index;
    ASSERT_NO_FATAL_FAILURE(move_to(first_));
    ASSERT_TRUE(goes_by(first_)) << path();
    ASSERT_NO_FATAL_FAILURE(send_all('d'));
    ASSERT_NO_FATAL_FAILURE(receive(4 * kMessages + 1));
    std::string order;
    for (const std::string& packet : sink_.packets) order += packet.front();
    EXPECT_EQ(order, std::string(kMessages, 'a') + std::string(kMessages, 'b') + 'l' + std::string(kMessages, 'c') +
                         std::string(kMessages, 'd'));
    EXPECT_EQ(sink_.packets[2 * kMessages], large);
    expect_nothing_lost();
  }
  void expect_nothing_lost() {
    const spi::PortStatistics seen = port_->statistics();
    EXPECT_EQ(seen.lost + seen.late + seen.duplicates + seen.corrupt, 0u);
    EXPECT_EQ(seen.sources, 1u) << "it is the same link";
    EXPECT_TRUE(channel_->alive());
  }

  remote::Endpoint first_, second_;
};

class SignedMovedLinks : public MovedLinks {
 protected:
  SignedMovedLinks() : MovedLinks(keyed()) {}
  static TransportOptions keyed() {
    TransportOptions options;
    options.credentials.keys = security::keys_of("a");
    return options;
  }
};

TEST_F(MovedLinks, KeepTheirOrderAndLoseNothingThatHadArrived) { expect_all_in_order(); }

TEST_F(SignedMovedLinks, KeepTheirOrderAndLoseNothingThatHadArrived) {
  expect_all_in_order();
  EXPECT_EQ(server_->transport().counters().packets_forged, 0u);
  EXPECT_EQ(server_->transport().counters().packets_replayed, 0u);
}

TEST_F(MovedLinks, GoByTheControlConnectionWhereThereAreNoDevices) { expect_all_in_order_without_devices(); }

TEST_F(SignedMovedLinks, GoByTheControlConnectionWhereThereAreNoDevices) { expect_all_in_order_without_devices(); }

// What came by the control connection waits behind what came before, and before what comes by a device again.
TEST_F(MovedLinks, KeepTheirOrderWhileTheirMessagesWait) {
  sink_.blocks = true;
  ASSERT_NO_FATAL_FAILURE(send_all('a'));
  auto& source = dynamic_cast<remote::LinkSource&>(*sink_.source);
  const auto has_waiting = [&](std::size_t count) {
    return support::eventually([&] {
      (void)port_->poll(sink_, 64);
      return source.backlog.size() == count;
    });
  };
  ASSERT_TRUE(has_waiting(kMessages));
  ASSERT_NO_FATAL_FAILURE(move_away());
  ASSERT_NO_FATAL_FAILURE(send_all('b'));
  ASSERT_TRUE(support::eventually([&] { return source.has_kept(); }));
  ASSERT_NO_FATAL_FAILURE(move_to(first_));
  ASSERT_TRUE(goes_by(first_)) << path();
  ASSERT_NO_FATAL_FAILURE(send_all('c'));
  ASSERT_TRUE(has_waiting(3 * kMessages));
  sink_.blocks = false;
  ASSERT_NO_FATAL_FAILURE(receive(3 * kMessages));
  std::string order;
  for (const std::string& packet : sink_.packets) order += packet.front();
  EXPECT_EQ(order, std::string(kMessages, 'a') + std::string(kMessages, 'b') + std::string(kMessages, 'c'));
  expect_nothing_lost();
}

TEST_F(MovedLinks, HaveTheSameCreditByTheControlConnection) {
  ASSERT_NO_FATAL_FAILURE(move_away());
  std::size_t sent = 0;
  while (sent < 2 * kQueue && send(8, 'a') == RIPC_OK) ++sent;
  EXPECT_GE(sent, kQueue / 2);
  EXPECT_LT(sent, 2 * kQueue);
  EXPECT_FALSE(channel_->has_room(true));
  ASSERT_NO_FATAL_FAILURE(receive(sent));
  EXPECT_TRUE(support::eventually([&] {
    (void)port_->poll(sink_, 64);
    return channel_->has_room(true);
  }));
  EXPECT_EQ(send(8, 'b'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(sent + 1));
  expect_nothing_lost();
}

TEST_F(MovedLinks, LetGoOfTheirDevices) {
  const std::weak_ptr<DatagramSender> here = sender_of(*client_);
  const std::weak_ptr<DatagramSender> there = sender_of(*server_);
  // Counted in the responders, because a responder may borrow one for a while.
  long users_here = 0, users_there = 0;
  client_->in_responder([&] { users_here = here.use_count(); });
  server_->in_responder([&] { users_there = there.use_count(); });
  ASSERT_NO_FATAL_FAILURE(move_away());
  EXPECT_TRUE(support::eventually([&] {
    (void)port_->poll(sink_, 64);
    return here.use_count() == users_here - 1 && there.use_count() == users_there - 1;
  })) << here.use_count()
      << " of " << users_here << ", " << there.use_count() << " of " << users_there;
}

// The thread that opens a link greets its peer meanwhile.
TEST_F(MovedLinks, CountAsNotGreetedWithoutADevice) {
  ASSERT_TRUE(link().was_greeted());
  ASSERT_NO_FATAL_FAILURE(move_away());
  link().greet();
  EXPECT_FALSE(link().was_greeted());
}

TEST_F(MovedLinks, HaveNoRoomUntilTheyHaveArrived) {
  const remote::SessionPointer here = link().session();
  {
    const auto server = server_->pause();
    client_->in_responder([&] {
      here->set_ends(first_, first_);
      link().check_path();
    });
    ASSERT_TRUE(support::eventually([&] { return send(8, 'a') == RIPC_AGAIN; }));
    EXPECT_FALSE(channel_->has_room(true));
  }
  EXPECT_TRUE(support::eventually([&] { return channel_->has_room(true); }));
  EXPECT_EQ(send(8, 'b'), RIPC_OK);
}

TEST_F(MovedLinks, TakeMoreOfThemWhereDatagramsAreShorter) {
  const std::string large(std::size_t{20} << 10, 'l');
  ASSERT_NO_FATAL_FAILURE(add_port(1024));
  ASSERT_NO_FATAL_FAILURE(move_to(second_));
  ASSERT_TRUE(goes_by(second_)) << path();
  EXPECT_NE(path().find("of up to 996 bytes"), std::string::npos) << path();
  ASSERT_EQ(send(large.size(), 'l'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  EXPECT_EQ(sink_.packets.back(), large);
}

TEST_F(MovedLinks, TakeRoomThatWasSpentForWhatIsLostFromTheReceiver) {
  // Nothing is read, so all room is spent, and the messages that lie there are thrown away.
  while (send(8, 'a') == RIPC_OK) {
  }
  ASSERT_NO_FATAL_FAILURE(move_to(second_));
  ASSERT_TRUE(goes_by(second_)) << path();
  EXPECT_TRUE(support::eventually([&] {
    (void)port_->poll(sink_, 64);
    (void)channel_->has_room(true);
    return send(8, 'b') == RIPC_OK;
  }));
}

TEST_F(MovedLinks, LeaveTheGroupsOfTheirDevicesAndComeBackWithThem) {
  if (first_.family() != AF_INET) GTEST_SKIP() << "no address of IPv4";
  const auto port =
      server_->transport().open_port({.id = 8, .queue_messages = 64, .queue_bytes = 8192, .max_senders = 16}, events_);
  ASSERT_TRUE(port.ok());
  const auto other = test::connect(client_->transport(), server_->transport().address(), 8, Deadline::after(kLimit));
  ASSERT_TRUE(other.ok());
  Sink sinks;
  std::array<spi::Channel*, 2> channels{channel_.get(), other->get()};
  const auto poll = [&] {
    (void)port_->poll(sink_, 64);
    (void)(*port)->poll(sinks, 64);
  };
  std::size_t together = 0;
  const auto reach = [&](std::string_view text) {
    poll();
    std::array<std::uint8_t, 2> sent{};
    const ripc_item item{text.data(), text.size(), RIPC_ITEM_SHORT, 0};
    channels.front()->multicast()->send((ripc_service_id{1} << 62) | 4712, channels,
                                        {.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = text.size()},
                                        sent);
    const bool has_both = sent[0] == 1 && sent[1] == 1;
    together += has_both ? 1 : 0;
    return has_both;
  };
  const auto all_have_come = [&] {
    return support::eventually([&] {
      poll();
      return sink_.packets.size() == together && sinks.packets.size() == together;
    });
  };
  ASSERT_TRUE(support::eventually([&] { return reach("first"); }));
  ASSERT_TRUE(all_have_come());
  ASSERT_NO_FATAL_FAILURE(move_to(second_));
  ASSERT_TRUE(goes_by(second_)) << path();
  EXPECT_FALSE(reach("away"));
  ASSERT_NO_FATAL_FAILURE(move_to(first_));
  ASSERT_TRUE(goes_by(first_)) << path();
  ASSERT_TRUE(support::eventually([&] { return reach("back"); }));
  // Every message that was reported as sent arrives, and only once.
  EXPECT_TRUE(all_have_come()) << sink_.packets.size() << " " << sinks.packets.size() << " of " << together;
}

}  // namespace
}  // namespace ripc::internal::verbs
