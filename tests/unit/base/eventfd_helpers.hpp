// SPDX-License-Identifier: Apache-2.0
// A descriptor that a test makes readable.
#pragma once

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "base/clock.hpp"
#include "base/handler_set.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

inline constexpr Nanoseconds kPatience = 20'000'000'000;

inline UniqueFd make_eventfd() { return UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

inline void signal(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
}

inline void read_eventfd(const UniqueFd& fd) {
  std::uint64_t value = 0;
  ASSERT_EQ(::read(fd.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
}

// From now on, when the descriptor is signalled, the set reads it and then calls `then`.
inline void on_signal(HandlerSet& set, const UniqueFd& fd, std::function<void()> then) {
  const Status added = set.add(fd.get(), EPOLLIN, [&fd, then = std::move(then)](std::uint32_t) {
    read_eventfd(fd);
    then();
  });
  ASSERT_TRUE(added.ok()) << added.text();
}

}  // namespace ripc::internal
