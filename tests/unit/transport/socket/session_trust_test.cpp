// SPDX-License-Identifier: Apache-2.0
// Sessions of members of a trust file. On one host the user is the proof; the file knows this process by its user.
#include <gtest/gtest.h>
#include <unistd.h>

#include "../spi_calls.hpp"
#include "socket_helpers.hpp"
#include "support/temporary_directory.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::socket {
namespace {

constexpr Nanoseconds kPeerTimeout = 400'000'000;

TransportOptions trusting(const std::string& rights) {
  TransportOptions options;
  options.credentials.trust = std::make_shared<security::TrustFile>(
      security::trust_of("me " + security::key_of(1) + " user=" + std::to_string(::getuid()) + " " + rights +
                         "\nother " + security::key_of(2) + " holds=bank\n"));
  return options;
}

TransportOptions following(const std::string& path, Nanoseconds peer_timeout) {
  TransportOptions options;
  options.peer_timeout = peer_timeout;
  options.credentials.trust = std::move(security::TrustFile::open(path, security::reading()).value());
  return options;
}

// A service, and a client that has connected to it, or was refused.
struct Ends {
  explicit Ends(const TransportOptions& serving, const TransportOptions& calling = {})
      : server(serving), client(calling), channel(client.connect(server)) {}
  Node server;
  EventSet events = make_events();
  std::unique_ptr<remote::UdpPort> port = server.open_port(events);
  Node client;
  Result<std::shared_ptr<spi::Channel>> channel;
};

TEST(SessionTrust, AMemberThatMayNotCallAServiceIsRefusedAndCounted) {
  Ends ends(trusting("calls="));
  const Status& refused = ends.channel.status();
  EXPECT_EQ(refused.code(), RIPC_REFUSED);
  EXPECT_NE(refused.text().find("calls="), std::string_view::npos) << refused.text();
  EXPECT_EQ(ends.server.transport().counters().links_refused, 1U);
}

TEST(SessionTrust, AMemberThatIsRemovedOrMayNotCallAnyMoreLosesItsLinks) {
  const support::TemporaryDirectory directory;
  const std::string path = directory.path() + "/trust";
  const std::string me = "me " + security::key_of(1) + " user=" + std::to_string(::getuid());
  const std::string other = "other " + security::key_of(2) + "\n";
  for (const std::string& later : {me + " calls=\n" + other, other}) {
    security::write_file(path, me + "\n" + other);
    const TransportOptions options = following(path, kPeerTimeout);
    const Ends ends(options);
    ASSERT_TRUE(ends.channel.ok()) << ends.channel.status().text();
    security::write_file(path, me + " calls=0x7\n" + other);
    ASSERT_TRUE(options.credentials.trust->look().ok());
    ASSERT_EQ(send_text(**ends.channel, "x"), RIPC_OK);
    security::write_file(path, later);
    EXPECT_TRUE(eventually([&] { return !(*ends.channel)->alive(); })) << later;
  }
}

// A key proves a member; without a key, the user does. A peer that has neither any more is not that member.
TEST(SessionTrust, AMemberWithAnotherKeyOrUserLosesTheLinksOfTheOldOne) {
  const support::TemporaryDirectory directory;
  const std::string path = directory.path() + "/trust";
  const std::string user = " user=" + std::to_string(::getuid());
  struct Case {
    const char* what;
    std::shared_ptr<const security::Identity> identity;
    std::string before, after;
  };
  const std::string server = "server " + security::key_of(3) + "\n";
  for (const Case& one :
       {Case{"key", security::identity_of(1), "alice " + security::key_of(1) + "\n",
             "alice " + security::key_of(2) + "\n"},
        Case{"key and user", security::identity_of(1), "alice " + security::key_of(1) + user + "\n",
             "bob " + security::key_of(1) + user + "\nalice " + security::key_of(2) + "\n"},
        Case{"user", nullptr, "alice " + security::key_of(1) + user + "\nbob " + security::key_of(2) + "\n",
             "alice " + security::key_of(1) + "\nbob " + security::key_of(2) + user + "\n"}}) {
    SCOPED_TRACE(one.what);
    security::write_file(path, server + one.before);
    TransportOptions serving = following(path, kPeerTimeout);
    serving.credentials.keys = security::keys_of("1");
    serving.credentials.identity = security::identity_of(3);
    TransportOptions calling;
    calling.credentials.keys = security::keys_of("1");
    calling.credentials.identity = one.identity;
    const Ends ends(serving, calling);
    ASSERT_TRUE(ends.channel.ok()) << ends.channel.status().text();
    ASSERT_EQ(send_text(**ends.channel, "x"), RIPC_OK);
    CollectingSink sink;
    ASSERT_TRUE(eventually([&] { return ends.port->poll(sink, 1) == 1; }));
    ASSERT_NE(sink.packets[0].first->facts().peer, nullptr);
    EXPECT_EQ(sink.packets[0].first->facts().peer->identity, "alice");
    security::write_file(path, server + one.after);
    EXPECT_TRUE(eventually([&] { return !(*ends.channel)->alive(); }));
  }
}

TEST(SessionTrust, ALongPeerTimeoutDoesNotDelayTheRemovalOfAMember) {
  const support::TemporaryDirectory directory;
  const std::string path = directory.path() + "/trust";
  const std::string other = "other " + security::key_of(2) + "\n";
  security::write_file(path, other + "me " + security::key_of(1) + " user=" + std::to_string(::getuid()) + "\n");
  const Ends ends(following(path, 600'000'000'000));
  ASSERT_TRUE(ends.channel.ok()) << ends.channel.status().text();
  security::write_file(path, other);
  // The heartbeat would come only after 75 seconds.
  EXPECT_TRUE(eventually([&] { return !(*ends.channel)->alive(); }));
}

TEST(SessionTrust, ATrueRecordDoesNotLeadToAnotherMemberAtItsAddress) {
  Node server;
  EventSet events = make_events();
  const auto port = server.open_port(events, 7);
  Node client(trusting("holds=*"));
  spi::Address address = server.transport().address();
  address.member = "other";
  const auto refused = test::connect(client.transport(), address, 7, Deadline::after(kLimit));
  EXPECT_EQ(refused.status().code(), RIPC_REFUSED);
  EXPECT_NE(refused.status().text().find("me is at the address of the service, but other holds it"),
            std::string_view::npos)
      << refused.status().text();
  EXPECT_EQ(client.transport().fence(address, 7, 1, Deadline::after(kLimit)).code(), RIPC_REFUSED);
  address.member = "me";
  EXPECT_TRUE(test::connect(client.transport(), address, 7, Deadline::after(kLimit)).ok());
  EXPECT_TRUE(client.transport().fence(address, 7, 1, Deadline::after(kLimit)).ok());
}

// The peer that begins a session states its context itself.
TEST(SessionTrust, AMemberThatStatesTheContextOfAnotherOneNeitherKeepsThisHostFromItNorTakesItsFences) {
  TransportOptions options;
  options.credentials.keys = security::keys_of("1");
  options.context = 4711;
  options.credentials.identity = security::identity_of(1);
  Node victim(options);
  EventSet events = make_events();
  const auto port = victim.open_port(events, 7);
  options.credentials.identity = security::identity_of(2);
  Node thief(options);
  TransportOptions serving;
  serving.credentials.keys = options.credentials.keys;
  serving.credentials.identity = security::identity_of(3);
  serving.credentials.trust = std::make_shared<security::TrustFile>(security::trust_of(
      "victim " + security::key_of(1) + "\nthief " + security::key_of(2) + "\nserver " + security::key_of(3) + "\n"));
  Node server(serving);
  EventSet own_events = make_events();
  const auto own_port = server.open_port(own_events, 8);
  ASSERT_TRUE(thief.connect(server, 8).ok());
  spi::Address address = victim.transport().address();
  address.member = "victim";
  EXPECT_TRUE(server.transport().fence(address, 7, 1, Deadline::after(kLimit)).ok());
  EXPECT_EQ(thief.host().fences(), 0);
  EXPECT_EQ(victim.host().fences(), 1);
  const auto connected = test::connect(server.transport(), address, 7, Deadline::after(kLimit));
  EXPECT_TRUE(connected.ok()) << connected.status().text();
}

TEST(SessionTrust, ASourceIsKnownAndBelievedOnlyWhatItsMemberMayHold) {
  Node server(trusting("holds=0x2a"));
  Node client;
  EventSet events = make_events();
  const auto port = server.open_port(events);
  const auto channel = client.channel(server);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(send_text(*channel, "x"), RIPC_OK);
  CollectingSink sink;
  ASSERT_TRUE(eventually([&] { return port->poll(sink, 1) == 1; }));
  const spi::Source& source = *sink.packets[0].first;
  ASSERT_NE(source.facts().peer, nullptr);
  EXPECT_EQ(source.facts().peer->identity, "me");
  EXPECT_EQ(source.facts().peer->user, ::getuid());
  EXPECT_TRUE(source.may_claim(0x2a));
  EXPECT_FALSE(source.may_claim(core::service_id_from_name("bank")));
}

}  // namespace
}  // namespace ripc::internal::socket
