// SPDX-License-Identifier: Apache-2.0
// Copies between this library's memory and memory of the application that may be unmapped at any time. The kernel
// copies and says how far it got, where a copy in user space would end the process.
#pragma once

#include <cstddef>

namespace ripc::internal {

// Any thread. The bytes copied: less than `size` if memory is missing. Where the kernel does not do it (a seccomp
// filter may forbid it), they are copied without a check.
std::size_t checked_read(std::byte* to, const std::byte* foreign, std::size_t size) noexcept;
std::size_t checked_write(std::byte* foreign, const std::byte* from, std::size_t size) noexcept;

}  // namespace ripc::internal
