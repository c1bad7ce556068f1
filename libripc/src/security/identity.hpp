// SPDX-License-Identifier: Apache-2.0
// The identity of a context: an Ed25519 key pair. Its public key names the context; its secret key, which never leaves
// the host, proves that. `ripc key new --identity` makes one.
//
// The identity file is plain text: a line "secret ed25519:" with the 64 hexadecimal digits of the seed; empty lines
// and lines that start with '#' do not count.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/cluster_key.hpp"
#include "base/status.hpp"

namespace ripc::internal::security {

using PublicKey = ClusterKeys::Signer;          // Ed25519
using Signature = std::array<std::byte, 64>;    // Ed25519
using ExchangeKey = std::array<std::byte, 32>;  // X25519, secret or public

// How files and commands write a public key: "ed25519:" and 64 hexadecimal digits.
std::string public_key_text(const PublicKey& key);
// False: the text is something else.
bool read_public_key(std::string_view text, PublicKey& key) noexcept;

// Immutable; any thread. The secret is overwritten when the object is destroyed.
class Identity {
 public:
  using Parts = ClusterKeys::Parts;

  // Reads an identity file: a plain file that belongs to this user or to root, closed to everyone else. The errors of
  // ClusterKeys::load(), for an identity file.
  static Result<std::shared_ptr<const Identity>> load(const std::string& path);
  // The text of such a file; `origin` names it in messages. RIPC_INVALID_ARGUMENT.
  static Result<std::shared_ptr<const Identity>> parse(std::string_view text, const std::string& origin);
  // A new one.
  static Result<std::shared_ptr<const Identity>> generate();

  ~Identity();
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  const PublicKey& public_key() const noexcept { return public_key_; }

  // The signature of the parts. `purpose` keeps a signature made for one use from being valid for another. The
  // boundaries between parts count, as in ClusterKeys::mac(). No allocation, no system call; takes some 30 us.
  Signature sign(std::string_view purpose, Parts parts) const noexcept;
  // Takes some 100 us.
  static bool verify(const PublicKey& key, std::string_view purpose, Parts parts,
                     std::span<const std::byte> signature) noexcept;

  // The X25519 secret key that belongs to this identity; the caller overwrites its copy.
  ExchangeKey exchange_secret() const noexcept;
  // The X25519 public key that belongs to the identity with this public key. False: the key is not a valid point.
  static bool exchange_key(const PublicKey& key, ExchangeKey& exchange) noexcept;

  // The text of its file, of secret_text_size bytes; the caller overwrites it.
  static constexpr std::size_t kSecretTextSize = 80;
  std::array<char, kSecretTextSize> secret_text() const noexcept;

 private:
  Identity() noexcept = default;
  void set_seed(const std::array<std::byte, 32>& seed) noexcept;

  PublicKey public_key_{};
  std::array<std::byte, 64> secret_{};
};

}  // namespace ripc::internal::security
