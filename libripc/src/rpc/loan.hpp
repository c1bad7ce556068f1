// SPDX-License-Identifier: Apache-2.0
// LONG arguments of a caller that asks to be told when it has their memory back.
#pragma once

#include <atomic>

#include "ripc/ripc.h"

namespace ripc::internal::rpc {

// Held by the call and by every message with which it was sent: group calls may be sent to several members. The last
// holder to release it notifies the caller.
class Loan {
 public:
  Loan(ripc_ticket_callback ended, void* user) noexcept : ended_(ended), user_(user) {}

  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  // A ripc_ticket_callback, whose user is the loan.
  static void release(void* loan, ripc_status why) noexcept {
    auto* const self = static_cast<Loan*>(loan);
    if (self->holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    self->ended_(self->user_, why);
    delete self;
  }

 private:
  const ripc_ticket_callback ended_;
  void* const user_;
  std::atomic<unsigned> holders_{1};
};

}  // namespace ripc::internal::rpc
