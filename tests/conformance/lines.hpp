// SPDX-License-Identifier: Apache-2.0
// Lines of text over a stream socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace conformance {

// Takes one line out of `pending`, reading more from `fd` until `end`; false when the stream or the time ends.
bool read_line(int fd, std::string& pending, std::uint64_t end, std::string& line);
// Writes the text and a newline. A reader that is gone is no failure: the process that waits for its answer finds out.
void write_line(int fd, std::string_view text);

}  // namespace conformance
