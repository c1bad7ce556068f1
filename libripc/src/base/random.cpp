// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace ripc {
namespace {

constexpr int kRetryMilliseconds = 10;

bool read_urandom(std::uint64_t& value) noexcept {
  const UniqueFd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  return device && ::read(device.get(), &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

}  // namespace

std::uint64_t random_u64() noexcept {
  std::uint64_t value = 0;
  for (;;) {
    // Blocks until the kernel's pool is ready, then never again; a signal can only interrupt it before that.
    if (::getrandom(&value, sizeof value, 0) == static_cast<ssize_t>(sizeof value)) return value;
    // A sandbox may forbid the call but leave the device.
    if (read_urandom(value)) return value;
    // Anything else would be guessable.
    ::poll(nullptr, 0, kRetryMilliseconds);
  }
}

}  // namespace ripc
