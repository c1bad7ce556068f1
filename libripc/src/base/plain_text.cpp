// SPDX-License-Identifier: Apache-2.0
#include "base/plain_text.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

namespace ripc::internal {
namespace {

// Length of the UTF-8 sequence at `position`, 0 if it is not one.
std::size_t sequence_length(std::string_view text, std::size_t position) noexcept {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(position);
  std::size_t length = 1;
  unsigned code = first;
  if (first >= 0x80) {
    if (first >= 0xc2 && first <= 0xdf) {
      length = 2;
      code = first & 0x1fu;
    } else if (first >= 0xe0 && first <= 0xef) {
      length = 3;
      code = first & 0x0fu;
    } else if (first >= 0xf0 && first <= 0xf4) {
      length = 4;
      code = first & 0x07u;
    } else {
      return 0;
    }
  }
  if (position + length > text.size()) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(position + index) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(position + index) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool forbidden =
      (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff || code < 0x20 || (code >= 0x7f && code <= 0x9f);
  return overlong || forbidden ? 0 : length;
}

}  // namespace

bool is_plain_text(std::string_view text) noexcept {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = sequence_length(text, position);
    if (length == 0) return false;
    position += length;
  }
  return true;
}

std::string id_text(std::uint64_t id) {
  std::array<char, 19> text{};
  std::snprintf(text.data(), text.size(), "0x%016llx", static_cast<unsigned long long>(id));
  return text.data();
}

}  // namespace ripc::internal
