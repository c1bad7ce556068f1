// SPDX-License-Identifier: Apache-2.0
// One key that seals in one direction: it encrypts and authenticates, or only authenticates, numbered texts.
#pragma once

#include <sodium.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "security/multi_buffer.hpp"
#include "security/secret.hpp"

namespace ripc::internal::security {

// One bit each: the sum says which suites an end can use.
enum class Suite : std::uint32_t { aes256_gcm = 1, chacha20_poly1305 = 2 };

// Any thread. The suites of this machine. AES only if the processor has it: in software it is slow, and its timing
// reveals the key.
std::uint32_t own_suites() noexcept;
// The best suite that both ends have; every end has ChaCha20-Poly1305.
Suite choose_suite(std::uint32_t one, std::uint32_t other) noexcept;
std::string_view name_of(Suite suite) noexcept;

// One thread at a time.
class Cipher {
 public:
  static constexpr std::size_t kTagSize = 16;  // bytes

  // `encrypts`: the text is encrypted and authenticated; else only authenticated. No number may be used twice with the
  // same key. `multi_buffer`: used for AES; null: libsodium and OpenSSL do the work, with the same result.
  Cipher(Suite suite, const Secret& key, bool encrypts, const MultiBuffer* multi_buffer = MultiBuffer::get()) noexcept;
  ~Cipher();
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  // `data` has `head` bytes, which are authenticated and stay readable, and then room for `text` bytes and a tag.
  // `from`: where the text is; null: in `data`.
  void seal(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text,
            const std::byte* from = nullptr) noexcept;
  // The reverse of seal(). `to`: where the text goes; null: it stays in `data`. False: it is forged, and the text must
  // not be used.
  bool open(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text,
            std::byte* to = nullptr) noexcept;

 private:
  AeadText text_of(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text, const std::byte* from,
                   std::byte* to) const noexcept;
  bool use_openssl(std::size_t size) noexcept;
  bool run_openssl(bool seals, const AeadText& text) noexcept;

  const Suite suite_;
  const bool encrypts_;
  bool tried_ = false;
  void* context_ = nullptr;                // of OpenSSL; for large texts
  const MultiBuffer* const multi_buffer_;  // null: it is not used
  Secret key_;
  union {
    MultiBuffer::Key expanded_;
    crypto_aead_aes256gcm_state sodium_expanded_;
  };
};

}  // namespace ripc::internal::security
