// SPDX-License-Identifier: Apache-2.0
// 32 secret bytes, which are overwritten on destruction, and how further secrets are derived from them.
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace ripc::internal::security {

// Any thread.
class Secret {
 public:
  static constexpr std::size_t kSize = 32;  // bytes
  using Bytes = std::array<std::byte, kSize>;
  using Parts = std::initializer_list<std::span<const std::byte>>;

  Secret() noexcept = default;  // all zero
  explicit Secret(const Bytes& bytes) noexcept : bytes_(bytes) {}
  Secret(const Secret&) noexcept = default;
  Secret& operator=(const Secret&) noexcept = default;
  ~Secret() { sodium_memzero(bytes_.data(), bytes_.size()); }

  // A new random secret from the kernel.
  static Secret random() noexcept {
    Secret secret;
    randombytes_buf(secret.data(), kSize);
    return secret;
  }

  const Bytes& bytes() const noexcept { return bytes_; }
  const unsigned char* data() const noexcept { return reinterpret_cast<const unsigned char*>(bytes_.data()); }
  unsigned char* data() noexcept { return reinterpret_cast<unsigned char*>(bytes_.data()); }

  // HMAC-SHA-256 of the purpose and the parts. The boundaries between parts do not count, because the parts of one
  // purpose always have the same sizes.
  Secret derive(std::string_view purpose, Parts parts = {}) const noexcept;

 private:
  Bytes bytes_{};
};

}  // namespace ripc::internal::security
