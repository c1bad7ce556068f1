// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/push_table.hpp"

#include "base/loop_wait.hpp"

namespace ripc::internal::remote {

void OutgoingPush::end(ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_pending()) return;
  status_.store(status, std::memory_order_release);
  ended_.notify_all();
}

ripc_status OutgoingPush::wait(EventLoop& loop, Nanoseconds patience) noexcept {
  std::uint64_t seen = progress_.load(std::memory_order_relaxed);
  while (is_pending()) {
    {
      std::unique_lock lock(mutex_);
      (void)wait_in(loop, lock, ended_, Deadline::after(patience), [&] { return !is_pending(); });
    }
    if (seen == progress_.load(std::memory_order_relaxed)) end(RIPC_UNSUPPORTED);
    seen = progress_.load(std::memory_order_relaxed);
  }
  // The thread that ended it may still hold the mutex, and no one may read the bytes after this returns.
  const std::lock_guard lock(mutex_);
  return status();
}

}  // namespace ripc::internal::remote
