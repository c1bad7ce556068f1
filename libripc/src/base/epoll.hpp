// SPDX-License-Identifier: Apache-2.0
// Helpers that the sets of descriptors share.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// `flags` are stored next to the descriptor in the data of its events. RIPC_INVALID_ARGUMENT: the descriptor is already
// in the set. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
Status add_to_epoll(int epoll, int fd, std::uint32_t events, std::uint64_t flags = 0) noexcept;

Status create_epoll(UniqueFd& epoll) noexcept;
// Creates an eventfd.
Status create_wake(UniqueFd& wake) noexcept;

// Sleeps until the epoll instance or the other descriptor (-1: none) is readable, or the deadline has passed. RIPC_OK,
// RIPC_EMPTY (only the other descriptor is readable), RIPC_TIMEOUT, RIPC_INTERRUPTED (a signal handler ran in this
// thread).
ripc_status sleep_on(int epoll, Deadline deadline, Nanoseconds now, int other = -1) noexcept;

}  // namespace ripc::internal
