// SPDX-License-Identifier: Apache-2.0
// Networks for the multicast resolver that exist only in this process and lose what a test tells them to lose.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "multicast_helpers.hpp"
#include "spi/multicast_network.hpp"

namespace ripc::internal::test {

class FakeNetwork;

// Connects networks: each hears what the others send.
struct FakeWire {
  std::string name = "wire";
  std::atomic<std::size_t> packet_limit = 8192;
  std::atomic<std::size_t> lost_questions = 0;  // how many of the next packets to the group are lost
  std::atomic<bool> loses_replies = false;
  std::atomic<bool> cannot_send = false;
  std::atomic<bool> joins_at_first_question = false;                                 // that question itself is lost
  std::atomic<PeerAuthorizer::Verdict> verdict = PeerAuthorizer::Verdict::admitted;  // on every sender
  std::atomic<std::size_t> to_group = 0;  // packets that were not lost, even if no one was there to receive them
  std::atomic<std::size_t> to_one = 0;

  std::mutex mutex;
  std::vector<FakeNetwork*> networks;
};

class FakeNetwork final : public spi::MulticastNetwork {
 public:
  explicit FakeNetwork(FakeWire& wire) : wire_(wire), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const std::lock_guard lock(wire_.mutex);
    wire_.networks.push_back(this);
  }
  ~FakeNetwork() override {
    const std::lock_guard lock(wire_.mutex);
    std::erase(wire_.networks, this);
  }

  std::size_t packet_limit() const noexcept override { return wire_.packet_limit; }
  spi::SentPackets send_to_groups(std::span<const std::byte> bytes) noexcept override {
    if (wire_.cannot_send || bytes.size() > wire_.packet_limit) return {0, 0, 1};
    const std::lock_guard lock(wire_.mutex);
    if (wire_.joins_at_first_question.exchange(false)) {
      has_joined_ = true;
      signal();
    } else if (wire_.lost_questions != 0) {
      --wire_.lost_questions;
    } else {
      ++wire_.to_group;
      for (FakeNetwork* other : wire_.networks) {
        if (other != this) other->take(bytes, this, true);
      }
    }
    return {1, bytes.size(), 0};
  }
  spi::SentPackets send_to(const spi::PeerAddress& to, std::span<const std::byte> bytes) noexcept override {
    if (wire_.cannot_send || bytes.size() > wire_.packet_limit) return {0, 0, 1};
    const std::lock_guard lock(wire_.mutex);
    const auto found = std::find(wire_.networks.begin(), wire_.networks.end(), to.as<Sender>().network);
    if (found != wire_.networks.end() && !wire_.loses_replies) {
      ++wire_.to_one;
      (*found)->take(bytes, this, false);
    }
    return {1, bytes.size(), 0};
  }
  PeerAuthorizer::Verdict authorize(const spi::PeerAddress&) override { return wire_.verdict; }
  std::vector<pollfd> descriptors() const override { return {{event_.get(), POLLIN, 0}}; }
  spi::Arrival receive(int, std::span<std::byte> buffer, spi::ReceivedPacket& received) override {
    const std::lock_guard lock(wire_.mutex);
    if (std::exchange(has_joined_, false)) return spi::Arrival::joined;
    if (packets_.empty()) {
      std::uint64_t count = 0;
      static_cast<void>(!::read(event_.get(), &count, sizeof count));
      return spi::Arrival::nothing;
    }
    const Packet packet = std::move(packets_.front());
    packets_.pop_front();
    std::copy(packet.bytes.begin(), packet.bytes.end(), buffer.begin());
    received.bytes = buffer.first(packet.bytes.size());
    received.from = spi::PeerAddress::of(Sender{packet.from});
    received.to_group = packet.to_group;
    return spi::Arrival::packet;
  }
  std::string_view name() const noexcept override { return wire_.name; }
  std::string text() const override { return wire_.name; }
  std::vector<std::string> interfaces() const override { return {wire_.name}; }

 private:
  struct Sender {
    FakeNetwork* network;
  };
  struct Packet {
    std::vector<std::byte> bytes;
    FakeNetwork* from;
    bool to_group;
  };
  void take(std::span<const std::byte> bytes, FakeNetwork* from, bool to_group) {
    packets_.push_back({{bytes.begin(), bytes.end()}, from, to_group});
    signal();
  }
  void signal() const noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));
  }

  FakeWire& wire_;
  const UniqueFd event_;
  std::deque<Packet> packets_;
  bool has_joined_ = false;
};

// One network on each wire.
template <typename... Wires>
MulticastResolver::Networks networks_on(Wires&... wires) {
  MulticastResolver::Networks networks;
  (networks.push_back(std::make_unique<FakeNetwork>(wires)), ...);
  return networks;
}

// The options of resolvers that have no other networks.
inline MulticastOptions wire_options() {
  MulticastOptions options = loopback_options();
  options.udp = false;
  options.probe_time = 0;
  return options;
}

}  // namespace ripc::internal::test
