// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/pull_scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace ripc::socket {

namespace bulk = wire::bulk;

PullScheduler::Range PullScheduler::Entry::take_unasked() noexcept {
  Range range{};
  if (!returned.empty()) {
    range = returned.back();
    returned.pop_back();
    return range;
  }
  range.begin = next;
  range.end = next + std::min<std::uint64_t>(kSegmentSize, descriptor.length - next);
  next = range.end;
  return range;
}

PullScheduler::Entry* PullScheduler::entry_of(const spi::Pull& pull) noexcept {
  return reinterpret_cast<Entry*>(pull.progress);
}

// ---- The receiver --------------------------------------------------------------------------------------------

void PullScheduler::add_entry(Entries& entries, const wire::Descriptor& item, EventSet& events) {
  // As many segments as can be lost at once.
  constexpr std::uint64_t kMostReturned = kMaxBulkConnections * kSegmentsAhead;
  auto entry = std::make_shared<Entry>();
  entry->descriptor = item;
  entry->events = &events;
  entry->returned.reserve(std::min(item.length / kSegmentSize + 1, kMostReturned));
  entry->turn.push_back(entry.get());
  Entry& added = *entry;
  added.place = entries.insert(entries.end(), std::move(entry));
}

ripc_status PullScheduler::prepare(std::span<const wire::Descriptor> items, EventSet& events,
                                   Entries& prepared) noexcept try {
  for (const wire::Descriptor& item : items) add_entry(prepared, item, events);
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void PullScheduler::add_prepared(Entries prepared) noexcept {
  const std::lock_guard lock(mutex_);
  prepared_.splice(prepared_.end(), prepared);
}

void PullScheduler::drop_prepared(std::uint64_t key) noexcept {
  const std::lock_guard lock(mutex_);
  prepared_.remove_if([key](const auto& entry) { return entry->descriptor.key == key; });
}

ripc_status PullScheduler::pull(spi::Pull& pull, EventSet& events) noexcept {
  if (pull.progress != 0) {
    Entry* const entry = entry_of(pull);
    const ripc_status status = entry->status.load(std::memory_order_acquire);
    if (status == RIPC_PENDING) return pull.status = status;
    const std::lock_guard lock(mutex_);
    entries_.erase(entry->place);
    pull.progress = 0;
    if (status == RIPC_OK) pull.copies = 1;
    return pull.status = status;
  }
  if (pull.descriptor.length == 0) return pull.status = RIPC_OK;
  const std::lock_guard lock(mutex_);
  if (dead_) return pull.status = RIPC_PEER_DEAD;
  auto place = std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& entry) {
    return entry->descriptor.key == pull.descriptor.key && entry->descriptor.location == pull.descriptor.location;
  });
  if (place == prepared_.end()) {
    try {
      add_entry(prepared_, pull.descriptor, events);
    } catch (const std::bad_alloc&) {
      return pull.status = RIPC_NO_MEMORY;
    }
    place = std::prev(prepared_.end());
  }
  Entry& entry = **place;
  entries_.splice(entries_.end(), prepared_, place);
  entry.memory = pull.destination;
  entry.descriptor = pull.descriptor;
  entry.events = &events;
  entry.finishes = pull.finishes;
  pull.progress = reinterpret_cast<std::uint64_t>(&entry);
  make_ready(entry);
  ask();
  return pull.status = RIPC_PENDING;
}

void PullScheduler::abandon(spi::Pull& pull) noexcept {
  if (pull.progress == 0) return;
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto place = entry_of(pull)->place;
    pull.progress = 0;
    entry = std::move(*place);
    entries_.erase(place);
    make_unready(*entry);
    entry->events = nullptr;
    // What was asked for still comes, and is thrown away.
    entry->status.store(RIPC_CANCELLED, std::memory_order_release);
  }
  entry->take_away();
}

void PullScheduler::forget(const EventSet& events) noexcept {
  const std::lock_guard lock(mutex_);
  prepared_.remove_if([&](const auto& entry) { return entry->events == &events; });
  for (const auto& entry : entries_) {
    if (entry->events == &events) entry->events = nullptr;
  }
}

void PullScheduler::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  lanes_.clear();
  for (const auto& entry : entries_) end(*entry, RIPC_PEER_DEAD);
}

// ---- Asking --------------------------------------------------------------------------------------------------

void PullScheduler::make_ready(Entry& entry) noexcept {
  if (entry.ready || !entry.has_unasked()) return;
  entry.ready = true;
  ready_.splice(ready_.end(), entry.turn);
}

void PullScheduler::make_unready(Entry& entry) noexcept {
  if (!std::exchange(entry.ready, false)) return;
  entry.turn.splice(entry.turn.end(), ready_, std::find(ready_.begin(), ready_.end(), &entry));
}

