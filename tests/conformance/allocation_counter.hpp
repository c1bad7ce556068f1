// SPDX-License-Identifier: Apache-2.0
// Counts the heap allocations of the whole process, the library's included: the executable's malloc stands before that
// of the C library.
#pragma once

#include <cstdint>

namespace conformance {

// False under a sanitizer, which has its own malloc.
bool can_count_allocations();
// Calls of malloc, calloc, realloc and the aligned ones since the process started, in all threads.
std::uint64_t allocation_count();

}  // namespace conformance
