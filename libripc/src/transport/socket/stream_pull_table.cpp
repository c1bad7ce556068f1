// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/stream_pull_table.hpp"

namespace ripc::internal::socket {

namespace bulk = wire::bulk;

// ---- The receiver --------------------------------------------------------------------------------------------

ripc_status StreamPullTable::pull(spi::Pull& pull, EventSet& events) noexcept {
  if (pull.progress != 0) return look_at(pull);
  if (pull.descriptor.length == 0) return pull.status = RIPC_OK;
  const std::lock_guard lock(mutex_);
  StreamPull* const entry = begin_locked(pull, events);
  if (entry == nullptr) return pull.status;
  entry->memory = pull.destination;
  entry->residence = pull.residence;
  make_ready_locked(*entry);
  ask();
  return RIPC_PENDING;
}

void StreamPullTable::abandon(spi::Pull& pull) noexcept {
  if (pull.progress == 0) return;
  EntryPointer entry;
  {
    const std::lock_guard lock(mutex_);
    entry = take_out_locked(pull);
    make_unready_locked(*entry);
    // The requested bytes still come, and are discarded.
    entry->status.store(RIPC_CANCELLED, std::memory_order_release);
  }
  entry->take_away();
}

void StreamPullTable::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  lanes_.clear();
  for (const auto& entry : entries_) end(*entry, RIPC_PEER_DEAD);
}

// ---- Asking --------------------------------------------------------------------------------------------------

// Requests segments over the connections.
void StreamPullTable::ask() noexcept {
  if (ready_.empty() || lanes_.empty()) return;
  const Nanoseconds now = monotonic_now();
  while (!ready_.empty()) {
    const std::shared_ptr<StreamPull> entry = *ready_.front()->place;
    const auto [next, segment] = lanes_.next(entry->unasked(), now, [](const Lane&) { return true; });
    if (next == nullptr) break;
    Lane& lane = *next;
    make_unready_locked(*entry);
    const remote::ByteRange range = entry->take_unasked(segment);
    lane.pace.asked(range.end - range.begin, now);
    bytes_requested_.fetch_add(range.end - range.begin, std::memory_order_relaxed);
    lane.segments.ask(next_segment_++, entry, range);
    make_ready_locked(*entry);
  }
  for (Lane& lane : lanes_) lane.segments.send_requests(*lane.connection);
}

// ---- Connections ---------------------------------------------------------------------------------------------

void StreamPullTable::connection_made(std::list<Lane> lane) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  lanes_.add(lane);
  ask();
}

void StreamPullTable::connection_lost(const StreamConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* lane = lanes_.find(connection);
  if (lane == nullptr) return;
  lane->segments.give_back([&](StreamPull& entry, remote::ByteRange rest) {
    if (!entry.is_pending()) return;
    entry.returned.push_back(rest);
    make_ready_locked(entry);
  });
  lanes_.remove(*lane, monotonic_now());
  ask();
}

bool StreamPullTable::is_owed(const StreamConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  const Lane* const lane = lanes_.find(connection);
  return lane != nullptr && !lane->segments.empty();
}

std::shared_ptr<StreamConnection> StreamPullTable::quickest() const noexcept {
  const std::lock_guard lock(mutex_);
  return lanes_.quickest();
}

std::uint64_t StreamPullTable::rate_of(const StreamConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  return lanes_.rate_of(connection);
}

bool StreamPullTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

// ---- Answers -------------------------------------------------------------------------------------------------

bool StreamPullTable::begin_data(const StreamConnection& connection, const bulk::Frame& frame,
                                 std::shared_ptr<Destination>& destination) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* lane = lanes_.find(connection);
  if (lane == nullptr) return false;
  destination = lane->segments.begin_data(frame);
  if (destination == nullptr) return false;
  lane->pace.began(monotonic_now());
  return true;
}

bool StreamPullTable::end_data(const StreamConnection& connection, const bulk::Frame& frame,
                               ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* lane = lanes_.find(connection);
  if (lane == nullptr) return false;
  const std::size_t before = lane->segments.size();
  const EntryPointer entry = lane->segments.end_data(frame, status, lane->pace);
  if (entry == nullptr) return false;
  if (entry->is_pending()) {
    if (status != RIPC_OK) {
      end(*entry, refusal(status));
    } else if ((entry->landed += frame.length) == entry->descriptor.length) {
      finish_early_locked(*entry, *lane->connection);
      end(*entry, RIPC_OK);
    }
  }
  if (lane->segments.size() != before) ask();
  return true;
}

void StreamPullTable::unwritable(const StreamConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* lane = lanes_.find(connection);
  StreamPull* const entry = lane == nullptr ? nullptr : lane->segments.front();
  if (entry != nullptr && entry->is_pending()) end(*entry, RIPC_CANCELLED);
}

void StreamPullTable::end(StreamPull& entry, ripc_status status) noexcept {
  make_unready_locked(entry);
  if (!entry.is_pending()) return;
  entry.take_away();
  end_locked(entry, status);
}

}  // namespace ripc::internal::socket
