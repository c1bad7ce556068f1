// SPDX-License-Identifier: Apache-2.0
// How the two ends of a connection prove to each other, in its first three frames, that they may talk. The first
// connection of a session needs the cluster key and the identities of the contexts. All further ones need the secret
// that came out of the first. A context without it cannot join, resume or ask for a session, member or not. See
// docs/internals/security.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "security/credentials.hpp"
#include "security/noise.hpp"
#include "security/record.hpp"
#include "spi/peer.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

// ripc_encrypt.
enum class Encryption : std::uint8_t {
  off = RIPC_ENCRYPT_OFF,  // with a key, all data is still authenticated
  automatic = RIPC_ENCRYPT_AUTO,
  required = RIPC_ENCRYPT_REQUIRED,
};

// What this context proves itself with.
struct ProofOptions {
  security::Credentials credentials;
  Encryption encryption = Encryption::automatic;

  // The network is closed to contexts without the cluster key, unless it is open to all.
  bool can_prove() const noexcept { return credentials.keys != nullptr; }
};

// What the ends of a session know and nobody else does.
struct SessionSecret {
  security::Secret secret;
  security::Protection protection;

  // The secret for one direction of a link. `incoming`: this end has not begun the session; `own`: this end has opened
  // the link; `sends`: for what this end sends.
  security::Secret of_link(bool incoming, bool own, bool sends, std::uint32_t link, std::uint64_t token) const noexcept;
};

// What came out of a handshake.
struct Proven {
  std::optional<SessionSecret> session;         // none: nobody has proven anything, and all goes in the clear
  security::Secret to_responder, to_initiator;  // of this connection
  spi::Peer peer;
  std::optional<security::ExchangeKey> key;  // of the peer's identity, be it in the trust file or not
};

// The last valid offers that an answering end has seen, so that a recorded offer is valid only once. One thread at a
// time.
class SeenOffers {
 public:
  static constexpr std::size_t kKept = 4096;
  // Whether this message, which only a holder of the key can make, is one of them. From now on it is. Throws
  // std::bad_alloc.
  bool contains_or_takes(std::span<const std::byte> message);

 private:
  std::vector<std::uint64_t> seen_;  // the first bytes of their fresh public keys
  std::size_t next_ = 0;
};

// One end of one handshake. One thread at a time. Everything throws std::bad_alloc.
class Proof {
 public:
  // `session`: of a further connection of a session that was proven; none: the options count. `is_local`: the other end
  // is on this host, where the kernel proves its user, and it needs no identity.
  Proof(const ProofOptions& options, std::optional<SessionSecret> session, bool is_local)
      : options_(options), session_(std::move(session)), is_local_(is_local) {}

  // ---- The end that connects ----
  // Fills in abilities and offers; they are valid as long as this object.
  void offer(wire::session_control::Hello& hello);
  // Judges the answer to the offer. RIPC_REFUSED: the other end is not who it must be; the text says who lacks what.
  Status judge(const wire::session_control::HelloReply& reply);
  // After judge(). Fills in the message; it is valid as long as this object.
  Status confirm(wire::session_control::Confirm& confirm);

  // ---- The end that answers ----
  // False: the peer may not connect, or its Hello was recorded. Up to here, no exponentiation is computed.
  bool examine(const wire::session_control::Hello& hello, SeenOffers& seen);
  // After examine(). Fills in abilities, choice and message, valid as long as this object; the proof covers the rest of
  // the reply.
  bool answer(wire::session_control::HelloReply& reply);
  // Judges the end of the handshake. RIPC_REFUSED, but with a session to take: the other end has proven an identity
  // that the trust file does not list.
  Status judge(const wire::session_control::Confirm& confirm);

  // Once the handshake is over.
  Proven take() noexcept { return std::move(proven_); }

 private:
  std::vector<security::Secret> shared_secrets() const;
  std::vector<security::Noise::Pattern> patterns() const;
  security::Noise begin(security::Noise::Pattern pattern, bool initiator, const security::Secret& shared) const;
  bool choose(std::span<const std::byte> offers, security::Noise::Pattern pattern, const security::Secret& shared,
              SeenOffers& seen);
  bool is_needed() const noexcept { return session_ || options_.can_prove(); }
  bool requires_identity() const noexcept { return options_.credentials.trust && !is_local_; }
  std::uint32_t abilities() const noexcept;
  bool suits() const noexcept;
  Status refusal() const;
  Status note_peer(const security::Noise& noise);
  void settle() noexcept;

  const ProofOptions& options_;
  const std::optional<SessionSecret> session_;
  const bool is_local_;
  std::vector<std::byte> prologue_, offers_, message_, payload_;
  std::vector<security::Noise> attempts_;
  std::optional<security::Noise> chosen_;
  std::uint32_t choice_ = 0;
  std::uint32_t others_ = 0;  // abilities of the other end
  Proven proven_;
};

}  // namespace ripc::internal::remote
