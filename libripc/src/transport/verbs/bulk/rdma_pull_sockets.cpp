// SPDX-License-Identifier: Apache-2.0
// Rails of sockets beside those of RDMA: what a table of pulls asks them for, and what they bring.
#include <algorithm>
#include <new>

#include "transport/verbs/bulk/rdma_pull_table.hpp"

namespace ripc::internal::verbs {

namespace bulk = wire::bulk;

ripc_status RdmaPullTable::socket_made(std::shared_ptr<remote::StreamConnection> socket,
                                       const remote::Endpoint& peer) noexcept try {
  std::list<Lane> lane(1);
  lane.front().peer = peer;
  lane.front().socket = std::move(socket);
  const std::lock_guard lock(mutex_);
  if (dead_) return RIPC_PEER_DEAD;
  lanes_.add(lane);
  read_some();
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void RdmaPullTable::socket_lost(const remote::StreamConnection& socket) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lanes_.find(socket);
  if (lane == nullptr) return;
  lane->segments.give_back([&](RdmaPull& entry, remote::ByteRange rest) {
    if (entry.is_over()) return;
    entry.returned.push_back(rest);
    if (!entry.openings.empty() || stands_in_locked()) make_ready_locked(entry);
  });
  lanes_.remove(*lane, monotonic_now());
  read_some();
}

void RdmaPullTable::stand_in() noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_ || !std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.socket != nullptr; })) return;
  stands_in_ = true;
  for (const EntryPointer& entry : entries_) {
    if (!entry->is_over() && entry->openings.empty()) make_ready_locked(*entry);
  }
  read_some();
}

bool RdmaPullTable::begin_data(const remote::StreamConnection& socket, const bulk::Frame& frame,
                               std::shared_ptr<remote::Destination>& destination) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* const lane = lanes_.find(socket);
  if (lane == nullptr) return false;
  destination = lane->segments.begin_data(frame);
  if (destination == nullptr) return false;
  lane->pace.began(monotonic_now());
  return true;
}

bool RdmaPullTable::end_data(const remote::StreamConnection& socket, const bulk::Frame& frame,
                             ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* const lane = lanes_.find(socket);
  const EntryPointer entry = lane == nullptr ? nullptr : lane->segments.end_data(frame, status, lane->pace);
  if (entry == nullptr) return false;
  if (!entry->is_over()) {
    if (status != RIPC_OK) {
      entry->failure = refusal(status);
      settle(*entry);
    } else if ((entry->landed += frame.length) == entry->descriptor.length) {
      end(*entry, RIPC_OK);
    }
  }
  read_some();
  return true;
}

void RdmaPullTable::unwritable(const remote::StreamConnection& socket) noexcept {
  const std::lock_guard lock(mutex_);
  const Lane* const lane = lanes_.find(socket);
  RdmaPull* const entry = lane == nullptr ? nullptr : lane->segments.front();
  if (entry == nullptr || entry->is_over()) return;
  entry->failure = RIPC_CANCELLED;
  settle(*entry);
}

bool RdmaPullTable::is_owed(const remote::StreamConnection& socket) const noexcept {
  const std::lock_guard lock(mutex_);
  const Lane* const lane = lanes_.find(socket);
  return lane != nullptr && !lane->segments.empty();
}

}  // namespace ripc::internal::verbs
