// SPDX-License-Identifier: Apache-2.0
#include "base/futex.hpp"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace ripc::internal {

namespace {
// After a handler with SA_RESTART the kernel restarts a wait without a timeout, but never a wait with one.
constexpr Nanoseconds kLongest = 86400 * Nanoseconds{1'000'000'000};
}  // namespace

ripc_status futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Deadline deadline) noexcept {
  const Nanoseconds left = deadline.remaining();
  const Nanoseconds time = std::min(left, kLongest);
  const timespec timeout = to_timespec(time);
  if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0) == 0) return RIPC_OK;
  if (errno == EINTR) return RIPC_INTERRUPTED;
  return errno == ETIMEDOUT && time == left ? RIPC_TIMEOUT : RIPC_OK;
}

void futex_wake(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ripc::internal
