// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/stream_pull_table.hpp"

#include <algorithm>

namespace ripc::internal::socket {

namespace bulk = wire::bulk;

StreamPull::StreamPull(const wire::Descriptor& item, EventSet& receiver) : PullEntry(item, receiver) {
  // As many segments as can be lost at once.
  constexpr std::uint64_t kMostReturned = kMaxBulkConnections * kSegmentsAhead;
  returned.reserve(std::min(item.length / kSegmentSize + 1, kMostReturned));
  turn.push_back(this);
}

ByteRange StreamPull::take_unasked(std::uint64_t segment) noexcept {
  if (!returned.empty()) {
    const ByteRange range = returned.back();
    returned.pop_back();
    return range;
  }
  if (descriptor.length <= kUndivided) segment = kUndivided;
  const std::uint64_t begin = std::exchange(next, next + std::min(segment, descriptor.length - next));
  return {.begin = begin, .end = next};
}

// ---- The receiver --------------------------------------------------------------------------------------------

ripc_status StreamPullTable::pull(spi::Pull& pull, EventSet& events) noexcept {
  if (pull.progress != 0) return look_at(pull);
  if (pull.descriptor.length == 0) return pull.status = RIPC_OK;
  const std::lock_guard lock(mutex_);
  StreamPull* const entry = begin_locked(pull, events);
  if (entry == nullptr) return pull.status;
  entry->memory = pull.destination;
  make_ready(*entry);
  ask();
  return RIPC_PENDING;
}

void StreamPullTable::abandon(spi::Pull& pull) noexcept {
  if (pull.progress == 0) return;
  EntryPointer entry;
  {
    const std::lock_guard lock(mutex_);
    entry = take_out_locked(pull);
    make_unready(*entry);
    // What was asked for still comes, and is thrown away.
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

void StreamPullTable::make_ready(StreamPull& entry) noexcept {
  if (entry.ready || !entry.has_unasked()) return;
  entry.ready = true;
  ready_.splice(ready_.end(), entry.turn);
}

void StreamPullTable::make_unready(StreamPull& entry) noexcept {
  if (!std::exchange(entry.ready, false)) return;
  entry.turn.splice(entry.turn.end(), ready_, std::find(ready_.begin(), ready_.end(), &entry));
}

// The one that is asked next, and for how much; null: none, because the best one has enough to do.
std::pair<StreamPullTable::Lane*, std::uint64_t> StreamPullTable::next_lane(Nanoseconds now) noexcept {
  constexpr double kSpare = remote::RailPace::kSpare;
  constexpr Nanoseconds kProbePause = 1'000'000'000;
  if (lanes_.size() == 1) {
    Lane& only = lanes_.front();
    return {only.segments.size() < kSegmentsAhead ? &only : nullptr, kSegmentSize};
  }
  double fastest = 0;
  for (const Lane& lane : lanes_) fastest = std::max(fastest, lane.pace.rate());
  const StreamPull& entry = *ready_.front();
  const double time_for_rest = static_cast<double>(entry.descriptor.length - entry.next) / fastest;
  Lane* best = nullptr;
  std::uint64_t best_segment = 0;
  double best_time = 0;
  for (Lane& lane : lanes_) {
    const std::uint64_t segment = lane.pace.segment(fastest / kSpare, kSegmentSize);
    const double time = lane.pace.time_for(segment);
    const bool is_spare = lane.pace.rate() != 0 && lane.pace.rate() * kSpare < fastest;
    if (is_spare && (now < lane.probe_at || time > time_for_rest)) continue;
    if (best != nullptr && time >= best_time) continue;
    best = &lane;
    best_segment = segment;
    best_time = time;
  }
  // One of unknown rate has a single segment.
  const std::size_t most = best != nullptr && best->pace.rate() == 0 ? 1 : kSegmentsAhead;
  if (best == nullptr || best->segments.size() >= most) return {};
  if (best->pace.rate() * kSpare < fastest) best->probe_at = now + kProbePause;
  return {best, best_segment};
}

// Hands out segments.
void StreamPullTable::ask() noexcept {
  if (ready_.empty() || lanes_.empty()) return;
  const Nanoseconds now = monotonic_now();
  while (!ready_.empty()) {
    const auto [next, segment] = next_lane(now);
    if (next == nullptr) break;
    Lane& lane = *next;
    const std::shared_ptr<StreamPull> entry = *ready_.front()->place;
    make_unready(*entry);
    const ByteRange range = entry->take_unasked(segment);
    lane.pace.asked(range.end - range.begin, now);
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

StreamPullTable::Lane* StreamPullTable::lane_of(const BulkConnection& connection) noexcept {
  return const_cast<Lane*>(std::as_const(*this).lane_of(connection));
}

const StreamPullTable::Lane* StreamPullTable::lane_of(const BulkConnection& connection) const noexcept {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane& lane) { return lane.connection.get() == &connection; });
  return found == lanes_.end() ? nullptr : &*found;
}

StreamPullTable::NewLane::NewLane(std::shared_ptr<BulkConnection> connection) : lane_(1) {
  lane_.front().connection = std::move(connection);
  lane_.front().segments.reserve(kSegmentsAhead);
  lane_.front().requests.reserve(kSegmentsAhead);
}

void StreamPullTable::connection_made(NewLane lane) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  lanes_.splice(lanes_.end(), lane.lane_);
  ask();
}

void StreamPullTable::connection_lost(const BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* lane = lane_of(connection);
  if (lane == nullptr) return;
  for (const Segment& segment : lane->segments) {
    StreamPull& entry = *segment.entry;
    if (!entry.is_pending()) continue;
    entry.returned.push_back(segment.rest);
    make_ready(entry);
  }
  lanes_.remove_if([lane](const Lane& other) { return &other == lane; });
  ask();
}

std::size_t StreamPullTable::owed(const BulkConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  const Lane* const lane = lane_of(connection);
  return lane == nullptr ? 0 : lane->segments.size();
}

std::shared_ptr<BulkConnection> StreamPullTable::quickest() const noexcept {
  constexpr std::uint64_t kSmall = 4096;
  const std::lock_guard lock(mutex_);
  const auto found = std::min_element(lanes_.begin(), lanes_.end(), [](const Lane& left, const Lane& right) {
    return left.pace.time_for(kSmall) < right.pace.time_for(kSmall);
  });
  return found == lanes_.end() ? nullptr : found->connection;
}

double StreamPullTable::rate_of(const BulkConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  const Lane* const lane = lane_of(connection);
  return lane == nullptr ? 0 : lane->pace.rate() * 1e9;
}

bool StreamPullTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

// ---- Answers -------------------------------------------------------------------------------------------------

bool StreamPullTable::begin_data(const BulkConnection& connection, const bulk::Frame& frame,
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
  lane->pace.began(monotonic_now());
  return true;
}

bool StreamPullTable::end_data(const BulkConnection& connection, const bulk::Frame& frame,
                               ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return true;
  Lane* lane = lane_of(connection);
  if (lane == nullptr) return false;
  Segment& segment = lane->segments.front();
  StreamPull& entry = *segment.entry;
  const bool pending = entry.is_pending();
  if (status != RIPC_OK) {
    if (pending) end(entry, refusal(status));
    lane->pace.forget(segment.rest.end - segment.rest.begin);
    lane->segment_over();
    ask();
    return true;
  }
  if (frame.length == 0) return false;
  segment.rest.begin += frame.length;
  lane->pace.arrived(frame.length, monotonic_now());
  if (pending) entry.landed += frame.length;
  if (pending && entry.landed == entry.descriptor.length) {
    finish_early_locked(entry, *lane->connection);
    end(entry, RIPC_OK);
  }
  if (segment.rest.begin == segment.rest.end) {
    lane->segment_over();
    ask();
  }
  return true;
}

void StreamPullTable::unwritable(const BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* lane = lane_of(connection);
  if (lane == nullptr || lane->segments.empty()) return;
  StreamPull& entry = *lane->segments.front().entry;
  if (entry.is_pending()) end(entry, RIPC_CANCELLED);
}

void StreamPullTable::end(StreamPull& entry, ripc_status status) noexcept {
  make_unready(entry);
  if (!entry.is_pending()) return;
  entry.take_away();
  end_locked(entry, status);
}

}  // namespace ripc::internal::socket
