// SPDX-License-Identifier: Apache-2.0
// When a batch of messages received together arrived.
#pragma once

#include "base/clock.hpp"
#include "rpc/messenger.hpp"

namespace ripc::internal::rpc {

// Most messages do not need the exact time, which costs as much as a tenth of a call over shared memory.
class Arrival {
 public:
  // `about`: the clock just before they came.
  Arrival(const Messenger& messenger, Nanoseconds about) noexcept : messenger_(messenger), about_(about) {}

  Nanoseconds about() const noexcept { return about_; }
  // The exact time for the whole batch, read when it is first asked for.
  Nanoseconds exactly() noexcept { return exact_ != 0 ? exact_ : exact_ = messenger_.now(); }

 private:
  const Messenger& messenger_;
  const Nanoseconds about_;
  Nanoseconds exact_ = 0;
};

}  // namespace ripc::internal::rpc
