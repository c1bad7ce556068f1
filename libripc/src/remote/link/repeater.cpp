// SPDX-License-Identifier: Apache-2.0
#include "remote/link/repeater.hpp"

#include <utility>
#include <vector>

namespace ripc::remote {

namespace {

// Between two looks at the transfers that nobody has asked for.
constexpr Nanoseconds kLook = 50'000'000;

}  // namespace

void Repeater::start(std::weak_ptr<void> owner) {
  timer_.make(loop_, [this, owner = std::move(owner)] {
    if (const std::shared_ptr<void> alive = owner.lock()) repeat_what_is_due();
  });
}

void Repeater::told(std::uint64_t transfer, spi::Gather packet) noexcept {
  if (transfers_.told(transfer, packet)) watch();
}

void Repeater::watch() noexcept {
  if (watching_.load(std::memory_order_relaxed) || watching_.exchange(true, std::memory_order_acq_rel)) return;
  timer_.set(monotonic_now() + kLook);
}

void Repeater::repeat_what_is_due() {
  // What is told from now on starts the watch again.
  watching_.store(false, std::memory_order_release);
  std::vector<ExposureTable::Unheard> due;
  if (transfers_.find_unheard(monotonic_now(), due)) watch();
  for (const ExposureTable::Unheard& unheard : due) {
    if (!stopped_.load(std::memory_order_acquire)) hooks_.repeat(unheard.owner, unheard.packet);
  }
}

}  // namespace ripc::remote
