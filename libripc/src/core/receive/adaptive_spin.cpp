// SPDX-License-Identifier: Apache-2.0
#include "core/receive/adaptive_spin.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "base/unique_fd.hpp"

namespace ripc::internal::core {

namespace {

// Since the thread began.
struct ProcessorWaits {
  std::uint64_t nanoseconds = 0;
  std::uint64_t times = 0;
};

// The kernel writes the time that the thread has run, the time that it waited, and how often it has run.
ProcessorWaits processor_waits() noexcept {
  const UniqueFd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : 0;
  const char* const end = text.data() + std::max<ssize_t>(size, 0);
  std::array<std::uint64_t, 3> numbers{};
  const char* next = text.data();
  for (std::uint64_t& number : numbers) {
    const auto [after, error] = std::from_chars(next, end, number);
    if (error != std::errc()) return {};
    next = std::min(after + 1, end);
  }
  return {numbers[1], numbers[2]};
}

}  // namespace

Nanoseconds mean_processor_wait() noexcept {
  static thread_local ProcessorWaits before;
  const ProcessorWaits now = processor_waits();
  const std::uint64_t times = now.times - before.times;
  const Nanoseconds waited = now.nanoseconds - before.nanoseconds;
  before = now;
  return times == 0 ? 0 : waited / times;
}

}  // namespace ripc::internal::core
