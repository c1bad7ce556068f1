// SPDX-License-Identifier: Apache-2.0
#include "security/identity.hpp"

#include <sodium.h>

#include <algorithm>

#include "base/guarded_file.hpp"
#include "base/hexadecimal.hpp"
#include "base/sodium_calls.hpp"

namespace ripc::internal::security {
namespace {

constexpr std::string_view kKind = "ed25519:";
constexpr std::string_view kSecret = "secret ed25519:";
struct Seed : std::array<std::byte, crypto_sign_SEEDBYTES> {
  ~Seed() { sodium_memzero(data(), size()); }
};
static_assert(Identity::kSecretTextSize == kSecret.size() + std::size_t{2} * crypto_sign_SEEDBYTES + 1);
static_assert(std::tuple_size_v<PublicKey> == crypto_sign_PUBLICKEYBYTES);
static_assert(std::tuple_size_v<Signature> == crypto_sign_BYTES);
static_assert(std::tuple_size_v<ExchangeKey> == crypto_scalarmult_curve25519_BYTES);

template <std::size_t size>
unsigned char* raw(std::array<std::byte, size>& bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
template <std::size_t size>
const unsigned char* raw(const std::array<std::byte, size>& bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Status not_an_identity(const std::string& origin, std::size_t line, const std::string& what) {
  return Status(RIPC_INVALID_ARGUMENT,
                "The identity file " + origin + (line == 0 ? std::string() : ", line " + std::to_string(line)) + ": " +
                    what + ". Make a new one: ripc key new --identity --force -o " + origin + ".");
}

// The signature covers this digest instead of the parts, which need not be contiguous.
std::array<std::byte, 64> digest(std::string_view purpose, Identity::Parts parts) noexcept {
  std::array<std::byte, 64> result;
  hash_parts({}, purpose, parts, result);
  return result;
}

}  // namespace

std::string public_key_text(const PublicKey& key) { return std::string(kKind) + hexadecimal(key); }

bool read_public_key(std::string_view text, PublicKey& key) noexcept {
  return text.starts_with(kKind) && read_hexadecimal(text.substr(kKind.size()), key);
}

Result<std::shared_ptr<const Identity>> Identity::load(const std::string& path) {
  const Result<GuardedText> text = read_guarded_file(path, {.what = "identity file",
                                                            .setting = "RIPC_IDENTITY_FILE",
                                                            .remedy = "`ripc key new --identity` makes one",
                                                            .most = 4096});
  if (!text.ok()) return text.status();
  return parse(text->view(), path);
}

// Messages repeat nothing of the text, because it is, or nearly is, a secret.
Result<std::shared_ptr<const Identity>> Identity::parse(std::string_view text, const std::string& origin) {
  if (Status status = start_sodium(); !status.ok()) return status;
  Seed seed{};
  bool is_found = false;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(take_line(text));
    if (line.empty() || line.front() == '#') continue;
    if (is_found) return not_an_identity(origin, number, "this is a second line; an identity has one secret");
    if (!line.starts_with(kSecret) || !read_hexadecimal(line.substr(kSecret.size()), seed))
      return not_an_identity(origin, number, "an identity is 'secret ed25519:' and 64 hexadecimal digits");
    if (std::all_of(seed.begin(), seed.end(), [&](std::byte byte) { return byte == seed[0]; }))
      return not_an_identity(origin, number, "all bytes of the secret are the same, so it can be guessed");
    is_found = true;
  }
  if (!is_found) return not_an_identity(origin, 0, "there is no secret in it");
  // The constructor is private; the object is shared from here on.
  const std::shared_ptr<Identity> identity(new Identity);
  identity->set_seed(seed);
  return std::shared_ptr<const Identity>(identity);
}

Result<std::shared_ptr<const Identity>> Identity::generate() {
  if (Status status = start_sodium(); !status.ok()) return status;
  Seed seed;
  randombytes_buf(seed.data(), seed.size());
  const std::shared_ptr<Identity> identity(new Identity);
  identity->set_seed(seed);
  return std::shared_ptr<const Identity>(identity);
}

void Identity::set_seed(const std::array<std::byte, 32>& seed) noexcept {
  crypto_sign_seed_keypair(raw(public_key_), raw(secret_), raw(seed));
}

Identity::~Identity() { sodium_memzero(secret_.data(), secret_.size()); }

Signature Identity::sign(std::string_view purpose, Parts parts) const noexcept {
  const std::array<std::byte, 64> message = digest(purpose, parts);
  Signature signature;
  crypto_sign_detached(raw(signature), nullptr, raw(message), message.size(), raw(secret_));
  return signature;
}

bool Identity::verify(const PublicKey& key, std::string_view purpose, Parts parts,
                      std::span<const std::byte> signature) noexcept {
  if (signature.size() != std::tuple_size_v<Signature>) return false;
  const std::array<std::byte, 64> message = digest(purpose, parts);
  return crypto_sign_verify_detached(reinterpret_cast<const unsigned char*>(signature.data()), raw(message),
                                     message.size(), raw(key)) == 0;
}

ExchangeKey Identity::exchange_secret() const noexcept {
  ExchangeKey key;
  crypto_sign_ed25519_sk_to_curve25519(raw(key), raw(secret_));
  return key;
}

bool Identity::exchange_key(const PublicKey& key, ExchangeKey& exchange) noexcept {
  return crypto_sign_ed25519_pk_to_curve25519(raw(exchange), raw(key)) == 0;
}

std::array<char, Identity::kSecretTextSize> Identity::secret_text() const noexcept {
  std::array<char, kSecretTextSize> text{};
  std::copy(kSecret.begin(), kSecret.end(), text.begin());
  // libsodium's secret key begins with the seed.
  sodium_bin2hex(text.data() + kSecret.size(), text.size() - kSecret.size(), raw(secret_), crypto_sign_SEEDBYTES);
  text.back() = '\n';
  return text;
}

}  // namespace ripc::internal::security
