// SPDX-License-Identifier: Apache-2.0
#include "security/cipher.hpp"

#include <array>

#include "security/nonce.hpp"
#include "security/openssl.hpp"

namespace ripc::internal::security {

namespace {

using Nonce = std::array<unsigned char, 12>;

// From this size on OpenSSL is faster, although each of its calls takes longer.
constexpr std::size_t kLarge = 768;

OpenSsl::Context* as_context(void* context) noexcept { return static_cast<OpenSsl::Context*>(context); }

}  // namespace

std::uint32_t own_suites() noexcept {
  static const std::uint32_t all = [] {
    if (sodium_init() < 0) return static_cast<std::uint32_t>(Suite::chacha20_poly1305);
    const auto chacha = static_cast<std::uint32_t>(Suite::chacha20_poly1305);
    return crypto_aead_aes256gcm_is_available() != 0 ? chacha | static_cast<std::uint32_t>(Suite::aes256_gcm) : chacha;
  }();
  return all;
}

Suite choose_suite(std::uint32_t one, std::uint32_t other) noexcept {
  return (one & other & static_cast<std::uint32_t>(Suite::aes256_gcm)) != 0 ? Suite::aes256_gcm
                                                                            : Suite::chacha20_poly1305;
}

std::string_view name_of(Suite suite) noexcept {
  return suite == Suite::aes256_gcm ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

Cipher::Cipher(Suite suite, const Secret& key, bool hides) noexcept : suite_(suite), hides_(hides), key_(key) {
  if (suite_ == Suite::aes256_gcm) crypto_aead_aes256gcm_beforenm(&expanded_, key_.data());
}

Cipher::~Cipher() {
  sodium_memzero(&expanded_, sizeof expanded_);
  if (context_ != nullptr) OpenSsl::get()->free(as_context(context_));
}

bool Cipher::use_openssl(std::size_t size) noexcept {
  if (size < kLarge) return false;
  if (tried_) return context_ != nullptr;
  tried_ = true;
  const OpenSsl* const openssl = OpenSsl::get();
  if (openssl == nullptr) return false;
  OpenSsl::Context* const context = openssl->make();
  if (context == nullptr) return false;
  if (openssl->init(context, suite_ == Suite::aes256_gcm ? openssl->aes256_gcm : openssl->chacha20_poly1305,
                    key_.data(), Nonce{}.data(), 1, nullptr) != 1) {
    openssl->free(context);
    return false;
  }
  context_ = context;
  return true;
}

bool Cipher::run_openssl(bool seals, std::uint64_t number, std::byte* data, std::size_t head,
                         std::size_t text) noexcept {
  const OpenSsl& openssl = *OpenSsl::get();
  OpenSsl::Context* const context = as_context(context_);
  auto* const bytes = reinterpret_cast<unsigned char*>(data);
  const Nonce nonce = nonce_of(number);
  int size = 0;
  std::array<unsigned char, kTagSize> none;
  if (openssl.init(context, nullptr, nullptr, nonce.data(), seals ? 1 : 0, nullptr) != 1) return false;
  if (head != 0 && openssl.update(context, nullptr, &size, bytes, static_cast<int>(head)) != 1) return false;
  if (text != 0 && openssl.update(context, bytes + head, &size, bytes + head, static_cast<int>(text)) != 1)
    return false;
  unsigned char* const tag = bytes + head + text;
  if (seals)
    return openssl.final(context, none.data(), &size) == 1 &&
           openssl.control(context, OpenSsl::kGetTag, kTagSize, tag) == 1;
  return openssl.control(context, OpenSsl::kSetTag, kTagSize, tag) == 1 &&
         openssl.final(context, none.data(), &size) == 1;
}

void Cipher::seal(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text) noexcept {
  if (!hides_) {
    head += text;
    text = 0;
  }
  if (use_openssl(head + text)) {
    // The other end refuses what is left then; nothing leaves in the clear.
    if (!run_openssl(true, number, data, head, text)) sodium_memzero(data + head, text + kTagSize);
    return;
  }
  auto* const bytes = reinterpret_cast<unsigned char*>(data);
  const Nonce nonce = nonce_of(number);
  if (suite_ == Suite::aes256_gcm) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(bytes + head, bytes + head + text, nullptr, bytes + head, text,
                                                   bytes, head, nullptr, nonce.data(), &expanded_);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(bytes + head, bytes + head + text, nullptr, bytes + head, text,
                                                       bytes, head, nullptr, nonce.data(), key_.data());
  }
}

bool Cipher::open(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text) noexcept {
  if (!hides_) {
    head += text;
    text = 0;
  }
  if (use_openssl(head + text)) return run_openssl(false, number, data, head, text);
  auto* const bytes = reinterpret_cast<unsigned char*>(data);
  const Nonce nonce = nonce_of(number);
  if (suite_ == Suite::aes256_gcm)
    return crypto_aead_aes256gcm_decrypt_detached_afternm(bytes + head, nullptr, bytes + head, text,
                                                          bytes + head + text, bytes, head, nonce.data(),
                                                          &expanded_) == 0;
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(bytes + head, nullptr, bytes + head, text,
                                                            bytes + head + text, bytes, head, nonce.data(),
                                                            key_.data()) == 0;
}

}  // namespace ripc::internal::security
