// SPDX-License-Identifier: Apache-2.0
// Waiting until a peer that was full has room.
#include "base/loop_wait.hpp"
#include "core/service.hpp"

namespace ripc::core {

namespace {

// Between two looks at a full queue: each look takes a cache line away from the receiver.
constexpr int kRoomPauses = 16;

}  // namespace

Status Service::wait_room(ripc_service_id to, Deadline deadline) {
  const Nanoseconds spin_until = monotonic_now() + context_.spin();
  const Search search = deadline.expired() ? Search::no : Search::yes;
  for (;;) {
    if (const ripc_status status = usable(); status != RIPC_OK) return status;
    const std::uint32_t seen = room_changes_.load(std::memory_order_acquire);
    Result<bool> room = room_at(to, false, search);
    if (!room.ok()) return room.status();
    if (interrupted_.exchange(false, std::memory_order_acq_rel)) return RIPC_INTERRUPTED;
    if (*room) return {};
    if (deadline.expired()) return RIPC_TIMEOUT;
    if (monotonic_now() < spin_until) {
      for (int pause = 0; pause < kRoomPauses; ++pause) cpu_pause();
      continue;
    }
    room = room_at(to, true, search);
    if (!room.ok()) return room.status();
    if (*room) return {};
    if (sleep_for_room(seen, deadline) == RIPC_INTERRUPTED) return RIPC_INTERRUPTED;
  }
}

// Whether a message may find room; `request`: if not, room_changed() will be called. Without a search for the peer it
// may also be gone: the next send tells.
Result<bool> Service::room_at(ripc_service_id to, bool request, Search search) {
  if (is_group(to)) return group_room(to, request);
  for (;;) {
    Result<std::shared_ptr<spi::Channel>> channel = context_.known_channel(to);
    if (*channel == nullptr) {
      if (search == Search::no) return true;
      channel = context_.channel_to(to, counters_.resolutions);
      if (!channel.ok()) return channel.status();
    }
    const bool room = request ? (*channel)->request_room() : (*channel)->has_room();
    // A peer that has gone meanwhile has room, too: then another one is meant.
    if (!room || search == Search::no || (*channel)->alive()) return room;
  }
}

// Until room_changes_ is not `seen` any more, the deadline is over or a signal has come.
ripc_status Service::sleep_for_room(std::uint32_t seen, Deadline deadline) {
  room_waiters_.fetch_add(1, std::memory_order_seq_cst);
  const ripc_status status = wait_for_change(context_.loop(), room_changes_, seen, deadline);
  room_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return status;
}

// Also in signal handlers.
void Service::wake_room_waiters() noexcept {
  room_changes_.fetch_add(1, std::memory_order_seq_cst);
  if (room_waiters_.load(std::memory_order_seq_cst) == 0) return;
  futex_wake(room_changes_);
  context_.loop().wake();
}

Status Service::request_room_event(ripc_service_id to) {
  if (const ripc_status status = usable(); status != RIPC_OK) return status;
  const Result<bool> room = room_at(to, true, Search::no);
  if (!room.ok()) return room.status();
  if (*room) events_.wake();
  return {};
}

void Service::room_changed() noexcept {
  wake_room_waiters();
  if (uses_fd_.load(std::memory_order_relaxed)) events_.wake();
}

}  // namespace ripc::core
