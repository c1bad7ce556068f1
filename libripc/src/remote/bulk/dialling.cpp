// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/dialling.hpp"

namespace ripc::remote {

void Dialling::start(std::weak_ptr<void> owner) {
  timer_.make(loop_, [this, owner = std::move(owner)] {
    const std::shared_ptr<void> alive = owner.lock();
    if (alive && !dead_.load(std::memory_order_acquire)) hooks_.dial();
  });
}

void Dialling::ask(Nanoseconds pause) noexcept {
  timer_.set(pause == 0 ? StandingTimer::kNow : monotonic_now() + pause);
}

}  // namespace ripc::remote
