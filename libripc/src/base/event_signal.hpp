// SPDX-License-Identifier: Apache-2.0
// Event descriptors (eventfd, and timerfd on the reading side), with which one thread tells another to look.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace ripc::internal {

// Makes the descriptor readable. A full counter is already readable, so a failed write loses nothing.
inline void signal_event(int fd) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

// Makes a non-blocking descriptor unreadable. It does not matter how often it was signalled, or whether it was.
inline void clear_event(int fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(fd, &count, sizeof count);
}

}  // namespace ripc::internal
