// SPDX-License-Identifier: Apache-2.0
// Whether a service still is one, and what wakes those who wait in its calls.
#pragma once

#include <atomic>
#include <utility>

#include "base/event_loop.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::core {

// Any thread.
class ServiceLife {
 public:
  explicit ServiceLife(EventSet events) noexcept : events_(std::move(events)) {}

  // RIPC_OK, RIPC_FENCED, RIPC_CLOSED: every call says so from then on.
  ripc_status status() const noexcept { return static_cast<ripc_status>(status_.load(std::memory_order_relaxed)); }
  // False: it was fenced or closed before.
  bool fence() noexcept {
    int open = RIPC_OK;
    return status_.compare_exchange_strong(open, RIPC_FENCED, std::memory_order_acq_rel);
  }
  // True if it was fenced before.
  bool close() noexcept { return status_.exchange(RIPC_CLOSED, std::memory_order_acq_rel) == RIPC_FENCED; }

  // Async-signal-safe. One call that waits, or the next one that would, ends.
  void interrupt() noexcept {
    interrupted_.store(true, std::memory_order_release);
    events_.wake();
  }
  bool is_interrupted() const noexcept { return interrupted_.load(std::memory_order_acquire); }
  bool take_interrupt() noexcept {
    return interrupted_.load(std::memory_order_relaxed) && interrupted_.exchange(false, std::memory_order_acq_rel);
  }

  EventSet& events() noexcept { return events_; }
  // The application polls it: from now on events that no call waits for make it readable, too.
  int use_fd() noexcept {
    uses_fd_.store(true, std::memory_order_relaxed);
    return events_.fd();
  }
  bool uses_fd() const noexcept { return uses_fd_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> status_{RIPC_OK};
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> uses_fd_{false};
  EventSet events_;
};

}  // namespace ripc::internal::core
