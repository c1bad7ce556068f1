// SPDX-License-Identifier: Apache-2.0
// The receive side of one service whose links all travel over UDP.
#pragma once

#include "remote/link/udp_receiver.hpp"

namespace ripc::internal::remote {

class UdpPort final : public LinkPort {
 public:
  // As LinkPort and UdpReceiver.
  UdpPort(const spi::PortOptions& options, EventSet& events, EventLoop& loop, std::size_t receive_buffer,
          std::function<void(LinkPort&)> closed)
      : LinkPort(options, wire::datagram::kMaxPacket, events, loop, std::move(closed)), udp_(*this, receive_buffer) {}
  ~UdpPort() override { leave(); }

  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept override { return udp_.poll(sink, budget); }
  // The sockets are always among the events.
  bool arm(bool) noexcept override { return false; }
  UdpReceiver& udp() noexcept override { return udp_; }

 private:
  UdpReceiver udp_;
};

}  // namespace ripc::internal::remote
