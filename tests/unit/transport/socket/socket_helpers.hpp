// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the socket transport: transports of one process, each with its own loop, that talk over
// loopback.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../spi_calls.hpp"
#include "base/random.hpp"
#include "remote/link/udp_channel.hpp"
#include "remote/link/udp_port.hpp"
#include "support/waiting.hpp"
#include "transport/socket/socket_transport.hpp"

namespace ripc::internal::socket {

inline constexpr Nanoseconds kLimit = 10'000'000'000;

using support::eventually;

inline EventSet make_events() { return std::move(EventSet::create().value()); }

// Remembers what it receives.
class RecordingHost final : public spi::Host {
 public:
  void control_packet(spi::Source&, ripc_service_id destination, spi::Bytes packet) noexcept override {
    const std::lock_guard lock(mutex_);
    control_packets_.emplace_back(destination,
                                  std::string(reinterpret_cast<const char*>(packet.data()), packet.size()));
  }
  bool transfer_finished(spi::Channel&, std::uint64_t, ripc_status) noexcept override { return false; }
  void room(spi::Channel&) noexcept override { count(rooms_); }
  void channel_lost(spi::Channel&, ripc_status) noexcept override { count(losses_); }
  ripc_status fenced(ripc_service_id, std::uint64_t) noexcept override {
    count(fences_);
    return RIPC_OK;
  }
  void address_changed() noexcept override { count(address_changes_); }

  int rooms() const { return read(rooms_); }
  int losses() const { return read(losses_); }
  int fences() const { return read(fences_); }
  int address_changes() const { return read(address_changes_); }
  std::vector<std::pair<ripc_service_id, std::string>> control_packets() const {
    const std::lock_guard lock(mutex_);
    return control_packets_;
  }

 private:
  void count(int& counter) noexcept {
    const std::lock_guard lock(mutex_);
    ++counter;
  }
  int read(const int& counter) const {
    const std::lock_guard lock(mutex_);
    return counter;
  }

  mutable std::mutex mutex_;
  int rooms_ = 0, losses_ = 0, fences_ = 0, address_changes_ = 0;
  std::vector<std::pair<ripc_service_id, std::string>> control_packets_;
};

// A transport with its own responder.
class Node {
 public:
  explicit Node(TransportOptions options = {}) {
    if (options.context == 0) options.context = random_u64() | 1;
    context_ = options.context;
    Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
    EXPECT_TRUE(loop.ok());
    loop_ = std::move(*loop);
    transport_ = std::make_unique<SocketTransport>(std::move(options));
    const Status started = transport_->start(host_, *loop_);
    EXPECT_TRUE(started.ok()) << started.text();
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~Node() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    loop_->post([this] {
      transport_->stop();
      loop_->stop();
    });
    thread_.join();
  }

  SocketTransport& transport() { return *transport_; }
  RecordingHost& host() { return host_; }
  EventLoop& loop() { return *loop_; }
  std::uint64_t context() const { return context_; }

  std::unique_ptr<remote::UdpPort> open_port(EventSet& events, ripc_service_id id = 7) {
    Result<std::unique_ptr<spi::Port>> port =
        transport_->open_port({.id = id, .queue_messages = 128, .queue_bytes = 8192, .max_senders = 4096}, events);
    EXPECT_TRUE(port.ok());
    return std::unique_ptr<remote::UdpPort>(static_cast<remote::UdpPort*>(port->release()));
  }
  Result<std::shared_ptr<spi::Channel>> connect(Node& to, ripc_service_id id = 7) {
    return test::connect(*transport_, to.transport().address(), id, Deadline::after(kLimit));
  }
  std::shared_ptr<remote::UdpChannel> channel(Node& to, ripc_service_id id = 7) {
    Result<std::shared_ptr<spi::Channel>> made = connect(to, id);
    EXPECT_TRUE(made.ok()) << made.status().text();
    if (made.ok()) (void)(*made)->describe(Deadline::after(kLimit));
    return made.ok() ? std::static_pointer_cast<remote::UdpChannel>(*made) : nullptr;
  }

 private:
  RecordingHost host_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<SocketTransport> transport_;
  std::thread thread_;
  std::uint64_t context_ = 0;
};

// Keeps what it is given, until it is set to take no more.
class CollectingSink final : public spi::PacketSink {
 public:
  spi::Delivery deliver(spi::Source& source, spi::Bytes packet, const Memory* room) noexcept override {
    if (answer != spi::Delivery::taken && (refused == nullptr || refused == &source)) return answer;
    if (room != nullptr) {
      EXPECT_LE(room->get(), packet.data());
      ++large;
    }
    packets.emplace_back(&source, std::string(reinterpret_cast<const char*>(packet.data()), packet.size()));
    return spi::Delivery::taken;
  }
  Memory make_room(std::size_t size) noexcept override {
    if (answer != spi::Delivery::taken) return {};
    const auto room = std::make_shared<std::vector<std::byte>>(size);
    return {room, room->data()};
  }
  void source_gone(spi::Source&) noexcept override { ++gone; }

  int large = 0;  // packets that were not to be copied
  spi::Delivery answer = spi::Delivery::taken;
  spi::Source* refused = nullptr;  // whose packets; null: all
  std::vector<std::pair<spi::Source*, std::string>> packets;
  int gone = 0;
};

// Messages with one item each.
struct Plains {
  explicit Plains(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (const std::string& text : texts_) items_.push_back({text.data(), text.size(), RIPC_ITEM_SHORT, 0});
    for (const ripc_item& item : items_)
      messages.push_back({.source = 1, .tag = 0, .items = {&item, 1}, .bytes = item.size});
  }
  Plains(const Plains&) = delete;
  Plains& operator=(const Plains&) = delete;

  std::vector<wire::Plain> messages;

 private:
  std::vector<std::string> texts_;
  std::vector<ripc_item> items_;
};

// The connected TCP sockets of this process.
inline std::set<int> streams() {
  constexpr int kMost = 1024;
  std::set<int> result;
  for (int fd = 0; fd < kMost; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    int type = 0;
    socklen_t type_size = sizeof type;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.ss_family != AF_UNIX &&
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM)
      result.insert(fd);
  }
  return result;
}

inline ripc_status send_text(spi::Channel& channel, std::string_view text) {
  const spi::Bytes bytes = std::as_bytes(std::span(text.data(), text.size()));
  return test::send(channel, bytes);
}

// Keeps the responder of a node from running while it lives.
class Halt {
 public:
  explicit Halt(Node& node) {
    node.loop().post([this] {
      halted_ = true;
      while (!over_) std::this_thread::yield();
      left_ = true;
    });
    EXPECT_TRUE(eventually([&] { return halted_.load(); }));
  }
  ~Halt() {
    over_ = true;
    EXPECT_TRUE(eventually([&] { return left_.load(); }));
  }

 private:
  std::atomic<bool> halted_{false}, over_{false}, left_{false};
};

}  // namespace ripc::internal::socket
