// SPDX-License-Identifier: Apache-2.0
// The receiving end of a link whose datagrams travel over UDP.
#pragma once

#include "network/link_socket.hpp"
#include "network/link_source.hpp"

namespace ripc::network {

class UdpSource final : public LinkSource {
 public:
  UdpSource(Parts parts, LinkSocket socket) : LinkSource(std::move(parts)), socket_(std::move(socket)) {}

  const LinkSocket& socket() const noexcept { return socket_; }

  // The receiver's. How many datagrams the next read asks for: one that finds no more than it asked for costs the
  // system a second look.
  unsigned batch = 1;

 protected:
  ripc_status transmit(const wire::datagram::Header& header) noexcept override { return socket_.send(header, {}); }
  std::uint32_t largest_cost() const noexcept override { return datagram_cost(kMaxDatagram); }
  std::uint32_t dropped() noexcept override { return socket_.dropped(); }

 private:
  const LinkSocket socket_;
};

}  // namespace ripc::network
