// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the codecs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/packet.hpp"

namespace ripc::internal::wire::testing {

using Bytes = std::vector<std::byte>;

// The service that packets come from.
inline constexpr std::uint64_t kSource = 0x8000'0000'0000'0101;

inline std::span<const std::byte> text(std::string_view characters) {
  return std::as_bytes(std::span<const char>(characters.data(), characters.size()));
}

inline std::string to_string(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

inline Bytes to_bytes(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Random numbers that are the same in every run.
inline std::mt19937_64 fixed_random(std::uint64_t seed) { return std::mt19937_64(seed); }

// "01 0a ff"
inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", std::to_integer<unsigned>(byte));
    if (!hex.empty()) hex += ' ';
    hex += digits;
  }
  return hex;
}

// The whole packet, as a transport would put it together.
inline Bytes flatten(Encoder& encoder) {
  Bytes bytes;
  for (const std::span<const std::byte> range : encoder.finish()) bytes.insert(bytes.end(), range.begin(), range.end());
  return bytes;
}

// Bytes in a heap block of their exact size: AddressSanitizer then sees a read of one byte too many, which the spare
// capacity of a vector could hide.
class ExactBytes {
 public:
  explicit ExactBytes(std::span<const std::byte> bytes)
      : block_(std::make_unique<std::byte[]>(bytes.size())), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), block_.get());
  }
  std::span<const std::byte> span() const { return {block_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> block_;
  std::size_t size_;
};

}  // namespace ripc::internal::wire::testing
