// SPDX-License-Identifier: Apache-2.0
#include "base/cluster_key.hpp"

#include <sodium.h>

#include <algorithm>

#include "base/guarded_file.hpp"
#include "base/hexadecimal.hpp"
#include "base/sodium_calls.hpp"

namespace ripc::internal {
namespace {

constexpr std::string_view kSigner = "signer ed25519:";

Status not_a_key(const std::string& origin, std::size_t line, const std::string& what) {
  return Status(
      RIPC_INVALID_ARGUMENT,
      "The cluster key file " + origin + (line == 0 ? std::string() : ", line " + std::to_string(line)) + ": " + what +
          ". Copy the key file of another host here, or make a new key: " + "ripc key new --force -o " + origin + ".");
}

Status not_a_signer(const std::string& origin, std::size_t line) {
  return Status(RIPC_INVALID_ARGUMENT,
                "The cluster key file " + origin + ", line " + std::to_string(line) +
                    ": after 'signer' comes ed25519: and the 64 hexadecimal digits of a public key. `ripc key show` "
                    "prints that of an identity.");
}

// Messages repeat nothing of the text, because it is, or nearly is, a secret.
Status parse_key(std::string_view line, std::array<std::byte, ClusterKeys::kKeySize>& key, const std::string& origin,
                 std::size_t number) {
  if (line.size() != 2 * key.size())
    return not_a_key(
        origin, number,
        "a key has 64 hexadecimal digits, but this line has " + std::to_string(line.size()) + " characters");
  if (!read_hexadecimal(line, key))
    return not_a_key(origin, number, "it has a character that is not a hexadecimal digit");
  if (std::all_of(key.begin(), key.end(), [&](std::byte byte) { return byte == key[0]; }))
    return not_a_key(origin, number, "all bytes of the key are the same, so it can be guessed");
  return {};
}

}  // namespace

ClusterKeys::~ClusterKeys() { sodium_memzero(keys_.data(), sizeof keys_); }

Result<std::shared_ptr<const ClusterKeys>> ClusterKeys::load(const std::string& path) {
  const Result<GuardedText> text = read_guarded_file(path, {.what = "cluster key file",
                                                            .setting = "RIPC_CLUSTER_KEY_FILE",
                                                            .remedy = "`ripc key new` makes one",
                                                            .most = 4096});
  if (!text.ok()) return text.status();
  return parse(text->view(), path);
}

Result<std::shared_ptr<const ClusterKeys>> ClusterKeys::parse(std::string_view text, const std::string& origin) {
  if (Status status = start_sodium(); !status.ok()) return status;
  // The constructor is private; the object is shared from here on.
  const std::shared_ptr<ClusterKeys> keys(new ClusterKeys);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(take_line(text));
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("signer")) {
      if (keys->signer_) return not_a_key(origin, number, "this is a second signer; there is one at most");
      Signer& signer = keys->signer_.emplace();
      if (!line.starts_with(kSigner) || !read_hexadecimal(line.substr(kSigner.size()), signer))
        return not_a_signer(origin, number);
      continue;
    }
    if (keys->size_ == keys->keys_.size())
      return not_a_key(origin, number, "this is a third key; there are two at most, while the key is changed");
    if (Status status = parse_key(line, keys->keys_[keys->size_], origin, number); !status.ok()) return status;
    ++keys->size_;
  }
  if (keys->size_ == 0) return not_a_key(origin, 0, "there is no key in it");
  return std::shared_ptr<const ClusterKeys>(keys);
}

ClusterKeys::Mac ClusterKeys::mac_with(const Key& key, std::string_view purpose, Parts parts) noexcept {
  Mac mac;
  hash_parts(key, purpose, parts, mac);
  return mac;
}

ClusterKeys::Mac ClusterKeys::mac(std::string_view purpose, Parts parts, std::size_t key) const noexcept {
  return mac_with(keys_[key], purpose, parts);
}

std::size_t ClusterKeys::key_of(std::string_view purpose, Parts parts, std::span<const std::byte> mac) const noexcept {
  if (mac.size() != kMacSize) return size_;
  std::size_t found = size_;
  for (std::size_t i = 0; i < size_; ++i) {
    const Mac expected = mac_with(keys_[i], purpose, parts);
    if (sodium_memcmp(expected.data(), mac.data(), kMacSize) == 0) found = i;
  }
  return found;
}

}  // namespace ripc::internal
