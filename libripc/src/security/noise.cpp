// SPDX-License-Identifier: Apache-2.0
#include "security/noise.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "security/nonce.hpp"

namespace ripc::internal::security {

namespace {

const unsigned char* raw(const std::byte* bytes) noexcept { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* raw(std::byte* bytes) noexcept { return reinterpret_cast<unsigned char*>(bytes); }

constexpr std::byte kOne[] = {std::byte{1}};
constexpr std::byte kTwo[] = {std::byte{2}};
constexpr std::byte kThree[] = {std::byte{3}};

// HKDF as in the specification: each output includes the one before.
std::array<Secret, 3> expand(const Secret& chain, std::span<const std::byte> input) noexcept {
  const Secret start = chain.derive({}, {input});
  std::array<Secret, 3> out;
  out[0] = start.derive({}, {kOne});
  out[1] = start.derive({}, {out[0].bytes(), kTwo});
  out[2] = start.derive({}, {out[1].bytes(), kThree});
  return out;
}

}  // namespace

Noise::Noise(const Options& options) noexcept
    : pattern_(options.pattern), initiator_(options.initiator), psk_(options.psk), own_(options.own) {
  if (options.ephemeral) {
    ephemeral_ = *options.ephemeral;
    has_ephemeral_ = true;
  }
  std::array<char, 64> name{};
  std::size_t size = 0;
  for (const std::string_view part :
       {std::string_view("Noise_"), std::string_view(pattern_ == Pattern::nn ? "NN" : "XX"),
        std::string_view(psk_ ? "psk0" : ""), std::string_view("_25519_ChaChaPoly_SHA256")}) {
    std::memcpy(name.data() + size, part.data(), part.size());
    size += part.size();
  }
  if (size <= Secret::kSize) {
    std::memcpy(hash_.data(), name.data(), size);
  } else {
    crypto_hash_sha256(hash_.data(), reinterpret_cast<const unsigned char*>(name.data()), size);
  }
  chain_ = hash_;
  mix_hash(options.prologue);
}

std::span<const Noise::Token> Noise::tokens() const noexcept {
  static constexpr Token kFirst[] = {Token::psk, Token::e};
  static constexpr Token kNnSecond[] = {Token::e, Token::ee};
  static constexpr Token kXxSecond[] = {Token::e, Token::ee, Token::s, Token::es};
  static constexpr Token kXxThird[] = {Token::s, Token::se};
  if (next_ == 0) return std::span(kFirst).subspan(psk_ ? 0 : 1);
  if (pattern_ == Pattern::nn) return kNnSecond;
  return next_ == 1 ? std::span<const Token>(kXxSecond) : kXxThird;
}

Noise::PublicKey Noise::public_of(const Secret& secret) noexcept {
  PublicKey key;
  crypto_scalarmult_base(raw(key.data()), secret.data());
  return key;
}

void Noise::mix_hash(std::span<const std::byte> bytes) noexcept {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, hash_.data(), Secret::kSize);
  crypto_hash_sha256_update(&state, raw(bytes.data()), bytes.size());
  crypto_hash_sha256_final(&state, hash_.data());
}

void Noise::mix_key(std::span<const std::byte> input) noexcept {
  const std::array<Secret, 3> out = expand(chain_, input);
  chain_ = out[0];
  key_ = out[1];
  has_key_ = true;
  nonce_ = 0;
}

void Noise::mix_psk() noexcept {
  const std::array<Secret, 3> out = expand(chain_, psk_->bytes());
  chain_ = out[0];
  mix_hash(out[1].bytes());
  key_ = out[2];
  has_key_ = true;
  nonce_ = 0;
}

// False: the point is one of those whose result everyone knows.
bool Noise::mix_dh(const Secret& own, const PublicKey& other) noexcept {
  Secret shared;
  if (crypto_scalarmult(shared.data(), own.data(), raw(other.data())) != 0) return false;
  mix_key(shared.bytes());
  return true;
}

bool Noise::mix(Token token) noexcept {
  switch (token) {
    case Token::psk:
      mix_psk();
      return true;
    case Token::ee:
      return mix_dh(ephemeral_, remote_ephemeral_);
    case Token::es:
      return initiator_ ? mix_dh(ephemeral_, remote_static_) : mix_dh(*own_, remote_ephemeral_);
    case Token::se:
      return initiator_ ? mix_dh(*own_, remote_ephemeral_) : mix_dh(ephemeral_, remote_static_);
    case Token::e:
    case Token::s:
      break;
  }
  return false;
}

void Noise::encrypt(std::span<const std::byte> text, std::vector<std::byte>& out) {
  const std::size_t at = out.size();
  out.resize(at + text.size() + tag_size());
  if (has_key_) {
    const auto nonce = nonce_of(nonce_++);
    crypto_aead_chacha20poly1305_ietf_encrypt(raw(out.data() + at), nullptr, raw(text.data()), text.size(),
                                              hash_.data(), Secret::kSize, nullptr, nonce.data(), key_.data());
  } else {
    std::copy(text.begin(), text.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
  }
  mix_hash(std::span<const std::byte>(out).subspan(at));
}

bool Noise::decrypt(std::span<const std::byte> sealed, std::byte* text) noexcept {
  if (sealed.size() < tag_size()) return false;
  if (has_key_) {
    const auto nonce = nonce_of(nonce_++);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(raw(text), nullptr, nullptr, raw(sealed.data()), sealed.size(),
                                                  hash_.data(), Secret::kSize, nonce.data(), key_.data()) != 0)
      return false;
  } else {
    std::copy(sealed.begin(), sealed.end(), text);
  }
  mix_hash(sealed);
  return true;
}

bool Noise::write(std::span<const std::byte> payload, std::vector<std::byte>& message) {
  message.clear();
  if (failed_ || complete() || !is_mine()) return false;
  failed_ = true;  // until all of it has succeeded
  for (const Token token : tokens()) {
    if (token == Token::e) {
      if (!has_ephemeral_) ephemeral_ = Secret::random();
      has_ephemeral_ = true;
      const PublicKey key = public_of(ephemeral_);
      message.insert(message.end(), key.begin(), key.end());
      mix_hash(key);
      if (psk_) mix_key(key);
    } else if (token == Token::s) {
      if (!own_) return false;
      encrypt(public_of(*own_), message);
    } else if (!mix(token)) {
      return false;
    }
  }
  encrypt(payload, message);
  ++next_;
  failed_ = false;
  return true;
}

bool Noise::read(std::span<const std::byte> message, std::vector<std::byte>& payload) {
  payload.clear();
  if (failed_ || complete() || is_mine()) return false;
  failed_ = true;
  for (const Token token : tokens()) {
    if (token == Token::e) {
      if (message.size() < kPublicSize) return false;
      std::copy_n(message.begin(), kPublicSize, remote_ephemeral_.begin());
      message = message.subspan(kPublicSize);
      mix_hash(remote_ephemeral_);
      if (psk_) mix_key(remote_ephemeral_);
    } else if (token == Token::s) {
      const std::size_t size = kPublicSize + tag_size();
      if (!own_ || message.size() < size || !decrypt(message.first(size), remote_static_.data())) return false;
      message = message.subspan(size);
    } else if (!mix(token)) {
      return false;
    }
  }
  if (message.size() < tag_size()) return false;
  payload.resize(message.size() - tag_size());
  if (!decrypt(message, payload.data())) {
    payload.clear();
    return false;
  }
  ++next_;
  failed_ = false;
  return true;
}

Noise::Secrets Noise::secrets() const noexcept {
  const std::array<Secret, 3> out = expand(chain_, {});
  return {.to_responder = out[0], .to_initiator = out[1], .session = chain_.derive("ripc session", {hash_.bytes()})};
}

}  // namespace ripc::internal::security
