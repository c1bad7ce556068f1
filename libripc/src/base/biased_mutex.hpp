// SPDX-License-Identifier: Apache-2.0
// A mutex that costs its usual thread no locked instruction.
//
// One thread has the bias: it locks by plain stores. Any other thread runs a barrier in all threads first (membarrier),
// which costs microseconds; so the bias ends for good once others lock more often than now and then. The idea is that
// of Russell and Detlefs, "Eliminating Synchronization-Related Atomic Operations with Biased Locking and Bulk
// Rebiasing" (OOPSLA 2006). What std::mutex costs a call instead: docs/performance/calls.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/thread_epoch.hpp"

namespace ripc::internal {

// Lockable, and not recursive. One thread locks and unlocks.
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
  // Visits that are free, and how often the owner locks for each one more.
  static constexpr std::uint64_t kFreeVisits = 16;
  static constexpr std::uint64_t kLocksPerVisit = 4096;
  // In the place of an owner, for good. No thread's.
  static const ThreadEpoch::Record kNoOwner;

  [[gnu::noinline]] void adopt_first() noexcept;
  [[gnu::noinline]] void lock_as_visitor() noexcept;
  [[gnu::noinline]] void lock_claimed() noexcept;
  [[gnu::noinline]] void unlock_mutex() noexcept;

  std::atomic<const ThreadEpoch::Record*> owner_{nullptr};  // nullptr: no one has asked yet
  std::atomic<bool> busy_{false};                           // the owner is in by its bias, or about to be
  std::atomic<bool> claimed_{false};                        // a visitor is in, or about to be
  // Of the thread that has locked it.
  bool is_biased_ = false;
  std::uint64_t locked_ = 0;  // by the bias
  std::uint64_t visits_ = 0;
  std::mutex mutex_;
};

}  // namespace ripc::internal
