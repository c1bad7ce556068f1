// SPDX-License-Identifier: Apache-2.0
// Copies between this library's memory and memory of the application that may be unmapped at any time. The kernel does
// the copying and says how far it got; a copy in user space would end the process.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/shared_memory.hpp"

namespace ripc::internal {

// One thread at a time.
class CheckedCopy {
 public:
  // A buffer of this process that takes two thirds of the time to copy to or from. It is a file, so the kernel need not
  // look up foreign pages first. The first call makes it, and its size never changes; if that fails, later calls do not
  // try again. Null: it cannot be used now. A forked child shares it but has no use for it, because handles belong to
  // one process.
  std::byte* scratch(std::size_t size) noexcept;

  // Return how many bytes were copied: less than `size` if memory is missing. This process's memory may lie anywhere.
  // Where the kernel does not copy (a seccomp filter may forbid it), the bytes are copied without a check.
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
