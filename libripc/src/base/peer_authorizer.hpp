// SPDX-License-Identifier: Apache-2.0
// Applies the peer policy to peers on this host by the user who owns their socket, so that the policy holds on every
// path. Peers on other hosts are always admitted, because the kernel does not know their users.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.hpp"
#include "base/peer_policy.hpp"
#include "base/socket_owners.hpp"
#include "base/status.hpp"

namespace ripc::internal {

// Any thread.
class PeerAuthorizer {
 public:
  explicit PeerAuthorizer(PeerPolicy policy) noexcept : policy_(policy) {}

  // Checks who holds the other end of a connected TCP socket. Call it after that end has sent something: nobody holds
  // an end that a server has not yet accepted. RIPC_REFUSED says which user it is and what to do; also for a peer on
  // this host whose user the kernel does not report. RIPC_PEER_DEAD: the other end is closed.
  Status authorize_connection(int socket);
  // Whether the other end is on this host, in this network namespace.
  bool is_on_this_host(int socket);
  // The other end's user; nullopt: it is on another host, or the kernel does not report it.
  std::optional<uid_t> user_of(int socket);
  // Why the service's process at the other end may have refused this process.
  Status refused_by(int socket);

  enum class Verdict : std::uint8_t {
    admitted,
    refused,  // a user of this host that the policy does not admit
    unknown,  // a user of this host, but the kernel does not say which: the socket may already be closed
  };
  // Checks the sender of a datagram from this address. Remembers refusals for some milliseconds.
  Verdict authorize_sender(const sockaddr& from);

  // Checks the sender of a datagram that came by a device. Nobody knows its user if the address is this host's. Null:
  // the address is known to be this host's.
  Verdict authorize_device_sender(const sockaddr* from);

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

}  // namespace ripc::internal
