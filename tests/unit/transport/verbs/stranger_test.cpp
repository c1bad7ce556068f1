// SPDX-License-Identifier: Apache-2.0
// A context refuses and counts all that strangers send to its queue pairs, or with a request for a connection. None
// of it has an effect.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "../spi_calls.hpp"
#include "base/cluster_key.hpp"
#include "strangers.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/bulk/connection_private_data.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::verbs {
namespace {

TransportOptions with_key(std::string_view digit) {
  TransportOptions options;
  options.credentials.keys = security::keys_of(digit);
  return options;
}

class Strangers : public Nodes {
 protected:
  explicit Strangers(TransportOptions options = {}) : Nodes(std::move(options)) {}
  DevicePort port() const { return devices_->ports().front(); }
  std::uint16_t door() const {
    remote::Endpoint here;
    EXPECT_TRUE(remote::Endpoint::parse(port().ip, 0, here));
    return server_->transport().connection_port(here);
  }
  std::uint64_t session() const { return dynamic_cast<const DatagramChannel&>(*channel_).session()->id; }
  // Short and long messages still arrive.
  void all_is_well() {
    sink_.packets.clear();
    ASSERT_EQ(send(8, 'b'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
    EXPECT_EQ(sink_.packets.back(), std::string(8, 'b'));
    std::vector<std::byte> bytes(std::size_t{1} << 20, std::byte{7}), window(bytes.size());
    LongItem item;
    ASSERT_NO_FATAL_FAILURE(item.begin(*client_, *channel_, *sink_.source, bytes, window.data()));
    spi::Pull& pull = item.pull;
    EXPECT_TRUE(support::eventually([&] { return sink_.source->pull(pull) != RIPC_PENDING; }));
    EXPECT_EQ(pull.status, RIPC_OK);
    EXPECT_EQ(window, bytes);
    EXPECT_TRUE(support::eventually([&] { return sink_.source->finish(pull.descriptor, RIPC_OK) == RIPC_OK; }));
    EXPECT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
};

TEST_F(Strangers, NonsenseSentToAServiceOrASenderDeliversNothing) {
  if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
  StrangeSender stranger(port());
  std::mt19937_64 random(1);
  const std::vector<DatagramAddress> targets{dynamic_cast<VerbsPort&>(*port_).addresses().front(),
                                             sender_of(*server_)->address(), sender_of(*client_)->address()};
  const auto strange = [&] {
    return sender_of(*server_)->counters().rejected + counters().rejected + port_->statistics().corrupt;
  };
  constexpr std::uint64_t kCount = 600;
  const std::uint64_t before = strange();
  for (std::uint64_t count = 0; count < kCount; ++count) {
    std::vector<std::byte> bytes(random() % StrangeSender::kMost);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    // Every other one begins like a valid datagram.
    if (count % 2 == 0 && bytes.size() >= wire::datagram::kHeaderSize) {
      wire::datagram::HeaderBytes head;
      wire::datagram::encode({.kind = static_cast<wire::datagram::Kind>(1 + random() % 5),
                              .sequence = static_cast<std::uint32_t>(random()),
                              .token = random(),
                              .credit_link = static_cast<std::uint32_t>(random() % 4)},
                             head);
      std::copy(head.begin(), head.end(), bytes.begin());
    }
    ASSERT_TRUE(stranger.send(targets[count % targets.size()], bytes));
    (void)port_->poll(sink_, 64);
    (void)channel_->has_room(true);
  }
  EXPECT_TRUE(support::eventually([&] {
    (void)port_->poll(sink_, 64);
    (void)channel_->has_room(true);
    return strange() - before == kCount;
  })) << strange() - before;
  EXPECT_TRUE(sink_.packets.empty());
  EXPECT_EQ(sender_of(*server_)->counters().restarts + counters().restarts, 0u) << "no queue pair is stopped";
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

TEST_F(Strangers, ANonsenseRequestForAConnectionIsRefused) {
  std::mt19937_64 random(1);
  for (std::uint64_t count = 1; count <= 8; ++count) {
    PrivateData private_data{};
    for (std::byte& byte : private_data) byte = static_cast<std::byte>(random());
    // Every other one has the right version.
    if (count % 2 == 0) private_data = make_private_data(nullptr, Side::dialing, {}, random(), random());
    const Status outcome = ask_for_connection(port(), door(), private_data);
    EXPECT_EQ(outcome.code(), RIPC_REFUSED) << outcome.text();
    EXPECT_EQ(server_->transport().counters().handshakes_refused, count);
  }
  EXPECT_EQ(server_->transport().connection_count(), 0u);
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

// These strangers know only the name of the session, not what its control connection has sent.
TEST_F(Strangers, TheSessionAloneGivesNoConnection) {
  if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
  ASSERT_NO_FATAL_FAILURE(all_is_well());
  const auto connected = server_->transport().bulks().front()->connection();
  ASSERT_NE(connected, nullptr);
  const PrivateData private_data = make_private_data(nullptr, Side::dialing, {}, session(), 1000);
  EXPECT_EQ(ask_for_connection(port(), door(), private_data).code(), RIPC_REFUSED);
  EXPECT_EQ(server_->transport().counters().handshakes_refused, 1u);
  EXPECT_EQ(server_->transport().bulks().front()->connection(), connected) << "the session's own stays";
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

class KeyedStrangers : public Strangers {
 protected:
  KeyedStrangers() : Strangers(with_key("a")) {}
};

TEST_F(KeyedStrangers, AHolderOfAnotherClusterKeyIsRefused) {
  Node other(devices_, with_key("b"));
  const Result<std::shared_ptr<spi::Channel>> channel =
      test::connect(other.transport(), server_->transport().address(), 7, Deadline::after(kLimit));
  EXPECT_FALSE(channel.ok());
  EXPECT_GE(server_->transport().counters().handshakes_refused + other.transport().counters().handshakes_refused, 1u);
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

// The name and the nonce of the session can be read on the network, so only the key is missing.
TEST_F(KeyedStrangers, TheSessionWithoutTheKeyGivesNoConnection) {
  if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
  ASSERT_NO_FATAL_FAILURE(all_is_well());
  const auto connected = server_->transport().bulks().front()->connection();
  ASSERT_NE(connected, nullptr);
  const std::uint64_t before = server_->transport().counters().handshakes_refused;
  const security::Secret other = security::Secret::random();
  for (const security::Secret* secret : {&other, static_cast<const security::Secret*>(nullptr)}) {
    const PrivateData private_data = make_private_data(secret, Side::dialing, {}, session(), 1000);
    EXPECT_EQ(ask_for_connection(port(), door(), private_data).code(), RIPC_REFUSED);
  }
  EXPECT_EQ(server_->transport().counters().handshakes_refused, before + 2);
  EXPECT_EQ(server_->transport().bulks().front()->connection(), connected) << "the session's own stays";
  ASSERT_NO_FATAL_FAILURE(all_is_well());
}

}  // namespace
}  // namespace ripc::internal::verbs
