// SPDX-License-Identifier: Apache-2.0
#include "base/process_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace ripc::internal {

namespace {

std::atomic<std::uint64_t> barriers{0};

}  // namespace

bool register_process_barrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

bool process_barrier() noexcept {
  barriers.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

std::uint64_t process_barriers() noexcept { return barriers.load(std::memory_order_relaxed); }

}  // namespace ripc::internal
