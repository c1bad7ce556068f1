// SPDX-License-Identifier: Apache-2.0
#include "base/biased_mutex.hpp"

#include "base/spin_wait.hpp"

namespace ripc::internal {

constinit const ThreadEpoch::Record BiasedMutex::kNoOwner{};

void BiasedMutex::adopt_first() noexcept {
  // Without a barrier in other threads the owner would need a fence, which is no better than a locked instruction.
  const ThreadEpoch::Record* owner = ThreadEpoch::has_barrier() ? &ThreadEpoch::current() : &kNoOwner;
  const std::lock_guard lock(*this);
  if (owner_.load(std::memory_order_relaxed) == nullptr) owner_.store(owner, std::memory_order_relaxed);
}

void BiasedMutex::lock_as_visitor() noexcept {
  mutex_.lock();
  const ThreadEpoch::Record* const owner = owner_.load(std::memory_order_relaxed);
  const bool is_shared = owner == nullptr || owner == &kNoOwner;
  if (!is_shared) {
    claimed_.store(true, std::memory_order_relaxed);
    ThreadEpoch::barrier();
    for (unsigned round = 0; busy_.load(std::memory_order_acquire); ++round) spin_wait(round);
    if (++visits_ > kFreeVisits + locked_ / kLocksPerVisit) owner_.store(&kNoOwner, std::memory_order_relaxed);
  }
  is_biased_ = false;
}

// Called by the owner, while a visitor holds the lock or the bias is over.
void BiasedMutex::lock_claimed() noexcept {
  busy_.store(false, std::memory_order_release);
  mutex_.lock();
  is_biased_ = false;
}

void BiasedMutex::unlock_mutex() noexcept {
  // If the bias is over, the mutex stays claimed, because the former owner may be about to look.
  if (owner_.load(std::memory_order_relaxed) != &kNoOwner) claimed_.store(false, std::memory_order_release);
  mutex_.unlock();
}

}  // namespace ripc::internal
