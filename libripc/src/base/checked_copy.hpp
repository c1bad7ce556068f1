// SPDX-License-Identifier: Apache-2.0
// Copies between this library's memory and memory of the application that may be unmapped at any time. The kernel
// copies and says how far it got, where a copy in user space would end the process.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/shared_memory.hpp"

namespace ripc::internal {

// One thread at a time.
class CheckedCopy {
 public:
  // Own memory that takes two thirds of the time: it is a file, which the kernel copies to and from without looking up
  // foreign pages first. Made on first use, or not at all, and always as large as then. Null: there is none now. A
  // forked child shares it, and has no use for it: handles are of one process.
  std::byte* scratch(std::size_t size) noexcept;

  // The bytes copied: less than `size` if memory is missing. Own memory may lie anywhere. Where the kernel does not
  // copy (a seccomp filter may forbid it), they are copied without a check.
  std::size_t read(std::byte* to, const std::byte* foreign, std::size_t size) const noexcept;
  std::size_t write(std::byte* foreign, const std::byte* from, std::size_t size) const noexcept;

 private:
  std::size_t copy(std::byte* own, std::byte* foreign, std::size_t size, bool writing) const noexcept;
  // Where `own` is in the scratch; negative: elsewhere.
  off_t place_of(const std::byte* own, std::size_t size) const noexcept;

  SharedMemory scratch_;
  bool was_tried_ = false;
};

}  // namespace ripc::internal
