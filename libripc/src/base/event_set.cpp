// SPDX-License-Identifier: Apache-2.0
#include "base/event_set.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/epoll.hpp"

namespace ripc::internal {

namespace {

// The most events that one call takes; if it takes that many, there may be more.
constexpr int kEventBatch = 64;
// Stored next to the descriptor in an event's data.
constexpr std::uint64_t kDoorbell = std::uint64_t{1} << 32;

}  // namespace

Result<EventSet> EventSet::create() {
  EventSet set;
  set.wake_ = std::make_shared<Wake>();
  Status status = create_epoll(set.epoll_);
  if (status.ok()) status = create_wake(set.wake_->fd);
  if (status.ok()) status = add_to_epoll(set.epoll_.get(), set.wake_->fd.get(), EPOLLIN | EPOLLET);
  if (!status.ok()) return status;
  return set;
}

Status EventSet::add(int fd, Kind kind) noexcept {
  if (kind == Kind::doorbell) wake_->has_doorbells.store(true, std::memory_order_relaxed);
  return add_to_epoll(epoll_.get(), fd, EPOLLIN | EPOLLET, kind == Kind::doorbell ? kDoorbell : 0);
}

void EventSet::remove(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EventSet::drain() const noexcept {
  while (take_events() == kEventBatch) {
  }
}

// A doorbell stays readable until it is emptied, and wakes its owner again.
ripc_status EventSet::sleep(Deadline deadline, Nanoseconds now, int other) const noexcept {
  const ripc_status status = sleep_on(epoll_.get(), deadline, now, other);
  if (status == RIPC_OK && wake_->has_doorbells.load(std::memory_order_relaxed)) drain();
  return status;
}

bool EventSet::forget_kept() const noexcept {
  if (wake_->has_doorbells.load(std::memory_order_relaxed)) return false;
  drain();
  return true;
}

int EventSet::take_events() const noexcept {
  std::array<epoll_event, kEventBatch> events;
  const int count = std::max(epoll_wait(epoll_.get(), events.data(), kEventBatch, 0), 0);
  // Clear it before the waiting thread looks: it then sees what was done before a ring that makes no event.
  (void)wake_->is_rung.exchange(false, std::memory_order_acq_rel);
  for (int index = 0; index < count; ++index) {
    const std::uint64_t data = events[static_cast<std::size_t>(index)].data.u64;
    if ((data & kDoorbell) == 0) continue;  // reporting the event is enough
    const int fd = static_cast<int>(static_cast<std::uint32_t>(data));
    // Empty it completely: a doorbell that stays full would accept no more rings and make no more edges.
    std::array<mmsghdr, 8> rings{};
    while (recvmmsg(fd, rings.data(), rings.size(), MSG_DONTWAIT, nullptr) == static_cast<int>(rings.size())) {
    }
  }
  return count;
}

}  // namespace ripc::internal
