// SPDX-License-Identifier: Apache-2.0
// Short messages over the datagrams of a real device: what they cost, and who may send them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace ripc::verbs {
namespace {

constexpr Nanoseconds kLimit = 20'000'000'000;

class QuietHost final : public spi::Host {
 public:
  void control_packet(spi::Source&, ripc_service_id, spi::Bytes) noexcept override {}
  void transfer_finished(spi::Channel&, std::uint64_t) noexcept override {}
  void room(spi::Channel&) noexcept override {}
  void channel_lost(spi::Channel&) noexcept override {}
  void fenced(ripc_service_id, std::uint64_t) noexcept override {}
  void address_changed() noexcept override {}
};

// A transport with a responder of its own.
class Node {
 public:
  explicit Node(std::shared_ptr<const Fabric> fabric) {
    loop_ = EventLoop::create().value();
    TransportOptions options;
    options.context = random_u64() | 1;
    transport_ = std::make_unique<VerbsTransport>(options, std::move(fabric), pool_);
    const Status started = transport_->start(host_, *loop_);
    EXPECT_TRUE(started.ok()) << started.text();
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~Node() {
    loop_->post([this] {
      transport_->stop();
      loop_->stop();
    });
    thread_.join();
  }
  VerbsTransport& transport() { return *transport_; }

 private:
  memory::Pool pool_{std::uint64_t{64} << 20};
  QuietHost host_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<VerbsTransport> transport_;
  std::thread thread_;
};

class Sink final : public spi::PacketSink {
 public:
  spi::Delivery deliver(spi::Source&, spi::Bytes packet) noexcept override {
    packets.emplace_back(reinterpret_cast<const char*>(packet.data()), packet.size());
    return spi::Delivery::taken;
  }
  void source_gone(spi::Source&) noexcept override {}
  std::vector<std::string> packets;
};

class Datagrams : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const Fabric>> fabric = Fabric::open();
    if (!fabric.ok()) GTEST_SKIP() << fabric.status().text();
    const auto& ports = (*fabric)->ports();
    if (std::none_of(ports.begin(), ports.end(), [](const FabricPort& port) { return port.mtu != 0; }))
      GTEST_SKIP() << "no RDMA device of this machine has datagrams";
    server_ = std::make_unique<Node>(*fabric);
    client_ = std::make_unique<Node>(*fabric);
    Result<std::unique_ptr<spi::Port>> port = server_->transport().open_port(
        {.id = 7, .queue_messages = 1024, .queue_bytes = 8192, .max_senders = 16}, events_);
    ASSERT_TRUE(port.ok()) << port.status().text();
    port_ = std::move(*port);
    Result<std::shared_ptr<spi::Channel>> channel =
        client_->transport().connect(server_->transport().address(), 7, Deadline::after(kLimit));
    ASSERT_TRUE(channel.ok()) << channel.status().text();
    channel_ = *channel;
  }
  void TearDown() override {
    channel_.reset();
    port_.reset();
  }

  ripc_status send(std::size_t size, char fill) {
    const std::string text(size, fill);
    const spi::Bytes bytes = std::as_bytes(std::span(text));
    bool woke = false;
    return channel_->send(std::span(&bytes, 1), woke);
  }
  void receive(std::size_t count) {
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.packets.size() < count && !deadline.expired()) (void)port_->poll(sink_, 64);
    ASSERT_EQ(sink_.packets.size(), count);
  }
  DatagramCounters counters() { return client_->transport().datagram_counters(); }

  EventSet events_ = EventSet::create().value();
  std::unique_ptr<Node> server_, client_;
  std::unique_ptr<spi::Port> port_;
  std::shared_ptr<spi::Channel> channel_;
  Sink sink_;
};

TEST_F(Datagrams, ASmallMessageIsOneWorkRequestAndOneDoorbellAndCopiedByTheDeviceOnly) {
  constexpr std::size_t kCount = 512;
  const DatagramCounters before = counters();
  for (std::size_t index = 0; index < kCount; ++index) {
    ASSERT_EQ(send(64, 'a'), RIPC_OK) << index;
    if (index % 64 == 63) receive(index + 1);
  }
  const DatagramCounters after = counters();
  EXPECT_EQ(after.work_requests - before.work_requests, kCount);
  EXPECT_EQ(after.doorbells - before.doorbells, kCount);
  EXPECT_EQ(after.inlined - before.inlined, kCount);
  EXPECT_EQ(after.copied, before.copied);
  EXPECT_LE(after.completions - before.completions, kCount / DatagramSender::kSignalEvery);
  EXPECT_EQ(sink_.packets.back(), std::string(64, 'a'));
}

TEST_F(Datagrams, ALargeMessageIsCopiedOnceAndArrivesWhole) {
  const DatagramCounters before = counters();
  const std::size_t limit = channel_->packet_limit();
  ASSERT_EQ(send(limit, 'b'), RIPC_OK);
  receive(1);
  const DatagramCounters after = counters();
  EXPECT_EQ(after.copied - before.copied, 1u);
  EXPECT_EQ(after.work_requests - before.work_requests, 1u);
  EXPECT_EQ(sink_.packets.back(), std::string(limit, 'b'));
  EXPECT_EQ(send(limit + 1, 'b'), RIPC_TOO_LARGE) << "the device would lose it without a word";
}

TEST_F(Datagrams, ManyMessagesAreRungForOnce) {
  const std::string text = "one of many";
  const ripc_item item{text.data(), text.size(), RIPC_ITEM_SHORT, 0};
  std::array<wire::Plain, 32> messages;
  messages.fill({.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = text.size()});
  const DatagramCounters before = counters();
  std::size_t sent = 0;
  bool woke = false;
  ASSERT_EQ(channel_->send_many(messages, sent, woke), RIPC_OK);
  EXPECT_EQ(sent, messages.size());
  receive(sent);
  const DatagramCounters after = counters();
  EXPECT_EQ(after.doorbells - before.doorbells, 1u);
  EXPECT_EQ(after.work_requests - before.work_requests, messages.size());
}

TEST_F(Datagrams, AReceiverThatDoesNotReadStopsItsSenderAndLosesNothing) {
  std::size_t sent = 0;
  while (sent < 100'000 && send(8, 'c') == RIPC_OK) ++sent;
  EXPECT_GE(sent, 1024u);
  EXPECT_LT(sent, 100'000u);
  receive(sent);
  EXPECT_EQ(port_->statistics().lost, 0u);
  const Deadline deadline = Deadline::after(kLimit);
  while (!channel_->has_room() && !deadline.expired()) (void)port_->poll(sink_, 64);
  EXPECT_EQ(send(8, 'c'), RIPC_OK) << "the room comes back";
}

}  // namespace
}  // namespace ripc::verbs
