// SPDX-License-Identifier: Apache-2.0
// An asymmetric memory barrier between processes (membarrier(2), global expedited). The rare side of a store-then-load
// handshake pays for both sides, so that the frequent side needs no fence instruction.
#pragma once

namespace ripc::internal {

// Lets barriers of other processes reach this one. False where the kernel has no membarrier: then this process must
// execute its own fence on the frequent side.
bool register_process_barrier() noexcept;

// Orders all memory accesses before and after it in every registered process; it interrupts the processors they run on.
// False if the kernel cannot do so.
bool process_barrier() noexcept;

}  // namespace ripc::internal
