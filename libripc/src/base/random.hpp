// SPDX-License-Identifier: Apache-2.0
// Random numbers from the kernel: unguessable, for IDs and handles.
#pragma once

#include <cstdint>

namespace ripc {

// Never fails: falls back on waiting for the kernel's pool.
std::uint64_t random_u64() noexcept;

}  // namespace ripc
