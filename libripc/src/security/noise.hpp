// SPDX-License-Identifier: Apache-2.0
// The Noise handshake, revision 34 of its specification: 25519, ChaChaPoly, SHA256. The patterns are NN and XX, each
// with a pre-shared key in front (psk0) or without. Downgrades are impossible: both ends have the same prologue, or the
// handshake fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "security/secret.hpp"

namespace ripc::internal::security {

class Noise {
 public:
  static constexpr std::size_t kPublicSize = 32;  // bytes
  static constexpr std::size_t kTagSize = 16;     // bytes
  using PublicKey = std::array<std::byte, kPublicSize>;

  enum class Pattern : std::uint8_t {
    nn,  // two messages; anyone with the pre-shared key
    xx,  // three messages; each end also proves its own key, which a third party cannot see
  };
  struct Options {
    Pattern pattern = Pattern::nn;
    bool initiator = false;
    std::span<const std::byte> prologue{};  // used by the constructor only
    std::optional<Secret> psk{};
    std::optional<Secret> own{};        // xx: this end's X25519 secret key
    std::optional<Secret> ephemeral{};  // for test vectors; else random
  };
  // What both ends have after the last message.
  struct Secrets {
    Secret to_responder;
    Secret to_initiator;
    Secret session;  // for everything else
  };

  explicit Noise(const Options& options) noexcept;

  // Makes `message` exactly the next message. False: it is not this end's turn, or a key of the other end is invalid.
  // Throws std::bad_alloc.
  bool write(std::span<const std::byte> payload, std::vector<std::byte>& message);
  // Reads the other end's next message. False: it is forged, or made with other keys or another prologue; then this
  // object cannot be used any more. A wrong pre-shared key is detected without an X25519 operation.
  bool read(std::span<const std::byte> message, std::vector<std::byte>& payload);

  bool complete() const noexcept { return next_ == count(); }
  // xx, once complete or, for the initiator, after the second message: the other end's key.
  const PublicKey& peer() const noexcept { return remote_static_; }
  // Call it once the handshake is complete.
  Secrets secrets() const noexcept;
  // The hash of all messages so far.
  std::span<const std::byte> hash() const noexcept { return hash_.bytes(); }

  static PublicKey public_of(const Secret& secret) noexcept;

 private:
  enum class Token : std::uint8_t { psk, e, s, ee, es, se };
  unsigned count() const noexcept { return pattern_ == Pattern::nn ? 2 : 3; }
  std::span<const Token> tokens() const noexcept;
  bool is_mine() const noexcept { return (next_ % 2 == 0) == initiator_; }

  bool mix(Token token) noexcept;
  void mix_hash(std::span<const std::byte> bytes) noexcept;
  void mix_key(std::span<const std::byte> input) noexcept;
  void mix_psk() noexcept;
  bool mix_dh(const Secret& own, const PublicKey& other) noexcept;
  void encrypt(std::span<const std::byte> text, std::vector<std::byte>& out);
  bool decrypt(std::span<const std::byte> sealed, std::byte* text) noexcept;
  std::size_t tag_size() const noexcept { return has_key_ ? kTagSize : 0; }

  const Pattern pattern_;
  const bool initiator_;
  bool failed_ = false;
  bool has_key_ = false;
  bool has_ephemeral_ = false;
  unsigned next_ = 0;  // message
  std::uint64_t nonce_ = 0;
  std::optional<Secret> psk_, own_;
  Secret ephemeral_;
  PublicKey remote_ephemeral_{}, remote_static_{};
  Secret chain_, key_, hash_;
};

}  // namespace ripc::internal::security
