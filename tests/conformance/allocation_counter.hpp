// SPDX-License-Identifier: Apache-2.0
// Counts the heap allocations of the whole process, including the library's: the executable's malloc replaces that of
// the C library.
#pragma once

#include <cstdint>

namespace conformance {

// False under a sanitizer, which has its own malloc.
bool can_count_allocations();
// Calls of malloc, calloc, realloc and the aligned ones since the process started, in all threads.
std::uint64_t allocation_count();
// The same, but only for threads that have called count_allocations_here(), since they called it. This excludes what a
// context does by itself now and then, such as heartbeats.
void count_allocations_here();
std::uint64_t allocation_count_there();

}  // namespace conformance
