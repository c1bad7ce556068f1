// SPDX-License-Identifier: Apache-2.0
// How two contexts find, keep and lose each other.
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "../spi_calls.hpp"
#include "socket_helpers.hpp"
#include "support/descriptor_scarcity.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::socket {
namespace {

using remote::bind_in_range;
using remote::Endpoint;
using remote::GuardedSocket;
using remote::Locator;
using remote::open_socket;

using security::keys_of;

namespace control = wire::session_control;

TransportOptions with_key(std::shared_ptr<const ClusterKeys> keys) {
  TransportOptions options;
  options.credentials.keys = std::move(keys);
  return options;
}

TEST(Session, AClientWithTheSameKeyIsAdmitted) {
  Node server(with_key(keys_of("1")));
  Node client(with_key(keys_of("1")));
  EventSet events = make_events();
  const auto port = server.open_port(events);
  EXPECT_TRUE(client.connect(server).ok());
}

// BBR, the default of many machines, would pace long messages there.
TEST(Session, OnOneMachineItsConnectionsAreNotPaced) {
  const std::set<int> others = streams();
  Node server;
  Node client;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  ASSERT_TRUE(client.connect(server).ok());
  int connections = 0;
  for (const int fd : streams()) {
    if (others.contains(fd)) continue;
    ++connections;
    std::array<char, 16> algorithm{};
    socklen_t size = algorithm.size() - 1;
    ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(), &size), 0);
    EXPECT_STREQ(algorithm.data(), "reno");
  }
  EXPECT_EQ(connections, 2) << "the two ends of the control connection";
}

TEST(Session, AClientWithAnotherKeyOrNoneIsRefusedAndCounted) {
  Node server(with_key(keys_of("1")));
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node stranger(with_key(keys_of("3")));
  const Result<std::shared_ptr<spi::Channel>> other = stranger.connect(server);
  EXPECT_EQ(other.status().code(), RIPC_REFUSED);
  EXPECT_NE(other.status().text().find("another cluster key"), std::string_view::npos) << other.status().text();
  EXPECT_GE(stranger.transport().counters().handshakes_refused, 1u) << "once for each address";
  Node keyless;
  const Result<std::shared_ptr<spi::Channel>> refused = keyless.connect(server);
  EXPECT_EQ(refused.status().code(), RIPC_REFUSED);
  EXPECT_NE(refused.status().text().find("copy the peer's key file"), std::string_view::npos)
      << refused.status().text();
}

// One host, where the first step of a change of the key was forgotten.
TEST(Session, AClientThatSignsWithANewKeyReachesAServerWithTheOldOneOnly) {
  Node server(with_key(keys_of("1")));
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client(with_key(keys_of("31")));
  const Result<std::shared_ptr<spi::Channel>> channel = client.connect(server);
  EXPECT_TRUE(channel.ok()) << channel.status().text();
  EXPECT_EQ(server.transport().counters().handshakes_refused, 0u);
}

TEST(Session, AClientWithTheOldKeyOnlyReachesAServerWithBoth) {
  Node server(with_key(keys_of("31")));
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client(with_key(keys_of("1")));
  const Result<std::shared_ptr<spi::Channel>> channel = client.connect(server);
  EXPECT_TRUE(channel.ok()) << channel.status().text();
  EXPECT_EQ(server.transport().counters().handshakes_refused, 0u);
}

TEST(Session, AClientWithAKeyDoesNotTalkToAServerWithNone) {
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client(with_key(keys_of("1")));
  const Result<std::shared_ptr<spi::Channel>> refused = client.connect(server);
  EXPECT_EQ(refused.status().code(), RIPC_REFUSED);
  EXPECT_NE(refused.status().text().find("RIPC_NETWORK=open"), std::string_view::npos) << refused.status().text();
}

TEST(Session, NobodyThereIsKnownAtOnce) {
  spi::Address address;
  {
    Node server;
    address = server.transport().address();
  }
  Node client;
  const Nanoseconds start = monotonic_now();
  EXPECT_EQ(test::connect(client.transport(), address, 7, Deadline::after(kLimit)).status().code(), RIPC_PEER_DEAD);
  EXPECT_LT(monotonic_now() - start, kLimit);
}

