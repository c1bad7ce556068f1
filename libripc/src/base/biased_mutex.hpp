// SPDX-License-Identifier: Apache-2.0
// A mutex that costs its usual thread no locked instruction.
//
// One thread has the bias: it locks by plain stores. Any other thread runs a barrier in all threads first (membarrier),
// which costs microseconds. So the bias ends for good once other threads lock more than occasionally. The idea comes
// from Russell and Detlefs, "Eliminating Synchronization-Related Atomic Operations with Biased Locking and Bulk
// Rebiasing" (OOPSLA 2006). docs/performance/calls.md says what std::mutex would cost a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/thread_epoch.hpp"

namespace ripc::internal {

// Lockable, and not recursive. The thread that locks it also unlocks it.
class BiasedMutex {
 public:
  // Gives the bias to the calling thread, if no thread has had it yet.
  void adopt() noexcept {
    if (owner_.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
      adopt_first();
  }

  void lock() noexcept {
    if (!ThreadEpoch::has_current() || owner_.load(std::memory_order_relaxed) != &ThreadEpoch::current())
      return lock_as_visitor();
    busy_.store(true, std::memory_order_relaxed);
    // A visitor runs a barrier in this thread between its store to claimed_ and its look at busy_.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (claimed_.load(std::memory_order_acquire)) [[unlikely]]
      return lock_claimed();
    is_biased_ = true;
    ++locked_;
  }
  void unlock() noexcept {
    if (is_biased_) [[likely]] {
      busy_.store(false, std::memory_order_release);
    } else {
      unlock_mutex();
    }
  }

 private:
  // The number of free visits, and how often the owner must lock for each visit beyond them.
  static constexpr std::uint64_t kFreeVisits = 16;
  static constexpr std::uint64_t kLocksPerVisit = 4096;
  // Replaces the owner for good. Belongs to no thread.
  static const ThreadEpoch::Record kNoOwner;

  [[gnu::noinline]] void adopt_first() noexcept;
  [[gnu::noinline]] void lock_as_visitor() noexcept;
  [[gnu::noinline]] void lock_claimed() noexcept;
  [[gnu::noinline]] void unlock_mutex() noexcept;

  std::atomic<const ThreadEpoch::Record*> owner_{nullptr};  // nullptr: no one has asked yet
  std::atomic<bool> busy_{false};                           // the owner holds the lock by its bias, or is about to
  std::atomic<bool> claimed_{false};                        // a visitor holds the lock, or is about to
  // These belong to the thread that holds the lock.
  bool is_biased_ = false;
  std::uint64_t locked_ = 0;  // how often, by the bias
  std::uint64_t visits_ = 0;
  std::mutex mutex_;
};

}  // namespace ripc::internal
