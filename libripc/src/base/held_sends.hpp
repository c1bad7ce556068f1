// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/thread_epoch.hpp"

namespace ripc::internal {

// What a thread has sent, and a transport holds so that it can share a system call with more. The thread lets it go
// before it waits. The transport has a timer for threads that do something else.
class HeldSends {
 public:
  // Any thread.
  virtual void let_go() noexcept = 0;

  // The calling thread has sent to it. Without memory for this, only the timer remains.
  static void add(std::weak_ptr<HeldSends> held) noexcept;
  // Lets everything go that the calling thread has sent.
  static void let_all_go() noexcept {
    if (ThreadEpoch::Record& record = ThreadEpoch::current(); !record.held.empty()) let_go_of(record);
  }

 protected:
  ~HeldSends() = default;

 private:
  static void let_go_of(ThreadEpoch::Record& record) noexcept;
};

}  // namespace ripc::internal
