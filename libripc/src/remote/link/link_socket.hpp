// SPDX-License-Identifier: Apache-2.0
// The UDP socket at one end of a link: bound to the address of the session, connected to the socket at the other end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.hpp"
#include "remote/session/endpoint.hpp"
#include "remote/session/secure_socket.hpp"
#include "security/sealed_datagram.hpp"
#include "spi/transport.hpp"
#include "wire/datagram.hpp"

namespace ripc::internal::remote {

// The largest UDP payload over IPv4; IPv6 takes a little more.
inline constexpr std::size_t kMaxDatagram = 65507;
inline constexpr std::size_t kMaxPacket = kMaxDatagram - wire::datagram::kHeaderSize;

// Any thread. But connect() and protect(), and the reading calls receive() and open_sealed(), need one thread at a
// time.
class LinkSocket {
 public:
  // Bound to `local`, not connected yet. The port of `local` is ignored. Datagrams are never fragmented.
  static Result<LinkSocket> open(const Endpoint& local, PortRange range);

  Status connect(const Endpoint& remote) const;
  // Datagrams are sealed from now on. Throws std::bad_alloc.
  void protect(security::Protection protection, const security::Secret& sends, const security::Secret& receives,
               CountersPointer counters);
  // What sealing adds to each datagram, in bytes.
  std::size_t overhead() const noexcept { return seal_ ? security::kSealedOverhead : 0; }
  // Asks for a receive buffer of this many bytes and returns what the system gives.
  std::size_t set_receive_buffer(std::size_t bytes) const noexcept;
  // Datagrams that the socket had to drop for want of room, modulo 2^32.
  std::uint32_t dropped() const noexcept;
  // The largest packet that the path to the other end takes, in bytes; at most kMaxPacket.
  std::size_t packet_limit() const noexcept;

  // Sends one datagram: header and packet. One system call; no copy but to seal it. RIPC_OK, RIPC_AGAIN (no room in the
  // network interface, or no route now), RIPC_TOO_LARGE, RIPC_PEER_DEAD (no one has the other socket any more). `now`:
  // the caller's clock, if it has just looked; else 0.
  ripc_status send(const wire::datagram::Header& header, spi::Gather packet, Nanoseconds now = 0) const noexcept;
  // Reads one datagram that has only a header. RIPC_OK, RIPC_EMPTY, RIPC_CORRUPT (was skipped), RIPC_PEER_DEAD.
  ripc_status receive(wire::datagram::Header& header) const noexcept;
  // Opens a datagram that was read from the socket; if nothing is sealed here, `text` is the datagram itself. Counts
  // datagrams that are not fresh.
  security::DatagramOpener::Verdict open_sealed(std::span<std::byte> datagram, spi::Bytes& text) const noexcept;

  int fd() const noexcept { return socket_.fd.get(); }
  std::uint16_t port() const noexcept { return Endpoint::local_of(fd()).port(); }

 private:
  // The two directions of a link.
  struct Seal {
    Seal(security::Protection protection, const security::Secret& sends, const security::Secret& receives,
         CountersPointer shared)
        : sealer(protection, sends), opener(protection, receives), counters(std::move(shared)) {}
    std::mutex mutex;  // of sealer and buffer
    security::DatagramSealer sealer;
    std::unique_ptr<std::byte[]> buffer = std::make_unique_for_overwrite<std::byte[]>(kMaxDatagram);
    security::DatagramOpener opener;
    const CountersPointer counters;
  };
  LinkSocket() = default;
  static ripc_status send_sealed(int fd, Seal& seal, const wire::datagram::HeaderBytes& head, spi::Gather packet,
                                 Nanoseconds now) noexcept;
  GuardedSocket socket_;
  std::unique_ptr<Seal> seal_;  // null: datagrams go as they are
};

}  // namespace ripc::internal::remote
