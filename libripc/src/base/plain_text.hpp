// SPDX-License-Identifier: Apache-2.0
// Which bytes may be shown to people and programs as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ripc::internal {

// Whether the text is valid UTF-8 (no overlong forms, no surrogates) without control characters (U+0000 to U+001F,
// U+007F to U+009F). True for no text.
bool is_plain_text(std::string_view text) noexcept;

// A service or group ID in the form that all texts use: "0x" and 16 hexadecimal digits.
std::string id_text(std::uint64_t id);

}  // namespace ripc::internal
