// SPDX-License-Identifier: Apache-2.0
// Whether a service is still open, and how to wake the threads that wait in its calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/event_loop.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::core {

// Any thread.
class ServiceLife {
 public:
  explicit ServiceLife(EventSet events) noexcept : events_(std::move(events)) {}

  // RIPC_OK, RIPC_FENCED or RIPC_CLOSED. After the latter two, every call returns that status.
  ripc_status status() const noexcept { return static_cast<ripc_status>(status_.load(std::memory_order_relaxed)); }
  // False: it was fenced or closed before.
  bool fence() noexcept {
    int open = RIPC_OK;
    return status_.compare_exchange_strong(open, RIPC_FENCED, std::memory_order_acq_rel);
  }
  // True if it was fenced before.
  bool close() noexcept { return status_.exchange(RIPC_CLOSED, std::memory_order_acq_rel) == RIPC_FENCED; }

  // Async-signal-safe. Ends one waiting call, or the next one that would wait.
  void interrupt() noexcept {
    signals_.fetch_or(kInterrupt, std::memory_order_release);
    events_.wake_anyone();
  }
  bool take_interrupt() noexcept { return take(kInterrupt); }
  // Ends the waiting receive, or the next one that would wait, as if its time were over. Consumes no interrupt.
  void end_wait() noexcept {
    signals_.fetch_or(kEndWait, std::memory_order_release);
    events_.wake();
  }
  bool take_end_wait() noexcept { return take(kEndWait); }
  bool is_signalled() const noexcept { return signals_.load(std::memory_order_acquire) != 0; }

  EventSet& events() noexcept { return events_; }
  // Returns the descriptor that the application polls. From now on, events that no call waits for also make it
  // readable.
  int use_fd() noexcept {
    uses_fd_.store(true, std::memory_order_relaxed);
    return events_.fd();
  }
  bool uses_fd() const noexcept { return uses_fd_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint8_t kInterrupt = 1;
  static constexpr std::uint8_t kEndWait = 2;
  bool take(std::uint8_t which) noexcept {
    if ((signals_.load(std::memory_order_relaxed) & which) == 0) return false;
    return (signals_.fetch_and(static_cast<std::uint8_t>(~which), std::memory_order_acq_rel) & which) != 0;
  }

  std::atomic<int> status_{RIPC_OK};
  std::atomic<std::uint8_t> signals_{0};
  std::atomic<bool> uses_fd_{false};
  EventSet events_;
};

}  // namespace ripc::internal::core
