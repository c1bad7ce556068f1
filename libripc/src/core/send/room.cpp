// SPDX-License-Identifier: Apache-2.0
#include "core/send/room.hpp"

#include <algorithm>

#include "base/loop_wait.hpp"

namespace ripc::internal::core {

namespace {

// The pause between two looks at a full queue: each look takes a cache line away from the receiver.
constexpr int kRoomPauses = 16;

}  // namespace

Status Room::wait(ripc_service_id to, Deadline deadline) {
  const Nanoseconds spin_until = monotonic_now() + spin_;
  const Resolve resolve = deadline.at() == 0 ? Resolve::no : Resolve::yes;
  for (;;) {
    if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);
    Result<bool> room = is_at(to, false, resolve);
    if (!room.ok()) return room.status();
    if (life_.take_interrupt()) return RIPC_INTERRUPTED;
    if (*room) return {};
    if (deadline.expired()) return RIPC_TIMEOUT;
    if (monotonic_now() < spin_until) {
      for (int pause = 0; pause < kRoomPauses; ++pause) cpu_pause();
      continue;
    }
    room = is_at(to, true, resolve);
    if (!room.ok()) return room.status();
    if (*room) return {};
    // Nobody reports each member that joins a group.
    const Deadline refresh = is_group(to) ? Deadline::after(groups_.refresh()) : Deadline::never();
    if (sleep(seen, Deadline(std::min(deadline.at(), refresh.at()))) == RIPC_INTERRUPTED) return RIPC_INTERRUPTED;
  }
}

// Whether a message may find room; `request`: if not, changed() will be called. Without a search for the peer, it may
// also be gone: the next send reports that.
Result<bool> Room::is_at(ripc_service_id to, bool request, Resolve resolve) {
  if (is_group(to)) return groups_.has_room(to, request);
  for (;;) {
    Result<std::shared_ptr<spi::Channel>> channel = paths_.known_channel(to);
    if (*channel == nullptr) {
      if (resolve == Resolve::no) return true;
      channel = paths_.channel_to(to, resolutions_);
      if (!channel.ok()) return channel.status();
    }
    const bool room = (*channel)->has_room(request);
    // A peer that has gone meanwhile also counts as having room: then look for its successor.
    if (!room || resolve == Resolve::no || (*channel)->alive()) return room;
  }
}

// Sleeps until changes_ differs from `seen`, the deadline has passed or a signal has come.
ripc_status Room::sleep(std::uint32_t seen, Deadline deadline) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const ripc_status status = wait_for_change(loop_, changes_, seen, deadline);
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return status;
}

// Also called in signal handlers.
void Room::wake_waiters() noexcept {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  futex_wake(changes_);
  loop_.wake();
}

Status Room::request_event(ripc_service_id to) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  const Result<bool> room = is_at(to, true, Resolve::no);
  if (!room.ok()) return room.status();
  if (*room) life_.events().wake();
  return {};
}

void Room::changed() noexcept {
  wake_waiters();
  if (life_.uses_fd()) life_.events().wake();
}

}  // namespace ripc::internal::core
