// SPDX-License-Identifier: Apache-2.0
// The sending end of a link whose datagrams travel over UDP.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "network/link_channel.hpp"
#include "network/link_socket.hpp"

namespace ripc::network {

class UdpChannel final : public LinkChannel {
 public:
  UdpChannel(Parts parts, LinkSocket socket, std::uint32_t peer_packet_limit);
  ~UdpChannel() override { stop_watching(); }

  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent, bool& woke) noexcept override;
  std::string describe() const override;

  // System calls made to send packets; for tests.
  std::uint64_t send_calls() const noexcept { return send_calls_.load(std::memory_order_relaxed); }

 protected:
  std::uint32_t cost_of(std::size_t packet) const noexcept override {
    return datagram_cost(packet + wire::datagram::kHeaderSize);
  }
  ripc_status transmit(const wire::datagram::Header& header, spi::Gather packet) noexcept override;
  bool read_grants() noexcept override;
  bool can_transmit() noexcept override;
  Status watch_grants(std::function<void()> look) override;
  void unwatch_grants() noexcept override { parts_.loop->remove(socket_.fd()); }

 private:
  void count_call() noexcept;
  void note_limit(ripc_status status) noexcept;

  const LinkSocket socket_;
  std::atomic<bool> segment_{true};  // until the path turns out not to
  std::atomic<std::uint64_t> send_calls_{0};
};

}  // namespace ripc::network
