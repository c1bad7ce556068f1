// SPDX-License-Identifier: Apache-2.0
// Counters for statistics.
#pragma once

#include <atomic>
#include <cstdint>

namespace ripc::internal::core {

using Counter = std::atomic<std::uint64_t>;

// One writer: no need for a locked instruction.
inline void increase(Counter& counter, std::uint64_t by = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
// Many writers.
inline void add(Counter& counter, std::uint64_t by = 1) noexcept { counter.fetch_add(by, std::memory_order_relaxed); }

inline std::uint64_t value(const Counter& counter) noexcept { return counter.load(std::memory_order_relaxed); }

}  // namespace ripc::internal::core
