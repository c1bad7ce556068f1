// SPDX-License-Identifier: Apache-2.0
#include "base/epoll.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include <array>

namespace ripc::internal {

Status add_to_epoll(int epoll, int fd, std::uint32_t events, std::uint64_t flags) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint32_t>(fd) | flags;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno == EEXIST)
    return Status(RIPC_INVALID_ARGUMENT, "The descriptor is waited for already: remove it first, or modify it.");
  return system_error(errno, "epoll_ctl", "raise `ulimit -n` or fs.epoll.max_user_watches");
}

Status create_epoll(UniqueFd& epoll) noexcept {
  epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  return epoll ? Status() : system_error(errno, "epoll_create1", "raise `ulimit -n`");
}

Status create_wake(UniqueFd& wake) noexcept {
  wake.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return wake ? Status() : system_error(errno, "eventfd", "raise `ulimit -n`");
}

// When a stopped process continues, epoll_wait(2) also fails with EINTR, which looks the same as a signal handler.
// ppoll(2) just continues in that case.
ripc_status sleep_on(int epoll, Deadline deadline, Nanoseconds now, int other) noexcept {
  const timespec timeout = to_timespec(deadline.remaining(now));
  std::array<pollfd, 2> ready{{{epoll, POLLIN, 0}, {other, POLLIN, 0}}};
  const nfds_t size = other < 0 ? 1 : 2;
  const int count = ppoll(ready.data(), size, deadline.is_never() ? nullptr : &timeout, nullptr);
  if (count < 0 && errno == EINTR) return RIPC_INTERRUPTED;
  if (count == 0) return RIPC_TIMEOUT;
  return ready.front().revents != 0 ? RIPC_OK : RIPC_EMPTY;
}

}  // namespace ripc::internal
