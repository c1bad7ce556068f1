// SPDX-License-Identifier: Apache-2.0
// Lines of text over a stream socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace conformance {

// Takes one line out of `pending`, reading more from `fd` until `end`; false at the end of the stream or of the time.
bool read_line(int fd, std::string& pending, std::uint64_t end, std::string& line);
// Writes the text and the end of the line. A reader that is gone is no failure: who waits for its answer finds out.
void write_line(int fd, std::string_view text);

}  // namespace conformance
