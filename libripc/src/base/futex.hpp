// SPDX-License-Identifier: Apache-2.0
// Sleeping until a number changes. Unlike a condition variable, the waker may be a signal handler.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "ripc/ripc.h"

namespace ripc::internal {

// Any thread. Sleeps while the word is `seen`. RIPC_OK: the word changed, or may have; RIPC_TIMEOUT; RIPC_INTERRUPTED:
// a signal handler ran in this thread, with or without SA_RESTART.
ripc_status futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Deadline deadline) noexcept;

// Any thread, async-signal-safe. Wakes every thread that sleeps on the word; call it after changing it.
void futex_wake(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace ripc::internal
