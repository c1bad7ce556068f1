// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace ripc::internal {

// Whether the whole text is a number; if so, stores it in `number`.
template <typename Number>
bool parse_number(std::string_view text, Number& number, int base = 10) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace ripc::internal
