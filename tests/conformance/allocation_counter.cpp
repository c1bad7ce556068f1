// SPDX-License-Identifier: Apache-2.0
#include "allocation_counter.hpp"

#include <errno.h>
#include <stddef.h>

#include <atomic>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CONFORMANCE_COUNTS_ALLOCATIONS 0
#else
#define CONFORMANCE_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<std::uint64_t> allocations{0};
std::atomic<std::uint64_t> allocations_there{0};
thread_local bool is_counted = false;

[[maybe_unused]] void note_allocation() {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (is_counted) allocations_there.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

namespace conformance {
bool can_count_allocations() { return CONFORMANCE_COUNTS_ALLOCATIONS != 0; }
std::uint64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }
void count_allocations_here() { is_counted = true; }
std::uint64_t allocation_count_there() { return allocations_there.load(std::memory_order_relaxed); }
}  // namespace conformance

#if CONFORMANCE_COUNTS_ALLOCATIONS

// The shared library must see these, whatever visibility the executable is compiled with.
#pragma GCC visibility push(default)
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* data, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  note_allocation();
  return __libc_malloc(size);
}

void* calloc(size_t nmemb, size_t size) {
  note_allocation();
  return __libc_calloc(nmemb, size);
}

void* realloc(void* ptr, size_t size) {
  note_allocation();
  return __libc_realloc(ptr, size);
}

void* memalign(size_t alignment, size_t size) {
  note_allocation();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** memptr, size_t alignment, size_t size) {
  void* result = memalign(alignment, size);
  if (result == nullptr) return ENOMEM;
  *memptr = result;
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop

#endif
