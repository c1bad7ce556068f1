// SPDX-License-Identifier: Apache-2.0
// Random numbers from the kernel: unguessable, for IDs and handles.
#pragma once

#include <cstdint>

namespace ripc::internal {

// Any thread. Never fails: falls back on waiting for the kernel's pool. Reads some numbers at a time for each thread;
// each is given out once, by one process, and then forgotten.
std::uint64_t random_u64() noexcept;

}  // namespace ripc::internal
