// SPDX-License-Identifier: Apache-2.0
// Judges peers on this host by the user of their socket, so that the peer policy holds on every path. Whoever comes
// from another host is not judged here: there the kernel knows no user.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/clock.hpp"
#include "base/peer_policy.hpp"
#include "base/socket_owners.hpp"
#include "base/status.hpp"

namespace ripc {

// Any thread.
class PeerJudge {
 public:
  explicit PeerJudge(PeerPolicy policy) noexcept : policy_(policy) {}

  // Whoever holds the other end of a connected TCP socket, after it has sent something: until a server has accepted a
  // connection nobody holds that end. RIPC_OK: it is admitted. RIPC_REFUSED says which user it is, and what to do; also
  // if the user of a peer on this host cannot be told. RIPC_PEER_DEAD: the other end is closed.
  Status judge_connection(int socket);
  // Why the other end, which belongs to the process of a service, may have refused this process.
  Status refused_by(int socket);

  enum class Verdict : std::uint8_t {
    admitted,
    refused,  // a user of this host, whom the policy does not admit
    unknown,  // of this host, but whose it is cannot be told (any more): the socket may be closed already
  };
  // Whoever sent a datagram from this address. Refusals are remembered for some milliseconds.
  Verdict judge_sender(const sockaddr& from);

  // The same for whoever sends by a device, not by a socket: its user cannot be told, if the address is of this host.
  // Null: it is known to be.
  Verdict judge_device_sender(const sockaddr* from);

 private:
  using Source = std::array<std::byte, sizeof(sockaddr_in6)>;
  struct Refusal {
    Source source{};
    Nanoseconds until = 0;
  };
  Refusal& place_of(std::uint16_t port) noexcept { return refusals_[port % refusals_.size()]; }

  const PeerPolicy policy_;
  SocketOwners owners_;
  std::mutex mutex_;
  std::array<Refusal, 64> refusals_{};
};

}  // namespace ripc
