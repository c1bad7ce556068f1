// SPDX-License-Identifier: Apache-2.0
#include "base/thread_bias.hpp"

#include "base/spin_wait.hpp"

namespace ripc::internal {

constinit const ThreadEpoch::Record ThreadBias::kShared{}, ThreadBias::kEnding{};

bool ThreadBias::enter_first(const ThreadEpoch::Record* thread) noexcept {
  const ThreadEpoch::Record* nobody = nullptr;
  // Without a barrier in other threads, the owner would need a fence, which is no better than a locked instruction.
  const ThreadEpoch::Record* owner = ThreadEpoch::has_barrier() ? thread : &kShared;
  return owner_.load(std::memory_order_relaxed) == nullptr &&
         owner_.compare_exchange_strong(nobody, owner, std::memory_order_acq_rel) && owner == thread && enter();
}

void ThreadBias::end_bias(const ThreadEpoch::Record* owner) noexcept {
  while (owner != &kEnding && owner != &kShared) {
    // If no thread has the bias yet, none may get it now.
    const ThreadEpoch::Record* next = owner == nullptr ? &kShared : &kEnding;
    if (!owner_.compare_exchange_strong(owner, next, std::memory_order_acq_rel)) continue;
    if (next == &kShared) return;
    ThreadEpoch::barrier();
    for (unsigned round = 0; busy_.load(std::memory_order_acquire); ++round) spin_wait(round);
    owner_.store(&kShared, std::memory_order_release);
    return;
  }
  // Another thread is about to end the bias.
  for (unsigned round = 0; owner_.load(std::memory_order_acquire) != &kShared; ++round) spin_wait(round);
}

}  // namespace ripc::internal