// Hands out segments, each to the connection that owes least.
void PullScheduler::ask() noexcept {
  while (!ready_.empty() && !lanes_.empty()) {
    Lane& lane = *std::min_element(lanes_.begin(), lanes_.end(), [](const Lane& left, const Lane& right) {
      return left.segments.size() < right.segments.size();
    });
    if (lane.segments.size() >= kSegmentsAhead) break;
    const std::shared_ptr<Entry> entry = *ready_.front()->place;
    make_unready(*entry);
    const Range range = entry->take_unasked();
    lane.requests.push_back({.type = bulk::Type::pull_request,
                             .length = static_cast<std::uint32_t>(range.end - range.begin),
                             .id = next_segment_,
                             .key = entry->descriptor.key,
                             .location = entry->descriptor.location,
                             .offset = range.begin,
                             .value = 0});
    bytes_requested_.fetch_add(range.end - range.begin, std::memory_order_relaxed);
    lane.segments.push_back({next_segment_++, entry, range});
    make_ready(*entry);
  }
  for (Lane& lane : lanes_) {
    if (lane.requests.empty()) continue;
    // If it is lost already, connection_lost() comes and takes the segments back.
    (void)lane.connection->send(lane.requests);
    lane.requests.clear();
  }
}

// ---- Connections ---------------------------------------------------------------------------------------------

PullScheduler::Lane* PullScheduler::lane_of(const BulkConnection& connection) noexcept {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane& lane) { return lane.connection.get() == &connection; });
  return found == lanes_.end() ? nullptr : &*found;
}

PullScheduler::NewLane::NewLane(std::shared_ptr<BulkConnection> connection) : lane_(1) {
  lane_.front().connection = std::move(connection);
  lane_.front().segments.reserve(kSegmentsAhead);
  lane_.front().requests.reserve(kSegmentsAhead);
}

void PullScheduler::connection_made(NewLane lane) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  lanes_.splice(lanes_.end(), lane.lane_);
  ask();
}

void PullScheduler::connection_lost(const BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* lane = lane_of(connection);
  if (lane == nullptr) return;
  for (const Segment& segment : lane->segments) {
    Entry& entry = *segment.entry;
    if (entry.status.load(std::memory_order_relaxed) != RIPC_PENDING) continue;
    entry.returned.push_back(segment.rest);
    make_ready(entry);
  }
  lanes_.remove_if([lane](const Lane& other) { return &other == lane; });
  ask();
}

std::size_t PullScheduler::owed(const BulkConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  for (const Lane& lane : lanes_) {
    if (lane.connection.get() == &connection) return lane.segments.size();
  }
  return 0;
}

bool PullScheduler::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

// ---- Answers -------------------------------------------------------------------------------------------------

bool PullScheduler::begin_data(const BulkConnection& connection, const bulk::Frame& frame,
                               std::shared_ptr<Destination>& destination) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* lane = lane_of(connection);
  if (lane == nullptr || lane->segments.empty()) return false;
  const Segment& segment = lane->segments.front();
  if (frame.id != segment.id || frame.offset != segment.rest.begin ||
      frame.length > segment.rest.end - segment.rest.begin)
    return false;
  destination = segment.entry;
  return true;
}

bool PullScheduler::end_data(const BulkConnection& connection, const bulk::Frame& frame, ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* lane = lane_of(connection);
  if (lane == nullptr) return false;
  Segment& segment = lane->segments.front();
  Entry& entry = *segment.entry;
  const bool pending = entry.status.load(std::memory_order_relaxed) == RIPC_PENDING;
  if (status != RIPC_OK) {
    // Whatever else the peer claims, what this means is that it does not hand out the bytes.
    if (pending) end(entry, status == RIPC_CANCELLED ? RIPC_CANCELLED : RIPC_REVOKED);
    lane->segment_over();
    ask();
    return true;
  }
  if (frame.length == 0) return false;
  segment.rest.begin += frame.length;
  if (pending) entry.landed += frame.length;
  if (pending && entry.landed == entry.descriptor.length) {
    // The receiver has nothing to do before the answer, which wakes it.
    if (entry.finishes && entry.events != nullptr &&
        finishes_.tell_early(entry.descriptor, *entry.events, *lane->connection))
      entry.events = nullptr;
    end(entry, RIPC_OK);
  }
  if (segment.rest.begin == segment.rest.end) {
    lane->segment_over();
    ask();
  }
  return true;
}

void PullScheduler::unwritable(const BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* lane = lane_of(connection);
  if (lane == nullptr || lane->segments.empty()) return;
  Entry& entry = *lane->segments.front().entry;
  if (entry.status.load(std::memory_order_relaxed) == RIPC_PENDING) end(entry, RIPC_CANCELLED);
}

// The status comes last: whoever sees it may free the destination.
void PullScheduler::end(Entry& entry, ripc_status status) noexcept {
  make_unready(entry);
  if (entry.status.load(std::memory_order_relaxed) != RIPC_PENDING) return;
  entry.take_away();
  EventSet* events = entry.events;
  entry.events = nullptr;
  entry.status.store(status, std::memory_order_release);
  if (events != nullptr) events->wake();
}

}  // namespace ripc::socket
