// SPDX-License-Identifier: Apache-2.0
#include "security/cipher.hpp"

#include <array>
#include <cstring>

#include "security/nonce.hpp"
#include "security/openssl.hpp"

namespace ripc::internal::security {

namespace {

using Nonce = std::array<unsigned char, 12>;

// From this size on, OpenSSL is faster, although a call to it takes longer.
constexpr std::size_t kLarge = 768;

unsigned char* as_bytes(std::byte* data) noexcept { return reinterpret_cast<unsigned char*>(data); }
const unsigned char* as_bytes(const std::byte* data) noexcept { return reinterpret_cast<const unsigned char*>(data); }
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

Cipher::Cipher(Suite suite, const Secret& key, bool encrypts, const MultiBuffer* multi_buffer) noexcept
    : suite_(suite),
      encrypts_(encrypts),
      multi_buffer_(suite == Suite::aes256_gcm ? multi_buffer : nullptr),
      key_(key) {
  if (multi_buffer_ != nullptr) {
    multi_buffer_->expand(key_.data(), expanded_);
  } else if (suite_ == Suite::aes256_gcm) {
    crypto_aead_aes256gcm_beforenm(&sodium_expanded_, key_.data());
  }
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

bool Cipher::run_openssl(bool seals, const AeadText& text) noexcept {
  const OpenSsl& openssl = *OpenSsl::get();
  OpenSsl::Context* const context = as_context(context_);
  int size = 0;
  std::array<unsigned char, kTagSize> none;
  if (openssl.init(context, nullptr, nullptr, text.nonce.data(), seals ? 1 : 0, nullptr) != 1) return false;
  if (text.head_size != 0 && openssl.update(context, nullptr, &size, text.head, static_cast<int>(text.head_size)) != 1)
    return false;
  if (text.size != 0 && openssl.update(context, text.to, &size, text.from, static_cast<int>(text.size)) != 1)
    return false;
  if (seals)
    return openssl.final(context, none.data(), &size) == 1 &&
           openssl.control(context, OpenSsl::kGetTag, kTagSize, text.tag) == 1;
  return openssl.control(context, OpenSsl::kSetTag, kTagSize, text.tag) == 1 &&
         openssl.final(context, none.data(), &size) == 1;
}

// A text that is not encrypted counts entirely as head.
AeadText Cipher::text_of(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text,
                         const std::byte* from, std::byte* to) const noexcept {
  return {.nonce = nonce_of(number),
          .head = as_bytes(data),
          .head_size = encrypts_ ? head : head + text,
          .from = as_bytes(from),
          .to = as_bytes(to),
          .size = encrypts_ ? text : 0,
          .tag = as_bytes(data) + head + text};
}

void Cipher::seal(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text,
                  const std::byte* from) noexcept {
  std::byte* const inside = data + head;
  if (from == nullptr) from = inside;
  if (!encrypts_ && from != inside) std::memcpy(inside, from, text);
  const AeadText work = text_of(number, data, head, text, from, inside);
  if (multi_buffer_ != nullptr) {
    multi_buffer_->seal(expanded_, work);
  } else if (use_openssl(head + text)) {
    // On failure, zeros replace the text: the other end refuses them, and nothing leaves in the clear.
    if (!run_openssl(true, work)) sodium_memzero(inside, text + kTagSize);
  } else if (suite_ == Suite::aes256_gcm) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(work.to, work.tag, nullptr, work.from, work.size, work.head,
                                                   work.head_size, nullptr, work.nonce.data(), &sodium_expanded_);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(work.to, work.tag, nullptr, work.from, work.size, work.head,
                                                       work.head_size, nullptr, work.nonce.data(), key_.data());
  }
}

bool Cipher::open(std::uint64_t number, std::byte* data, std::size_t head, std::size_t text, std::byte* to) noexcept {
  std::byte* const inside = data + head;
  if (to == nullptr) to = inside;
  const AeadText work = text_of(number, data, head, text, inside, to);
  bool is_true = false;
  if (multi_buffer_ != nullptr) {
    is_true = multi_buffer_->open(expanded_, work);
  } else if (use_openssl(head + text)) {
    is_true = run_openssl(false, work);
  } else if (suite_ == Suite::aes256_gcm) {
    is_true =
        crypto_aead_aes256gcm_decrypt_detached_afternm(work.to, nullptr, work.from, work.size, work.tag, work.head,
                                                       work.head_size, work.nonce.data(), &sodium_expanded_) == 0;
  } else {
    is_true =
        crypto_aead_chacha20poly1305_ietf_decrypt_detached(work.to, nullptr, work.from, work.size, work.tag, work.head,
                                                           work.head_size, work.nonce.data(), key_.data()) == 0;
  }
  if (is_true && !encrypts_ && to != inside) std::memcpy(to, inside, text);
  return is_true;
}

}  // namespace ripc::internal::security
