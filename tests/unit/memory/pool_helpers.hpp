// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the pool.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "memory/pool.hpp"

namespace ripc::internal::memory {

inline constexpr std::size_t kMebi = std::size_t{1} << 20;
inline constexpr std::size_t kKibi = std::size_t{1} << 10;

inline ripc_pool_statistics statistics_of(const Pool& pool) {
  ripc_pool_statistics statistics{};
  pool.fill_statistics(statistics);
  return statistics;
}

// Leases memory. If that fails, the expectation fails and the result is null.
inline std::byte* must_lease(Pool& pool, std::size_t size) {
  Result<std::byte*> data = pool.lease(size);
  EXPECT_TRUE(data.ok()) << size << " bytes: " << data.status().text();
  return data.ok() ? *data : nullptr;
}

inline Hold must_hold(Pool& pool, const void* data, std::size_t size) {
  Result<Hold> hold = pool.hold(data, size);
  EXPECT_TRUE(hold.ok()) << hold.status().text();
  return hold.ok() ? std::move(hold).value() : Hold();
}

inline bool is_aligned(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

}  // namespace ripc::internal::memory
