// SPDX-License-Identifier: Apache-2.0
#include "base/process_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace ripc::internal {

bool register_process_barrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

bool process_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

}  // namespace ripc::internal
