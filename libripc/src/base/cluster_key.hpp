// SPDX-License-Identifier: Apache-2.0
// The cluster key: a secret that the hosts of one installation share, and the message authentication codes (MAC) made
// with it. Anyone who has the key belongs to the cluster; a packet or handshake with a correct MAC was made by a
// member.
//
// The key file is plain text: a line of 64 hexadecimal digits (32 bytes), or two such lines while the key is changed.
// Empty lines and lines that start with '#' are ignored. The first key signs, and both are accepted. To change the key
// without a gap: write "old, new" everywhere, then "new, old", then "new". `ripc key new` makes one (key_file.hpp).
// A line "signer ed25519:" with 64 digits says whose signature a trust file must have (security/trust.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ripc::internal {

// Immutable; any thread. The keys are overwritten when the object goes.
class ClusterKeys {
 public:
  static constexpr std::size_t kKeySize = 32;  // bytes
  static constexpr std::size_t kMacSize = 32;  // bytes
  using Signer = std::array<std::byte, 32>;    // an Ed25519 public key
  using Mac = std::array<std::byte, kMacSize>;
  using Parts = std::initializer_list<std::span<const std::byte>>;

  // Reads a key file. It must be a plain file that belongs to this user or to root, and neither its group nor others
  // may have any access. RIPC_PERMISSION: the file breaks these rules, or this user may not read it.
  // RIPC_INVALID_ARGUMENT: the text does not have the format above, or a key is clearly not random (all its bytes are
  // the same). RIPC_NO_DESCRIPTORS, RIPC_SYSTEM (for example, the file is missing).
  static Result<std::shared_ptr<const ClusterKeys>> load(const std::string& path);

  // The text of a key file; `origin` names it in messages. RIPC_INVALID_ARGUMENT as above.
  static Result<std::shared_ptr<const ClusterKeys>> parse(std::string_view text, const std::string& origin);

  ~ClusterKeys();
  ClusterKeys(const ClusterKeys&) = delete;
  ClusterKeys& operator=(const ClusterKeys&) = delete;

  // The MAC of the parts under the first key, or under the key with this index. Each use has its own `purpose`, such as
  // "ripc multicast 1", so that a MAC made for one use is not valid for another. The boundaries between parts count:
  // ("ab", "c") and ("a", "bc") differ. No allocation, no system call.
  Mac mac(std::string_view purpose, Parts parts, std::size_t key = 0) const noexcept;

  // Whether `mac` is the MAC of the parts under one of the keys. The time it takes does not depend on the bytes.
  bool verify(std::string_view purpose, Parts parts, std::span<const std::byte> mac) const noexcept {
    return key_of(purpose, parts, mac) != size_;
  }
  // Does the same check, and returns the index of the matching key, or size() if there is none.
  std::size_t key_of(std::string_view purpose, Parts parts, std::span<const std::byte> mac) const noexcept;

  // 1, or 2 during a change.
  std::size_t size() const noexcept { return size_; }

  // Who signs the cluster's trust file; nullopt: the file need not be signed.
  const std::optional<Signer>& signer() const noexcept { return signer_; }

 private:
  using Key = std::array<std::byte, kKeySize>;
  ClusterKeys() noexcept = default;
  static Mac mac_with(const Key& key, std::string_view purpose, Parts parts) noexcept;

  std::array<Key, 2> keys_{};
  std::size_t size_ = 0;
  std::optional<Signer> signer_;
};

}  // namespace ripc::internal
