// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/finish_table.hpp"

#include <algorithm>
#include <new>

#include "remote/bulk/limits.hpp"
#include "spi/outcome.hpp"

namespace ripc::internal::remote {

namespace bulk = wire::bulk;

bulk::Frame FinishTable::frame_of(std::uint64_t key, const Entry& entry, std::uint32_t remote_key) noexcept {
  return {.type = bulk::Type::finish,
          .id = remote_key,
          .key = key,
          .location = entry.location,
          .value = static_cast<std::uint64_t>(entry.status)};
}

ripc_status FinishTable::begin(const wire::Descriptor& descriptor) noexcept try {
  const std::lock_guard lock(mutex_);
  if (dead_) return RIPC_REVOKED;
  const std::size_t slot = descriptor.key % kMaxTransfers;
  if (slot >= begun_.size()) begun_.resize(slot + 1);
  std::uint64_t& place = begun_[slot];
  if (place == descriptor.key || entries_.contains(descriptor.key)) return RIPC_REVOKED;
  if (entries_.size() >= kMaxTransfers) {
    // These answers were never collected: the receiver had given up.
    std::erase_if(entries_, [](const auto& entry) { return entry.second.state == State::answered; });
    if (entries_.size() >= kMaxTransfers) return RIPC_CORRUPT;
  }
  entries_[descriptor.key].location = descriptor.location;
  place = descriptor.key;
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

ripc_status FinishTable::finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events,
                                const std::shared_ptr<FrameSender>& connection, bool& unsent) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(descriptor.key);
  // A receiver that drops a message does not ask for the outcome.
  const bool wanted = !spi::drops_message(status);
  if (found == entries_.end()) return wanted ? RIPC_REVOKED : RIPC_OK;
  Entry& entry = found->second;
  if (entry.state == State::answered || dead_) {
    const ripc_status outcome = entry.state == State::answered ? entry.outcome : RIPC_REVOKED;
    entries_.erase(found);
    return wanted ? outcome : RIPC_OK;
  }
  entry.wanted = wanted;
  entry.events = entry.wanted ? &events : nullptr;
  if (entry.state == State::begun) {
    entry.state = State::telling;
    entry.status = status;
    unsent = !connection || !connection->enqueue(frame_of(descriptor.key, entry));
    if (!unsent) entry.connection = connection.get();
  }
  return entry.wanted ? RIPC_PENDING : RIPC_OK;
}

bool FinishTable::tell_early(const wire::Descriptor& descriptor, EventSet& events, FrameSender& connection,
                             std::uint32_t remote_key) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(descriptor.key);
  if (found == entries_.end() || found->second.state != State::begun || dead_) return false;
  Entry& entry = found->second;
  entry.status = RIPC_OK;
  if (!connection.enqueue(frame_of(descriptor.key, entry, remote_key))) return false;
  entry.state = State::telling;
  entry.wanted = true;
  entry.events = &events;
  entry.connection = &connection;
  return true;
}

void FinishTable::forget(const EventSet& events) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.events == &events) entry.events = nullptr;
  }
}

void FinishTable::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  for (auto& [key, entry] : entries_) {
    if (entry.events != nullptr) entry.events->wake();
    entry.events = nullptr;
  }
}

void FinishTable::tell(FrameSender& connection) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.state != State::telling || entry.connection != nullptr) continue;
    if (!connection.enqueue(frame_of(key, entry))) return;
    entry.connection = &connection;
  }
}

void FinishTable::connection_lost(const FrameSender& connection) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.connection == &connection) entry.connection = nullptr;
  }
}

EventSet::Waker FinishTable::answered(const bulk::Frame& frame) noexcept {
  EventSet::Waker waker;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.key);
  if (found == entries_.end()) return waker;
  Entry& entry = found->second;
  if (entry.state != State::telling || entry.location != frame.location) return waker;
  if (!entry.wanted) {
    entries_.erase(found);
    return waker;
  }
  entry.state = State::answered;
  entry.outcome = static_cast<ripc_status>(frame.value);
  entry.connection = nullptr;
  if (entry.events != nullptr) waker = entry.events->waker();
  entry.events = nullptr;
  return waker;
}

bool FinishTable::is_owed(const FrameSender& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry.second.connection == &connection; });
}

bool FinishTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_, [](const auto& entry) {
    return entry.second.state == State::telling && entry.second.connection == nullptr;
  });
}

}  // namespace ripc::internal::remote
