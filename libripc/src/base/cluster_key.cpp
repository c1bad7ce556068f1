// SPDX-License-Identifier: Apache-2.0
#include "base/cluster_key.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/unique_fd.hpp"

namespace ripc::internal {
namespace {

constexpr std::size_t kMaxFileSize = 4096;

// The file's text; overwritten when it goes.
struct SecretText {
  std::array<char, kMaxFileSize + 1> bytes{};
  std::size_t size = 0;
  ~SecretText() { sodium_memzero(bytes.data(), bytes.size()); }
};

Status not_a_key(const std::string& origin, std::size_t line, const std::string& what) {
  return Status(
      RIPC_INVALID_ARGUMENT,
      "The cluster key file " + origin + (line == 0 ? std::string() : ", line " + std::to_string(line)) + ": " + what +
          ". Copy the key file of another host here, or make a new key: " + "ripc key new --force -o " + origin + ".");
}

Status check_permissions(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode))
    return Status(RIPC_PERMISSION, "The cluster key file " + path + " is not a plain file: name the file that has it.");
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return Status(RIPC_PERMISSION, "The cluster key file " + path + " belongs to the user " +
                                       std::to_string(info.st_uid) + ", who could change it: chown it to user " +
                                       std::to_string(::geteuid()) +
                                       " or to root, or name another file with RIPC_CLUSTER_KEY_FILE.");
  if ((info.st_mode & 077) != 0)
    return Status(RIPC_PERMISSION, "The cluster key file " + path +
                                       " is open to its group or to others: chmod 600 it, and make a new " +
                                       "key if somebody may have read it.");
  return {};
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Nothing of the text is repeated in messages: it is, or is nearly, a secret.
Status parse_key(std::string_view line, std::array<std::byte, ClusterKeys::kKeySize>& key, const std::string& origin,
                 std::size_t number) {
  if (line.size() != 2 * key.size())
    return not_a_key(
        origin, number,
        "a key has 64 hexadecimal digits, but this line has " + std::to_string(line.size()) + " characters");
  std::size_t size = 0;
  if (sodium_hex2bin(reinterpret_cast<unsigned char*>(key.data()), key.size(), line.data(), line.size(), nullptr, &size,
                     nullptr) != 0 ||
      size != key.size())
    return not_a_key(origin, number, "it has a character that is not a hexadecimal digit");
  if (std::all_of(key.begin(), key.end(), [&](std::byte byte) { return byte == key[0]; }))
    return not_a_key(origin, number, "all bytes of the key are the same, so it can be guessed");
  return {};
}

}  // namespace

ClusterKeys::~ClusterKeys() { sodium_memzero(keys_.data(), sizeof keys_); }

Result<std::shared_ptr<const ClusterKeys>> ClusterKeys::load(const std::string& path) {
  constexpr const char* kAdvice =
      "let this user read it, or name another file with RIPC_CLUSTER_KEY_FILE; `ripc key new` makes one";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return system_error(errno, "Reading the cluster key file " + path, kAdvice);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(errno, "Looking at the cluster key file " + path, kAdvice);
  if (Status status = check_permissions(path, info); !status.ok()) return status;
  SecretText text;
  while (text.size < text.bytes.size()) {
    const ssize_t count = ::read(fd.get(), text.bytes.data() + text.size, text.bytes.size() - text.size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "Reading the cluster key file " + path, kAdvice);
    if (count == 0) break;
    text.size += static_cast<std::size_t>(count);
  }
  if (text.size > kMaxFileSize) return not_a_key(path, 0, "it is larger than 4096 bytes");
  return parse({text.bytes.data(), text.size}, path);
}

Result<std::shared_ptr<const ClusterKeys>> ClusterKeys::parse(std::string_view text, const std::string& origin) {
  if (::sodium_init() < 0)
    return Status(RIPC_SYSTEM,
                  "The cryptographic library libsodium does not start: reinstall the package libsodium23.");
  // The constructor is private; the object is shared from here on.
  const std::shared_ptr<ClusterKeys> keys(new ClusterKeys);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (keys->size_ == keys->keys_.size())
      return not_a_key(origin, number, "this is a third key; there are two at most, while the key is changed");
    if (Status status = parse_key(line, keys->keys_[keys->size_], origin, number); !status.ok()) return status;
    ++keys->size_;
  }
  if (keys->size_ == 0) return not_a_key(origin, 0, "there is no key in it");
  return std::shared_ptr<const ClusterKeys>(keys);
}

ClusterKeys::Mac ClusterKeys::mac_with(const Key& key, std::string_view purpose, Parts parts) noexcept {
  crypto_generichash_blake2b_state state;
  const auto add = [&state](const void* bytes, std::size_t size) {
    std::array<unsigned char, 8> length{};
    for (std::size_t i = 0; i < length.size(); ++i)
      length[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(size) >> (8 * i));
    crypto_generichash_blake2b_update(&state, length.data(), length.size());
    crypto_generichash_blake2b_update(&state, static_cast<const unsigned char*>(bytes), size);
  };
  Mac mac;
  crypto_generichash_blake2b_init(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size(), mac.size());
  add(purpose.data(), purpose.size());
  for (const std::span<const std::byte>& part : parts) add(part.data(), part.size());
  crypto_generichash_blake2b_final(&state, reinterpret_cast<unsigned char*>(mac.data()), mac.size());
  sodium_memzero(&state, sizeof state);
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