TEST(Session, AnotherContextAtTheAddressIsNotTheOneThatWasWanted) {
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client;
  Locator locator = Locator::parse(server.transport().address().locator).value();
  locator.context ^= 1;
  EXPECT_EQ(test::connect(client.transport(), {"socket", locator.text()}, 7, Deadline::after(kLimit)).status().code(),
            RIPC_PEER_DEAD);
}

TEST(Session, AnAddressWithoutAContextLeadsToWhoeverIsThere) {
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client;
  const std::uint16_t listening = Locator::parse(server.transport().address().locator)->port;
  EXPECT_TRUE(test::connect(client.transport(), {"socket", "127.0.0.1:" + std::to_string(listening)}, 7,
                            Deadline::after(kLimit))
                  .ok());
}

// An address that a person wrote down, without a context.
spi::Address written(Node& node) {
  return {"socket", "127.0.0.1:" + std::to_string(Locator::parse(node.transport().address().locator)->port)};
}

TEST(Session, AnAddressThatWorksIsUsedThoughOneBeforeItIsSilent) {
  // A socket that takes connections, and says nothing.
  Endpoint loopback;
  ASSERT_TRUE(Endpoint::parse("127.0.0.1", 0, loopback));
  Result<GuardedSocket> silent = open_socket(AF_INET, SOCK_STREAM);
  ASSERT_TRUE(silent.ok());
  ASSERT_TRUE(bind_in_range(silent->fd.get(), loopback, {}).ok());
  ASSERT_EQ(::listen(silent->fd.get(), 8), 0);
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client;
  const std::vector<spi::Address> addresses{
      {"socket", Endpoint::local_of(silent->fd.get()).text()}, {"socket", "nonsense"}, written(server)};
  const auto connected = client.transport().connect(addresses, 7, Deadline::after(kLimit));
  ASSERT_TRUE(connected.ok()) << connected.status().text();
  EXPECT_EQ(connected->address, addresses[2]);
}

TEST(Session, TheOneOfSeveralContextsThatHasTheServiceIsUsed) {
  Node without;
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client;
  const std::vector<spi::Address> addresses{written(without), written(server)};
  const auto connected = client.transport().connect(addresses, 7, Deadline::after(kLimit));
  ASSERT_TRUE(connected.ok()) << connected.status().text();
  EXPECT_EQ(connected->address, addresses[1]);
  EXPECT_EQ(client.transport().connect(addresses, 8, Deadline::after(kLimit)).status().code(), RIPC_NO_SERVICE);
}

TEST(Session, AServiceThatIsNotThereIsToldFromAPeerThatIsNot) {
  Node server;
  Node client;
  EXPECT_EQ(client.connect(server, 8).status().code(), RIPC_NO_SERVICE);
}

TEST(Session, AContextWithoutPeersSleeps) {
  constexpr Nanoseconds kTimeout = 80'000'000;
  TransportOptions options;
  options.peer_timeout = kTimeout;
  options.bind_address = "127.0.0.1";
  Node alone(options);
  const auto turns = [&] {
    std::promise<std::uint64_t> counted;
    alone.loop().post([&] { counted.set_value(alone.loop().turn()); });
    return counted.get_future().get();
  };
  const std::uint64_t before = turns();
  const Nanoseconds begin = monotonic_now();
  ASSERT_TRUE(eventually([&] { return monotonic_now() - begin > 3 * kTimeout; }));
  EXPECT_LE(turns() - before, 8U) << "a wake for each heartbeat would be 24";
}

TEST(Session, APeerTooManyIsRefused) {
  TransportOptions options;
  options.max_peers = 1;
  Node server(options);
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node first;
  Node second;
  const auto channel = first.channel(server);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(second.connect(server).status().code(), RIPC_REFUSED);
}

TEST(Session, TheAddressASourceGivesLeadsBack) {
  Node server;
  Node client;
  EventSet events = make_events();
  EventSet client_events = make_events();
  const auto port = server.open_port(events);
  const auto client_port = client.open_port(client_events, 9);
  const auto channel = client.channel(server);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  CollectingSink sink;
  ASSERT_TRUE(eventually([&] { return port->poll(sink, 1) == 1; }));
  spi::Source& source = *sink.packets[0].first;
  EXPECT_EQ(source.facts().context, client.context());
  EXPECT_TRUE(test::connect(server.transport(), source.facts().reply_address, 9, Deadline::after(kLimit)).ok());
}

