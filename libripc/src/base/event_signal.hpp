// SPDX-License-Identifier: Apache-2.0
// Event descriptors (eventfd, and timerfd on the reading side), by which one thread tells another to look.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace ripc::internal {

// Makes it readable. A full counter is readable already, so a failed write loses nothing.
inline void signal_event(int fd) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

// Makes it unreadable, if it does not block. How often it was signalled does not matter, nor whether it was.
inline void clear_event(int fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(fd, &count, sizeof count);
}

}  // namespace ripc::internal
