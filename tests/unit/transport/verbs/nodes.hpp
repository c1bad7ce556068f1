// SPDX-License-Identifier: Apache-2.0
// Two ends of the RDMA transport in this process, over a real device.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../quiet_host.hpp"
#include "../spi_calls.hpp"
#include "base/random.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace ripc::internal::verbs {

inline constexpr Nanoseconds kLimit = 20'000'000'000;

// A transport with its own responder.
class Node {
 public:
  explicit Node(std::shared_ptr<const DeviceList> devices, TransportOptions options = {}) {
    loop_ = EventLoop::create().value();
    options.context = random_u64() | 1;
    transport_ = std::make_unique<VerbsTransport>(options, std::move(devices), pool_);
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
  VerbsTransport& transport() const { return *transport_; }

  // The responder does nothing as long as this object exists.
  class Pause {
   public:
    explicit Pause(EventLoop& loop) {
      auto stopped = std::make_shared<std::promise<void>>();
      loop.post([stopped, goes_on = goes_on_.get_future().share()] {
        stopped->set_value();
        goes_on.wait();
      });
      stopped->get_future().wait();
    }
    ~Pause() { goes_on_.set_value(); }

   private:
    std::promise<void> goes_on_;
  };
  Pause pause() { return Pause(*loop_); }
  // Runs the work in the responder, and returns when it is done.
  void in_responder(const std::function<void()>& work) {
    std::promise<void> done;
    loop_->post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  memory::Pool& pool() { return pool_; }

 private:
  memory::Pool pool_{std::uint64_t{64} << 20};
  test::QuietHost host_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<VerbsTransport> transport_;
  std::thread thread_;
};

class Sink final : public spi::PacketSink {
 public:
  spi::Delivery deliver(spi::Source& from, spi::Bytes packet, const Memory*) noexcept override {
    if (refuses) {
      ++refused;
      return spi::Delivery::stop;
    }
    if (blocks) return spi::Delivery::blocked;
    source = from.shared_from_this();
    packets.emplace_back(reinterpret_cast<const char*>(packet.data()), packet.size());
    return spi::Delivery::taken;
  }
  Memory make_room(std::size_t) noexcept override { return {}; }
  void source_gone(spi::Source&) noexcept override {}
  bool refuses = false;  // there is no room
  bool blocks = false;   // there is none for this sender
  std::size_t refused = 0;
  std::vector<std::string> packets;
  std::shared_ptr<spi::Source> source;  // of the last packet
};

// A long item of a client's memory on its way into the server's.
struct LongItem {
  memory::Hold hold;
  std::uint64_t transfer = 0;
  spi::Pull pull;

  // Does everything up to the point where the item can be pulled.
  void begin(Node& client, spi::Channel& channel, spi::Source& source, std::span<std::byte> bytes, std::byte* window) {
    Result<memory::Hold> held = client.pool().hold(bytes.data(), bytes.size());
    ASSERT_TRUE(held.ok()) << held.status().text();
    hold = std::move(*held);
    const spi::Exposure exposure{.bytes = bytes, .hold = &hold};
    ASSERT_EQ(channel.expose(std::span(&exposure, 1), std::span(&pull.descriptor, 1), transfer), RIPC_OK);
    test::flush(channel);
    pull.destination = window;
    ASSERT_EQ(source.begin(std::span(&pull.descriptor, 1)), RIPC_OK);
    ASSERT_EQ(source.prepare(pull), RIPC_OK);
  }
};

// A client with a channel to a service of the server, over the first device.
class Nodes : public testing::Test {
 protected:
  static TransportOptions patience_of(Nanoseconds peer_timeout) {
    TransportOptions options;
    options.peer_timeout = peer_timeout;
    return options;
  }
  explicit Nodes(TransportOptions options = {}) : options_(std::move(options)) {}
  void SetUp() override {
    Result<std::shared_ptr<const DeviceList>> devices = DeviceList::open();
    if (!devices.ok()) GTEST_SKIP() << devices.status().text();
    devices_ = *devices;
    server_ = std::make_unique<Node>(*devices, options_);
    client_ = std::make_unique<Node>(*devices, options_);
    Result<std::unique_ptr<spi::Port>> port = server_->transport().open_port(
        {.id = 7, .queue_messages = 1024, .queue_bytes = 8192, .max_senders = 16}, events_);
    ASSERT_TRUE(port.ok()) << port.status().text();
    port_ = std::move(*port);
    ASSERT_TRUE(connect());
  }
  void TearDown() override {
    sink_.source.reset();
    channel_.reset();
    port_.reset();
  }

  bool connect() {
    channel_ = connect(*client_);
    return channel_ != nullptr;
  }
  // A channel to the service; null: there is none.
  std::shared_ptr<spi::Channel> connect(Node& client) {
    Result<std::shared_ptr<spi::Channel>> channel =
        test::connect(client.transport(), server_->transport().address(), 7, Deadline::after(kLimit));
    return channel.ok() ? *channel : nullptr;
  }
  ripc_status send(std::size_t size, char fill, bool more = false) {
    const std::string text(size, fill);
    const spi::Bytes bytes = std::as_bytes(std::span(text));
    return test::send(*channel_, bytes, more);
  }
  void receive(std::size_t count) {
    const Deadline deadline = Deadline::after(kLimit);
    while (sink_.packets.size() < count && !deadline.expired()) (void)port_->poll(sink_, 64);
    ASSERT_EQ(sink_.packets.size(), count);
  }
  // Waits until a transfer of the client ends, and returns its status. The receiver may learn of the end before.
  ripc_status outcome_of(std::uint64_t transfer) const {
    const Deadline deadline = Deadline::after(kLimit);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = channel_->poll_transfer(transfer, false);
    return status;
  }
  // What sends the node's datagrams over the first device; null: the device has none.
  std::shared_ptr<DatagramSender> sender_of(const Node& node) const {
    const auto senders = node.transport().senders_of(devices_->ports().front().ip);
    return senders.ok() ? senders->datagrams : nullptr;
  }
  bool has_datagrams() const { return sender_of(*client_) != nullptr; }
  // Bytes of a packet that one datagram carries in a session without a secret.
  std::size_t datagram_limit() const { return devices_->ports().front().mtu - wire::datagram::kHeaderSize; }
  DatagramCounters counters() const { return sender_of(*client_)->counters(); }

  // Sends 512 small messages.
  void expect_one_work_request_each() {
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
    EXPECT_LE(after.completions - before.completions, kCount / DatagramSender::kSignalEvery);
    EXPECT_EQ(sink_.packets.back(), std::string(64, 'a'));
  }

  // From now on, the device sends nothing from this queue pair and delivers nothing to it.
  void fail(ibv_qp* pair, ibv_qp_state state = IBV_QPS_ERR) {
    ibv_qp_attr change{};
    change.qp_state = state;
    ASSERT_EQ(devices_->library()->modify_qp(pair, &change, IBV_QP_STATE), 0);
  }

  const TransportOptions options_;
  std::shared_ptr<const DeviceList> devices_;
  EventSet events_ = EventSet::create().value();
  std::unique_ptr<Node> server_, client_;
  std::unique_ptr<spi::Port> port_;
  std::shared_ptr<spi::Channel> channel_;
  Sink sink_;
};

}  // namespace ripc::internal::verbs
