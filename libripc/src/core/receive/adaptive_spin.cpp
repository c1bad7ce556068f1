// SPDX-License-Identifier: Apache-2.0
#include "core/receive/adaptive_spin.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/unique_fd.hpp"

namespace ripc::internal::core {

namespace {

// The time that the thread has waited since it began. The kernel writes first the time that it has run, then this.
Nanoseconds time_waited() noexcept {
  const UniqueFd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : 0;
  const char* const end = text.data() + std::max<ssize_t>(size, 0);
  const char* const second = std::find(static_cast<const char*>(text.data()), end, ' ');
  Nanoseconds waited = 0;
  if (second != end) (void)std::from_chars(second + 1, end, waited);
  return waited;
}

}  // namespace

unsigned percent_waited(Nanoseconds now) noexcept {
  static thread_local Nanoseconds asked = 0;
  static thread_local Nanoseconds before = 0;
  const Nanoseconds waited = time_waited();
  if (waited < before) return 0;  // it could not be read
  const Nanoseconds percent = 100 * (waited - before) / std::max<Nanoseconds>(now - asked, 1);
  asked = now;
  before = waited;
  return static_cast<unsigned>(std::min<Nanoseconds>(percent, 100));
}

}  // namespace ripc::internal::core
