// SPDX-License-Identifier: Apache-2.0
// An asymmetric memory barrier between processes (membarrier(2), global expedited). The rare side of a
// store-then-load handshake pays for both: the frequent side then needs no fence instruction.
#pragma once

namespace ripc::internal {

// Makes barriers of other processes reach this one. False where the kernel has no membarrier: this process must then
// execute its own fence on the frequent side.
bool register_process_barrier() noexcept;

// Orders all memory accesses before and after it in every registered process, whose processors it interrupts. False if
// the kernel cannot.
bool process_barrier() noexcept;

}  // namespace ripc::internal
