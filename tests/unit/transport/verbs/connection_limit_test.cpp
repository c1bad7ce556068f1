// SPDX-License-Identifier: Apache-2.0
// How many RDMA connections a context keeps, over a real device.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "nodes.hpp"

namespace ripc::verbs {
namespace {

constexpr std::size_t kSize = 64 << 10;

class ConnectionLimit : public Nodes {
 protected:
  ConnectionLimit() : Nodes(limit_of(2)) {}
  static TransportOptions limit_of(std::size_t connections) {
    TransportOptions options;
    options.max_connections = connections;
    return options;
  }

  // A peer of the server's, with a link to it.
  struct Peer {
    std::unique_ptr<Node> node;
    std::shared_ptr<spi::Channel> channel;
    std::shared_ptr<spi::Source> source;
  };
  Peer make_peer() {
    Peer peer;
    peer.node = std::make_unique<Node>(fabric_);
    peer.channel = connect(*peer.node);
    if (!peer.channel) return peer;
    const std::byte payload{1};
    const spi::Bytes bytes(&payload, 1);
    bool woke = false;
    EXPECT_EQ(peer.channel->send(std::span(&bytes, 1), woke), RIPC_OK);
    const std::size_t before = sink_.packets.size();
    receive(before + 1);
    peer.source = sink_.source;
    return peer;
  }
  // One item of the peer's into the server's memory.
  static void transfer(Peer& peer) {
    std::vector<std::byte> bytes(kSize, std::byte{7});
    std::vector<std::byte> window(kSize);
    const memory::Hold hold = peer.node->pool().hold(bytes.data(), kSize).value();
    const spi::Exposure exposure{.bytes = bytes, .hold = &hold};
    wire::Descriptor descriptor{};
    std::uint64_t number = 0;
    ASSERT_EQ(peer.channel->expose(std::span(&exposure, 1), std::span(&descriptor, 1), number), RIPC_OK);
    ASSERT_EQ(peer.source->begin(std::span(&descriptor, 1)), RIPC_OK);
    spi::Pull pull{.descriptor = descriptor, .destination = window.data()};
    const Deadline deadline = Deadline::after(kLimit);
    while (peer.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
    }
    ASSERT_EQ(pull.status, RIPC_OK);
    EXPECT_EQ(window, bytes);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = peer.source->finish(descriptor, RIPC_OK);
    ASSERT_EQ(status, RIPC_OK);
    while (peer.channel->transfer_status(number) == RIPC_PENDING && !deadline.expired()) {
    }
  }
  static bool has_connection(const Peer& peer) {
    const auto bulks = peer.node->transport().bulks();
    return !bulks.empty() && bulks.front()->connection() != nullptr;
  }
  static bool becomes(const std::function<bool()>& state) {
    const Deadline deadline = Deadline::after(kLimit);
    while (!state() && !deadline.expired()) std::this_thread::yield();
    return state();
  }
};

TEST_F(ConnectionLimit, TheOneThatWasUsedLongestAgoMakesRoomAndIsMadeAgainWhenItIsNeeded) {
  std::vector<Peer> peers;
  for (int index = 0; index < 3; ++index) {
    peers.push_back(make_peer());
    ASSERT_TRUE(peers.back().channel);
  }
  ASSERT_NO_FATAL_FAILURE(transfer(peers[0]));
  ASSERT_NO_FATAL_FAILURE(transfer(peers[1]));
  ASSERT_NO_FATAL_FAILURE(transfer(peers[0]));
  EXPECT_TRUE(has_connection(peers[0]));
  EXPECT_TRUE(has_connection(peers[1]));

  ASSERT_NO_FATAL_FAILURE(transfer(peers[2]));
  EXPECT_TRUE(becomes([&] { return !has_connection(peers[1]); })) << "the one used longest ago is still there";
  EXPECT_TRUE(has_connection(peers[0]));
  EXPECT_TRUE(has_connection(peers[2]));

  ASSERT_NO_FATAL_FAILURE(transfer(peers[1]));
  EXPECT_TRUE(has_connection(peers[1]));
  EXPECT_TRUE(becomes([&] { return !has_connection(peers[0]); }));
  for (Peer& peer : peers) peer.source.reset();
}

}  // namespace
}  // namespace ripc::verbs