TEST(Session, AnEndingPeerTakesItsChannelsAndSourcesAlong) {
  Node server;
  EventSet events = make_events();
  auto port = server.open_port(events);
  Node client;
  const auto channel = client.channel(server);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channel, "last words"), RIPC_OK);
  client.stop();
  CollectingSink sink;
  EXPECT_TRUE(eventually([&] {
    (void)port->poll(sink, 8);
    return sink.gone == 1;
  }));
  EXPECT_EQ(sink.packets.size(), 1u);
  EXPECT_FALSE(channel->alive());
  EXPECT_EQ(send_text(*channel, "x"), RIPC_PEER_DEAD);
}

TEST(Session, AFenceArrivesAndIsAnswered) {
  Node server;
  Node client;
  EXPECT_TRUE(client.transport().fence(server.transport().address(), 7, 1, Deadline::after(kLimit)).ok());
  EXPECT_EQ(server.host().fences(), 1);
}

// Breaks every TCP connection of this process that has a port of the node at one end, as a network can.
void break_connections(Node& node) {
  const std::uint16_t listening = Locator::parse(node.transport().address().locator)->port;
  for (int fd = 3; fd < 1024; ++fd) {
    int type = 0;
    int accepts = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) continue;
    size = sizeof accepts;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0 || accepts != 0) continue;
    const Endpoint local = Endpoint::local_of(fd);
    if (local && (local.family() == AF_INET || local.family() == AF_INET6) && local.port() == listening)
      (void)::shutdown(fd, SHUT_RDWR);
  }
}

TEST(Session, ALostControlConnectionIsMadeAgainAndNothingThatWasSaidIsLost) {
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client;
  const auto channel = client.channel(server);
  ASSERT_NE(channel, nullptr);
  std::size_t sent = 0;
  for (int round = 0; round < 5; ++round) {
    for (int number = 0; number < 20; ++number, ++sent) {
      const std::string text = std::to_string(sent);
      const spi::Bytes bytes = std::as_bytes(std::span(text.data(), text.size()));
      ASSERT_EQ(channel->send({.kind = spi::Outgoing::Kind::control, .packet = std::span(&bytes, 1)}), RIPC_OK);
    }
    break_connections(server);
  }
  ASSERT_TRUE(eventually([&] { return server.host().control_packets().size() >= sent; }));
  const auto arrived = server.host().control_packets();
  ASSERT_EQ(arrived.size(), sent);
  for (std::size_t index = 0; index < sent; ++index) EXPECT_EQ(arrived[index].second, std::to_string(index));
  EXPECT_TRUE(channel->alive());
  EXPECT_EQ(client.host().losses(), 0);
  EXPECT_EQ(send_text(*channel, "still there"), RIPC_OK);
}

ripc_status send_control(spi::Channel& channel) {
  const spi::Bytes bytes = std::as_bytes(std::span("x", 1));
  return channel.send({.kind = spi::Outgoing::Kind::control, .packet = std::span(&bytes, 1)});
}

// Both sides dial, and whoever is dialed has no descriptor to take the connection with.
TEST(Session, ALackOfDescriptorsEndsNoSessionThatLosesItsControlConnectionMeanwhile) {
  TransportOptions options;
  options.bind_address = "127.0.0.1";
  Node server(options);
  EventSet events = make_events();
  const auto port = server.open_port(events);
  Node client(options);
  const auto channel = client.channel(server);
  ASSERT_NE(channel, nullptr);
  {
    support::DescriptorScarcity scarcity(0);
    break_connections(server);
    // A connection that was refused has left one.
    ASSERT_TRUE(eventually([&] { return scarcity.take(); }));
  }
  EXPECT_EQ(send_control(*channel), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return !server.host().control_packets().empty() || !channel->alive(); }));
  EXPECT_TRUE(channel->alive());
  EXPECT_EQ(client.host().losses(), 0);
}

// Two nodes with a link in each direction.
class FullControl : public ::testing::Test {
 protected:
  static TransportOptions impatient() {
    TransportOptions options;
    options.peer_timeout = 800'000'000;  // so that there are many heartbeats
    return options;
  }
  static void fill(spi::Channel& channel) {
    while (send_control(channel) == RIPC_OK) continue;
    EXPECT_EQ(send_control(channel), RIPC_AGAIN);
  }

