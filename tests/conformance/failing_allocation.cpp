// SPDX-License-Identifier: Apache-2.0
#include "failing_allocation.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

enum class Mode { off, here, elsewhere };
std::atomic<Mode> mode{Mode::off};
std::atomic<bool> all_that_follow{false};
std::atomic<std::uint64_t> nth_allocation{0};
std::atomic<std::uint64_t> seen{0};
// Constant-initialised and without a destructor: it may be asked for from inside any allocation.
constinit thread_local bool is_maker = false;

bool must_fail() {
  const Mode now = mode.load(std::memory_order_acquire);
  if (now == Mode::off || is_maker != (now == Mode::here)) return false;
  const std::uint64_t number = seen.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t nth = nth_allocation.load(std::memory_order_relaxed);
  return number == nth || (number > nth && all_that_follow.load(std::memory_order_relaxed));
}

void* allocate(std::size_t size, std::size_t alignment = 0) {
  if (must_fail()) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 0) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace conformance {

FailingAllocation::FailingAllocation(std::uint64_t nth, Where where, Count count) {
  is_maker = true;
  nth_allocation = nth;
  all_that_follow = count == Count::rest;
  seen = 0;
  mode.store(where == Where::here ? Mode::here : Mode::elsewhere, std::memory_order_release);
}

FailingAllocation::~FailingAllocation() {
  mode = Mode::off;
  is_maker = false;
}

bool FailingAllocation::failed() const { return seen >= nth_allocation; }

}  // namespace conformance

// The shared library must see these, whatever visibility the executable is compiled with.
#pragma GCC visibility push(default)
void* operator new(std::size_t size) { return allocate_or_throw(size); }
void* operator new[](std::size_t size) { return allocate_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
#pragma GCC visibility pop
