// SPDX-License-Identifier: Apache-2.0
// Lets the one thread that usually changes a word change it without a locked instruction.
//
// The first thread that asks has the bias: between enter() and leave() it may change the word by plain loads and
// stores. All other threads call share() before a locked instruction on the word; that ends the bias for good. After
// Russell and Detlefs, "Eliminating Synchronization-Related Atomic Operations with Biased Locking and Bulk Rebiasing"
// (OOPSLA 2006), without the lock. Once the bias is over, the word is changed by compare-and-swap.
#pragma once

#include <atomic>

#include "base/thread_epoch.hpp"

namespace ripc::internal {

class ThreadBias {
 public:
  // True: only the calling thread changes the word until leave(), which must follow soon and in the same thread. False:
  // the thread does not have the bias. Never blocks; not for signal handlers.
  bool enter() noexcept {
    if (!ThreadEpoch::has_current()) [[unlikely]]
      return false;
    const ThreadEpoch::Record* thread = &ThreadEpoch::current();
    if (owner_.load(std::memory_order_relaxed) != thread) [[unlikely]]
      return enter_first(thread);
    busy_.store(true, std::memory_order_relaxed);
    // The thread that ends the bias runs a barrier in this thread between its store to owner_ and its look at busy_.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_relaxed) == thread) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept { busy_.store(false, std::memory_order_release); }

  // When it returns, no thread changes the word by plain stores any more, except the calling thread if it has the bias.
  // So a locked instruction is safe. The call that ends the bias waits for a few instructions of its owner.
  void share() noexcept {
    const ThreadEpoch::Record* owner = owner_.load(std::memory_order_acquire);
    if (owner != &kShared && !(ThreadEpoch::has_current() && owner == &ThreadEpoch::current())) [[unlikely]]
      end_bias(owner);
  }

 private:
  // These replace an owner. They belong to no thread.
  static const ThreadEpoch::Record kShared, kEnding;

  [[gnu::noinline]] bool enter_first(const ThreadEpoch::Record* thread) noexcept;
  [[gnu::noinline]] void end_bias(const ThreadEpoch::Record* owner) noexcept;

  std::atomic<const ThreadEpoch::Record*> owner_{nullptr};  // nullptr: no one has asked yet
  std::atomic<bool> busy_{false};                           // written by the owner
};

}  // namespace ripc::internal
