// SPDX-License-Identifier: Apache-2.0
// When messages came that are received together.
#pragma once

#include "base/clock.hpp"
#include "rpc/messenger.hpp"

namespace ripc::internal::rpc {

// Most messages do without the exact time, which costs as much as a tenth of a call over shared memory.
class Arrival {
 public:
  // `about`: the clock a moment before they came.
  Arrival(const Messenger& messenger, Nanoseconds about) noexcept : messenger_(messenger), about_(about) {}

  Nanoseconds about() const noexcept { return about_; }
  // Of all of them, when it is asked for first.
  Nanoseconds exactly() noexcept { return exact_ != 0 ? exact_ : exact_ = messenger_.now(); }

 private:
  const Messenger& messenger_;
  const Nanoseconds about_;
  Nanoseconds exact_ = 0;
};

}  // namespace ripc::internal::rpc
