// SPDX-License-Identifier: Apache-2.0
// The UDP socket at one end of a link: bound to the address of the session, connected to the socket at the other end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "remote/session/endpoint.hpp"
#include "spi/transport.hpp"
#include "wire/datagram.hpp"

namespace ripc::internal::remote {

// The largest UDP payload over IPv4; IPv6 takes a little more.
inline constexpr std::size_t kMaxDatagram = 65507;
inline constexpr std::size_t kMaxPacket = kMaxDatagram - wire::datagram::kHeaderSize;

// Any thread, but for connect().
class LinkSocket {
 public:
  // Bound to `local`, not connected yet. The port of `local` is ignored. Datagrams are never fragmented.
  static Result<LinkSocket> open(const Endpoint& local, PortRange range);

  Status connect(const Endpoint& remote) const;
  // Asks for a receive buffer of this many bytes and tells what the system gives.
  std::size_t set_receive_buffer(std::size_t bytes) const noexcept;
  // Datagrams that the socket had to drop for want of room, modulo 2^32.
  std::uint32_t dropped() const noexcept;
  // What the path to the other end takes, in bytes of packet; at most kMaxPacket.
  std::size_t packet_limit() const noexcept;

  // Sends one datagram: header and packet. One system call, no copy. RIPC_OK, RIPC_AGAIN (no room in the network
  // interface, or no route now), RIPC_TOO_LARGE, RIPC_PEER_DEAD (nobody has the other socket any more).
  ripc_status send(const wire::datagram::Header& header, spi::Gather packet) const noexcept;
  // Reads one datagram that has only a header. RIPC_OK, RIPC_EMPTY, RIPC_CORRUPT (was skipped), RIPC_PEER_DEAD.
  ripc_status receive(wire::datagram::Header& header) const noexcept;

  int fd() const noexcept { return socket_.fd.get(); }
  std::uint16_t port() const noexcept { return Endpoint::local_of(fd()).port(); }

 private:
  LinkSocket() = default;
  GuardedSocket socket_;
};

}  // namespace ripc::internal::remote
