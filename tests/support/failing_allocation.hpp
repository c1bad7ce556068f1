// SPDX-License-Identifier: Apache-2.0
// Makes memory scarce in an executable, of which one source file must include failing_new.hpp. malloc() is not
// affected: the C library cannot work without it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace support {

// While the object lives, allocations by operator new fail. Only one at a time; the thread that made it destroys it.
class FailingAllocation {
 public:
  enum class Where {
    here,       // in the thread that made it
    elsewhere,  // in all others
  };
  enum class Count {
    one,   // the nth only
    rest,  // the nth and all that follow
  };
  explicit FailingAllocation(std::uint64_t nth, Where where = Where::here, Count count = Count::one);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  // Whether an allocation has failed.
  bool failed() const;
};

namespace failing {

enum class Mode { off, here, elsewhere };
inline std::atomic<Mode> mode{Mode::off};
inline std::atomic<bool> all_that_follow{false};
inline std::atomic<std::uint64_t> nth_allocation{0};
inline std::atomic<std::uint64_t> seen{0};
// Constant-initialised and without a destructor: any allocation may read it.
inline constinit thread_local bool is_maker = false;

inline bool must_fail() {
  const Mode now = mode.load(std::memory_order_acquire);
  if (now == Mode::off || is_maker != (now == Mode::here)) return false;
  const std::uint64_t number = seen.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t nth = nth_allocation.load(std::memory_order_relaxed);
  return number == nth || (number > nth && all_that_follow.load(std::memory_order_relaxed));
}

inline void* allocate(std::size_t size, std::size_t alignment = 0) {
  if (must_fail()) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

inline void* allocate_or_throw(std::size_t size, std::size_t alignment = 0) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace failing

inline FailingAllocation::FailingAllocation(std::uint64_t nth, Where where, Count count) {
  failing::is_maker = true;
  failing::nth_allocation = nth;
  failing::all_that_follow = count == Count::rest;
  failing::seen = 0;
  failing::mode.store(where == Where::here ? failing::Mode::here : failing::Mode::elsewhere, std::memory_order_release);
}

inline FailingAllocation::~FailingAllocation() {
  failing::mode = failing::Mode::off;
  failing::is_maker = false;
}

inline bool FailingAllocation::failed() const { return failing::seen >= failing::nth_allocation; }

}  // namespace support
