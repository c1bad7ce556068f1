// SPDX-License-Identifier: Apache-2.0
// Bytes as text, with two hexadecimal digits each: keys and signatures in files.
#pragma once

#include <sodium.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ripc::internal {

// False: the text does not describe exactly that many bytes. The time it takes does not depend on their values.
inline bool read_hexadecimal(std::string_view text, std::span<std::byte> bytes) noexcept {
  std::size_t size = 0;
  return text.size() == 2 * bytes.size() &&
         sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(), text.size(), nullptr,
                        &size, nullptr) == 0 &&
         size == bytes.size();
}

inline std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  text.pop_back();
  return text;
}

}  // namespace ripc::internal
