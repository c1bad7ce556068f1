// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/announcer.hpp"

#include <utility>
#include <vector>

namespace ripc::internal::remote {

namespace {

// The pause between two looks at the transfers that the peer has not asked for.
constexpr Nanoseconds kLook = 50'000'000;

}  // namespace

void Announcer::start(EventLoop& loop, std::weak_ptr<void> owner) {
  timer_.make(loop, [this, owner = std::move(owner)] {
    if (const std::shared_ptr<void> alive = owner.lock()) repeat_what_is_due();
  });
}

void Announcer::announced(std::uint64_t transfer, spi::Gather packet) noexcept {
  if (transfers_.announced(transfer, packet)) watch();
}

void Announcer::watch() noexcept {
  if (watching_.load(std::memory_order_relaxed) || watching_.exchange(true, std::memory_order_acq_rel)) return;
  timer_.set(monotonic_now() + kLook);
}

void Announcer::repeat_what_is_due() {
  // An announcement from now on starts the watch again.
  watching_.store(false, std::memory_order_release);
  std::vector<ExposureTable::Unrequested> due;
  if (transfers_.find_unrequested(monotonic_now(), due)) watch();
  for (const ExposureTable::Unrequested& announcement : due) {
    if (!stopped_.load(std::memory_order_acquire)) repeat_(announcement.owner, announcement.packet);
  }
}

}  // namespace ripc::internal::remote
