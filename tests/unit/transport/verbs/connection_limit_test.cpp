// SPDX-License-Identifier: Apache-2.0
// How many RDMA connections a context keeps, over a real device.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "../spi_calls.hpp"
#include "nodes.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kPulledBytes = 64 << 10;

class ConnectionLimit : public Nodes {
 protected:
  ConnectionLimit() : Nodes(limit_of(2)) {}
  static TransportOptions limit_of(std::size_t connections) {
    TransportOptions options;
    options.max_connections = connections;
    return options;
  }

  // A peer of the server, with a link to it.
  struct Peer {
    std::unique_ptr<Node> node;
    std::shared_ptr<spi::Channel> channel;
    std::shared_ptr<spi::Source> source;
  };
  Peer make_peer() {
    Peer peer;
    peer.node = std::make_unique<Node>(devices_);
    peer.channel = connect(*peer.node);
    if (!peer.channel) return peer;
    const std::byte payload{1};
    const spi::Bytes bytes(&payload, 1);
    EXPECT_EQ(test::send(*peer.channel, bytes), RIPC_OK);
    const std::size_t before = sink_.packets.size();
    receive(before + 1);
    peer.source = sink_.source;
    return peer;
  }
  // Transfers one item of the peer into the server's memory.
  static void transfer(Peer& peer) {
    std::vector<std::byte> bytes(kPulledBytes, std::byte{7});
    std::vector<std::byte> window(kPulledBytes);
    LongItem item;
    ASSERT_NO_FATAL_FAILURE(item.begin(*peer.node, *peer.channel, *peer.source, bytes, window.data()));
    spi::Pull& pull = item.pull;
    const Deadline deadline = Deadline::after(kLimit);
    while (peer.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
    }
    ASSERT_EQ(pull.status, RIPC_OK);
    EXPECT_EQ(window, bytes);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = peer.source->finish(pull.descriptor, RIPC_OK);
    ASSERT_EQ(status, RIPC_OK);
    while (peer.channel->poll_transfer(item.transfer, false) == RIPC_PENDING && !deadline.expired()) {
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

// A service in its own context that pulls what the client exposes to it.
class Reader {
 public:
  Reader(const std::shared_ptr<const DeviceList>& devices, Node& client) : node_(devices) {
    port_ = node_.transport()
                .open_port({.id = 7, .queue_messages = 16, .queue_bytes = 8192, .max_senders = 16}, events_)
                .value();
    channel_ = test::connect(client.transport(), node_.transport().address(), 7, Deadline::after(kLimit)).value();
    const std::byte payload{1};
    const spi::Bytes bytes(&payload, 1);
    EXPECT_EQ(test::send(*channel_, bytes), RIPC_OK);
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.packets.empty() && !deadline.expired()) (void)port_->poll(sink_, 1);
    hold_ = client.pool().hold(bytes_.data(), kPulledBytes).value();
  }
  ~Reader() {
    if (!is_finished_) finish();
    sink_.source.reset();
    channel_.reset();
    port_.reset();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Reads the bytes, which may be read again until finish().
  void read() {
    is_finished_ = false;
    const spi::Exposure exposure{.bytes = bytes_, .hold = &hold_};
    ASSERT_EQ(channel_->expose(std::span(&exposure, 1), std::span(&descriptor_, 1), transfer_), RIPC_OK);
    test::flush(*channel_);
    ASSERT_EQ(sink_.source->begin(std::span(&descriptor_, 1)), RIPC_OK);
    spi::Pull pull{.descriptor = descriptor_, .destination = window_.data()};
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.source->pull(pull) == RIPC_PENDING && !deadline.expired()) {
    }
    ASSERT_EQ(pull.status, RIPC_OK);
  }
  void finish() {
    is_finished_ = true;
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.source->finish(descriptor_, RIPC_OK) == RIPC_PENDING && !deadline.expired()) {
    }
    while (channel_->poll_transfer(transfer_, false) == RIPC_PENDING && !deadline.expired()) {
    }
  }
  bool has_connection() const { return node_.transport().connection_count() != 0; }

 private:
  Node node_;
  EventSet events_ = EventSet::create().value();
  Sink sink_;
  std::unique_ptr<spi::Port> port_;
  std::shared_ptr<spi::Channel> channel_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kPulledBytes, std::byte{7});
  std::vector<std::byte> window_ = std::vector<std::byte>(kPulledBytes);
  memory::Hold hold_;
  wire::Descriptor descriptor_{};
  std::uint64_t transfer_ = 0;
  bool is_finished_ = true;
};

TEST_F(ConnectionLimit, AConnectionThatThePeerReadsOverIsNotTheOneThatMakesRoom) {
  Reader reading(devices_, *client_);
  Reader idle(devices_, *client_);
  Reader next(devices_, *client_);
  ASSERT_NO_FATAL_FAILURE(reading.read());
  ASSERT_NO_FATAL_FAILURE(idle.read());
  idle.finish();
  ASSERT_NO_FATAL_FAILURE(next.read());
  EXPECT_TRUE(becomes([&] { return !idle.has_connection(); }));
  EXPECT_TRUE(reading.has_connection());
  EXPECT_TRUE(next.has_connection());
}

TEST_F(ConnectionLimit, TooManyThatAreAllInUseBecomeFewerWhenOneIsNotAnyMore) {
  Reader first(devices_, *client_);
  Reader second(devices_, *client_);
  Reader third(devices_, *client_);
  for (Reader* reader : {&first, &second, &third}) ASSERT_NO_FATAL_FAILURE(reader->read());
  EXPECT_EQ(client_->transport().connection_count(), 3u);
  second.finish();
  EXPECT_TRUE(becomes([&] { return !second.has_connection(); }));
  EXPECT_TRUE(first.has_connection());
  EXPECT_TRUE(third.has_connection());
}

}  // namespace
}  // namespace ripc::internal::verbs
