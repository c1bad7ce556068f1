// SPDX-License-Identifier: Apache-2.0
#include "lines.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "support/waiting.hpp"

namespace conformance {

using support::kMillisecond;
using support::now;

bool read_line(int fd, std::string& pending, std::uint64_t end, std::string& line) {
  for (;;) {
    if (const std::size_t length = pending.find('\n'); length != std::string::npos) {
      line = pending.substr(0, length);
      pending.erase(0, length + 1);
      return true;
    }
    const std::uint64_t time = now();
    if (time >= end) return false;
    const std::uint64_t left = (end - time) / kMillisecond + 1;
    pollfd waited{fd, POLLIN, 0};
    if (::poll(&waited, 1, left > 10'000 ? 10'000 : static_cast<int>(left)) <= 0) continue;
    char bytes[4096];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) pending.append(bytes, static_cast<std::size_t>(got));
  }
}

void write_line(int fd, std::string_view text) {
  std::string line(text);
  line += '\n';
  const char* next = line.data();
  std::size_t left = line.size();
  while (left > 0) {
    const ssize_t written = ::send(fd, next, left, MSG_NOSIGNAL);
    if (written < 0 && errno != EINTR) return;  // the reader is gone: a process that waits for its answer finds out
    if (written > 0) {
      next += written;
      left -= static_cast<std::size_t>(written);
    }
  }
}

}  // namespace conformance
