// SPDX-License-Identifier: Apache-2.0
// Who may hold the other end of a connection: on this host processes of users that the peer policy admits, and in any
// case only those who have the cluster key. Without a key all proofs are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/peer_authorizer.hpp"
#include "security/credentials.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

// Any thread.
class Authenticator {
 public:
  Authenticator(const security::Credentials& credentials, PeerPolicy policy) noexcept
      : keys_(credentials.keys), counters_(credentials.counters), authorizer_(policy) {}

  bool has_keys() const noexcept { return keys_ != nullptr; }

  // Fills in the proof of whoever answers.
  void sign(const wire::session_control::Hello& hello, wire::session_control::HelloReply& reply) const;
  bool verify(const wire::session_control::Hello& hello, const wire::session_control::HelloReply& reply) const;
  // The index of the key that a right proof was made with. Whoever answered has that one, and perhaps no other.
  std::size_t key_of(const wire::session_control::Hello& hello, const wire::session_control::HelloReply& reply) const;

  // Whoever is connected to the socket and has sent something, as PeerAuthorizer::authorize_connection(). Counts what
  // is refused.
  Status authorize(int socket);
  // Whose process the other end belongs to; nullopt: it is on another host, or the kernel does not tell.
  std::optional<uid_t> user_of(int socket) { return authorizer_.user_of(socket); }
  // Why the other end has refused this one.
  Status refused_by(int socket) { return authorizer_.refused_by(socket); }

  // The proof of whoever asked, with the key that the answer was proven with.
  wire::session_control::Confirm confirm(const wire::session_control::Hello& hello,
                                         const wire::session_control::HelloReply& reply) const;
  // Counts what is wrong.
  bool verify(const wire::session_control::Hello& hello, const wire::session_control::HelloReply& reply,
              const wire::session_control::Confirm& confirm);

  // A handshake was refused because of a missing or wrong proof.
  void count_refused() noexcept { security::Counters::add(counters_->handshakes_refused); }

 private:
  std::shared_ptr<const ClusterKeys> keys_;
  const std::shared_ptr<security::Counters> counters_;
  PeerAuthorizer authorizer_;
};

wire::session_control::Nonce random_nonce() noexcept;

}  // namespace ripc::internal::remote
