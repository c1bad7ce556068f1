// SPDX-License-Identifier: Apache-2.0
#include "network/dialling.hpp"

namespace ripc::network {

void Dialling::ask(const std::weak_ptr<void>& owner, Nanoseconds pause) const noexcept {
  const auto dial = [this, owner] {
    const std::shared_ptr<void> alive = owner.lock();
    if (alive && !dead_.load(std::memory_order_acquire)) hooks_.dial();
  };
  if (pause == 0) {
    loop_.post(dial);
  } else {
    (void)loop_.add_timer(monotonic_now() + pause, dial);
  }
}

}  // namespace ripc::network
