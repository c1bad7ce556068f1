// SPDX-License-Identifier: Apache-2.0
// Random numbers from the kernel: unguessable, for IDs and handles.
#pragma once

#include <cstdint>

namespace ripc::internal {

// Any thread. Never fails: if need be, it waits for the kernel's pool. Reads several numbers at a time for each thread.
// Each number is given out once, by one process, and then forgotten.
std::uint64_t random_u64() noexcept;

}  // namespace ripc::internal
