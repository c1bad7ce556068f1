// SPDX-License-Identifier: Apache-2.0
// Decides whether to admit the other end of a connection. On this host it must be a process of a user that the peer
// policy admits. In any case it must prove itself (proof.hpp).
#pragma once

#include <optional>
#include <utility>

#include "base/peer_authorizer.hpp"
#include "remote/session/proof.hpp"
#include "remote/session/secure_socket.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

// Any thread, unless a line says otherwise.
class Authenticator {
 public:
  Authenticator(ProofOptions options, PeerPolicy policy) : options_(std::move(options)), authorizer_(policy) {}

  // The proof of this end of a connected socket. Throws std::bad_alloc.
  Proof proof(std::optional<SessionSecret> session, int socket) {
    return {options_, std::move(session), authorizer_.is_on_this_host(socket)};
  }

  // Judges the peer that is connected to the socket and has sent something, as PeerAuthorizer::authorize_connection().
  // Counts refusals.
  Status authorize(int socket);
  // Whose process the other end belongs to; nullopt: it is on another host, or the kernel does not tell.
  std::optional<uid_t> user_of(int socket) { return authorizer_.user_of(socket); }
  // Why the other end has refused this one.
  Status refused_by(int socket) { return authorizer_.refused_by(socket); }

  // For the answering end. The listener's thread only.
  SeenOffers& seen_offers() noexcept { return seen_offers_; }
  // A handshake was refused because of a missing, wrong or recorded proof.
  void count_refused() noexcept { security::Counters::add(options_.credentials.counters->handshakes_refused); }
  const CountersPointer& counters() const noexcept { return options_.credentials.counters; }

 private:
  const ProofOptions options_;
  PeerAuthorizer authorizer_;
  SeenOffers seen_offers_;
};

wire::session_control::Nonce random_nonce() noexcept;

}  // namespace ripc::internal::remote
