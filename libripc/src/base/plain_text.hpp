// SPDX-License-Identifier: Apache-2.0
// Which bytes may be shown to people and programs as text.
#pragma once

#include <string_view>

namespace ripc {

// Whether the text is valid UTF-8 (no overlong forms, no surrogates) without control characters. True for no text.
bool is_plain_text(std::string_view text) noexcept;

}  // namespace ripc