  Node one_{impatient()}, two_{impatient()};
  EventSet events_ = make_events(), other_events_ = make_events();
  std::unique_ptr<remote::UdpPort> port_ = one_.open_port(events_), other_port_ = two_.open_port(other_events_, 8);
  std::shared_ptr<remote::UdpChannel> there_ = two_.channel(one_), back_ = one_.channel(two_, 8);
};

TEST_F(FullControl, BothSidesGoOnThoughBothHaveSentAllThatMayBeUnderWay) {
  {
    const Halt one(one_);
    const Halt two(two_);
    fill(*there_);
    fill(*back_);
  }
  EXPECT_TRUE(eventually([&] { return there_->session()->stream.has_room() && back_->session()->stream.has_room(); }));
  EXPECT_EQ(send_control(*there_), RIPC_OK);
  EXPECT_EQ(send_control(*back_), RIPC_OK);
}

TEST_F(FullControl, TheEndOfAServiceIsTold) {
  {
    const Halt two(two_);
    fill(*back_);
    port_.reset();
  }
  EXPECT_TRUE(eventually([&] { return !there_->alive(); }));
  EXPECT_EQ(send_text(*there_, "x"), RIPC_CLOSED);
}

// The other end of a session without keys, which does as a test says.
class ScriptedPeer {
 public:
  ScriptedPeer() {
    Endpoint loopback;
    EXPECT_TRUE(Endpoint::parse("127.0.0.1", 0, loopback));
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_TRUE(bind_in_range(listener_.get(), loopback, {}).ok());
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
  }

  std::string address() const { return Endpoint::local_of(listener_.get()).text(); }
  void accept() {
    connection_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const timeval patience{10, 0};
    EXPECT_EQ(setsockopt(connection_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    (void)next<control::Hello>();
    say({control::HelloReply{.context = 5, .abilities = control::kChaCha}});
    (void)next<control::Confirm>();
  }
  // Reads on to the next frame of this type; nothing: none comes.
  template <typename T>
  std::optional<T> next() {
    for (const Deadline deadline = Deadline::after(kLimit); !deadline.expired();) {
      std::vector<std::byte> bytes(control::kPrefixSize);
      if (!read(bytes, 0)) return std::nullopt;
      bytes.resize(control::frame_size(bytes).value());
      if (!read(bytes, control::kPrefixSize)) return std::nullopt;
      const control::Frame frame = control::decode(bytes).value();
      if (const T* const wanted = std::get_if<T>(&frame)) return *wanted;
    }
    return std::nullopt;
  }
  // All frames arrive together.
  void say(const std::vector<control::Frame>& frames) {
    std::vector<std::byte> all;
    for (const control::Frame& frame : frames) {
      std::vector<std::byte> bytes;
      EXPECT_EQ(control::encode(frame, bytes), RIPC_OK);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(::send(connection_.get(), all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
  }

 private:
  bool read(std::span<std::byte> bytes, std::size_t from) {
    const auto rest = bytes.subspan(from);
    return rest.empty() ||
           ::recv(connection_.get(), rest.data(), rest.size(), MSG_WAITALL) == static_cast<ssize_t>(rest.size());
  }

  UniqueFd listener_, connection_;
};

TEST(Session, AServiceThatEndsAsSoonAsItsLinkIsOpenIsNotThere) {
  ScriptedPeer peer;
  Node client;
  std::optional<control::CloseLink> closed;
  std::thread script([&] {
    peer.accept();
    const auto open = peer.next<control::Open>();
    if (!open) return;
    peer.say({control::Opened{.request = open->request,
                              .link = open->link,
                              .port = 9,
                              .packet_limit = control::kMinPacketLimit,
                              .credit = 1},
              control::LinkClosed{.link = open->link, .status = RIPC_CLOSED}});
    closed = peer.next<control::CloseLink>();
  });
  const auto made = test::connect(client.transport(), {"socket", peer.address()}, 7, Deadline::after(kLimit));
  // This thread may have the channel before the responder reads the second frame.
  if (made.ok()) {
    EXPECT_TRUE(eventually([&] { return !(*made)->alive(); }));
  } else {
    EXPECT_EQ(made.status().code(), RIPC_NO_SERVICE);
  }
  script.join();
  EXPECT_TRUE(closed) << "the peer waits for it";
}

}  // namespace
}  // namespace ripc::internal::socket
