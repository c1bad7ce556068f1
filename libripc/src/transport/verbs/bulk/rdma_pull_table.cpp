// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/rdma_pull_table.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/loop_wait.hpp"
#include "remote/session/rails.hpp"

namespace ripc::internal::verbs {

namespace {

namespace bulk = wire::bulk;

// How long the removal of a destination waits for the reads into it before it cuts the connections.
constexpr Nanoseconds kReadPatience = 100'000'000;

}  // namespace

RdmaPull::Opening* RdmaPull::opening_on(const QueuePairConnection& connection) noexcept {
  const auto found = std::ranges::find_if(openings, [&](const Opening& one) { return one.connection == &connection; });
  return found == openings.end() ? nullptr : &*found;
}

bool RdmaPull::is_open_on(const QueuePairConnection& connection) noexcept {
  const Opening* const opening = opening_on(connection);
  return opening != nullptr && opening->question == 0;
}

// ---- The receiver --------------------------------------------------------------------------------------------

ripc_status RdmaPullTable::pull(spi::Pull& pull, EventSet& events) noexcept try {
  if (pull.progress != 0) return look_at(pull);
  const std::uint64_t length = pull.descriptor.length;
  if (length == 0) return pull.status = RIPC_OK;
  const std::shared_ptr<Registrar> registrar = registrar_.get();
  std::vector<std::shared_ptr<QueuePairConnection>> others;
  if (length > remote::kSegmentSize) {
    const std::lock_guard lock(mutex_);
    for (const Lane& lane : lanes_) {
      if (!lane.socket && &lane.connection->registrar() != registrar.get()) others.push_back(lane.connection);
    }
  }
  std::vector<LocalMemory> registrations;
  if (registrar) {
    Result<LocalMemory> own = registrar->local(pull.destination, length, true);
    if (!own.ok()) return pull.status = own.status().code();
    registrations.push_back(std::move(*own));
  }
  for (const auto& connection : others) {
    // A device that cannot register the memory does not read into it.
    if (Result<LocalMemory> known = connection->registrar().local(pull.destination, length, true); known.ok())
      registrations.push_back(std::move(*known));
  }
  const std::lock_guard lock(mutex_);
  RdmaPull* const entry = begin_locked(pull, events);
  if (entry == nullptr) return pull.status;
  entry->memory = pull.destination;
  entry->residence = pull.residence;
  entry->registrations = std::move(registrations);
  ask(*entry);
  return RIPC_PENDING;
} catch (const std::bad_alloc&) {
  return pull.status = RIPC_NO_MEMORY;
}

void RdmaPullTable::start() noexcept {
  const std::lock_guard lock(mutex_);
  read_some();
}

void RdmaPullTable::abandon(spi::Pull& pull) noexcept {
  if (pull.progress == 0) return;
  std::unique_lock lock(mutex_);
  const EntryPointer entry = take_out_locked(pull);
  forget_questions(*entry);
  entry->openings.clear();
  make_unready_locked(*entry);
  entry->take_away();
  if (entry->failure == RIPC_OK) entry->failure = RIPC_CANCELLED;
  const auto done = [&] { return entry->reads == 0; };
  if (!done() && !loop_.in_loop_thread()) (void)wait_in(loop_, lock, changed_, Deadline::after(kReadPatience), done);
  if (!done()) {
    // Nothing else stops the devices from writing there.
    std::array<std::shared_ptr<QueuePairConnection>, remote::kMaxRails> connections;
    std::size_t count = 0;
    for (const Lane& lane : lanes_) {
      if (std::ranges::any_of(lane.reads, [&](const auto& one) { return one.second.entry == entry; }))
        connections[count++] = lane.connection;
    }
    lock.unlock();
    for (const auto& connection : std::span(connections).first(count)) connection->cut();
    // An iWARP peer may write there as long as the memory is registered.
    lock.lock();
    const std::vector<LocalMemory> ended = std::exchange(entry->registrations, {});
    lock.unlock();
    return;
  }
  end(*entry, RIPC_CANCELLED);
}

// The connections have already ended.
void RdmaPullTable::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  lanes_.clear();
  offers_.clear();
  for (const EntryPointer& entry : entries_) {
    entry->openings.clear();
    entry->reads = 0;
    end(*entry, RIPC_PEER_DEAD);
  }
  changed_.notify_all();
}

// ---- Asking; with the lock held ------------------------------------------------------------------------------

void RdmaPullTable::open(RdmaPull& entry, Opening& opening, std::uint64_t remote, std::uint32_t remote_key,
                         bool ends_key) noexcept {
  opening.question = 0;
  opening.remote = remote;
  opening.remote_key = remote_key;
  opening.ends_key = ends_key;
  make_ready_locked(entry);
}

// How the device of the connection knows the destination.
Status RdmaPullTable::find_local_key(RdmaPull& entry, const QueuePairConnection& connection, std::uint32_t& key) {
  const auto known = std::ranges::find_if(
      entry.registrations, [&](const LocalMemory& memory) { return memory.region->device() == &connection.device(); });
  if (known != entry.registrations.end()) {
    key = known->region->local_key();
    return {};
  }
  Result<LocalMemory> memory = connection.registrar().local(entry.memory, entry.descriptor.length, true);
  if (!memory.ok()) return memory.status();
  key = memory->region->local_key();
  entry.registrations.push_back(std::move(*memory));
  return {};
}

void RdmaPullTable::take_offer(RdmaPull& entry) {
  const wire::Descriptor& item = entry.descriptor;
  const auto found =
      std::ranges::find_if(offers_, [&](const OfferedItem& offer) { return offer.is_of(item.key, item.location); });
  if (found == offers_.end()) return;
  const OfferedItem offer = *found;
  offers_.erase(found);
  Opening opening{.connection = offer.connection};
  if (!find_local_key(entry, *offer.connection, opening.local_key).ok()) return;
  entry.openings.push_back(opening);
  open(entry, entry.openings.back(), offer.remote, offer.remote_key, offer.ends_key);
}

// RIPC_PEER_DEAD: the connection is being lost. Else the device cannot know the destination.
ripc_status RdmaPullTable::ask_on(Lane& lane, RdmaPull& entry) {
  Opening opening{.connection = lane.connection.get(), .question = next_id_};
  if (const Status status = find_local_key(entry, *lane.connection, opening.local_key); !status.ok())
    return status.code();
  if (!lane.connection->enqueue({.type = bulk::Type::ask_read,
                                 .id = next_id_,
                                 .key = entry.descriptor.key,
                                 .location = entry.descriptor.location}))
    return RIPC_PEER_DEAD;
  next_id_ += 2;
  lane.questions.emplace(opening.question, *entry.place);
  entry.openings.push_back(opening);
  return RIPC_OK;
}

// On all connections that are to carry it.
void RdmaPullTable::ask(RdmaPull& entry) noexcept try {
  if (entry.openings.empty()) take_offer(entry);
  ripc_status status = RIPC_PEER_DEAD;
  for (Lane& lane : lanes_) {
    if (lane.socket) continue;
    if (!entry.is_divided() && !entry.openings.empty()) return;
    if (entry.opening_on(*lane.connection) == nullptr) status = ask_on(lane, entry);
  }
  if (!entry.openings.empty()) return;
  if (stands_in_locked()) make_ready_locked(entry);
  if (status == RIPC_PEER_DEAD) return;
  entry.failure = status;
  settle(entry);
} catch (const std::bad_alloc&) {
  entry.failure = RIPC_NO_MEMORY;
  settle(entry);
}

// ---- Reading; with the lock held -----------------------------------------------------------------------------

bool RdmaPullTable::Lane::has_room() const noexcept {
  if (socket) return segments.has_room();
  if (is_refused || reads.size() + count >= connection->device().read_depth) return false;
  return count != 0 ? count < kBatchReads && bytes < kBatchBytes : may_begin;
}

bool RdmaPullTable::Lane::can_carry(RdmaPull& entry) const noexcept {
  return socket ? entry.is_for_sockets() : entry.is_open_on(*connection);
}

// Only once the owner has answered on this connection too.
bool RdmaPullTable::Lane::will_carry(RdmaPull& entry) const noexcept {
  return socket ? entry.is_for_sockets() : entry.opening_on(*connection) != nullptr;
}

void RdmaPullTable::update_may_begin(Lane& lane) const noexcept {
  lane.may_begin = lane.batches == 0 || (lane.batches < kBatches && has_ready(std::min(lane.reading, kBatchBytes)));
}

void RdmaPullTable::read_some() noexcept {
  if (ready_.empty()) return;
  for (Lane& lane : lanes_) update_may_begin(lane);
  const Nanoseconds now = monotonic_now();
  while (read_next(now)) {
  }
  for (Lane& lane : lanes_) post(lane);
}

// Whether this many bytes are ready to be read.
bool RdmaPullTable::has_ready(std::uint64_t bytes) const noexcept {
  return std::ranges::any_of(ready_, [&](const RdmaPull* entry) {
    bytes -= std::min(bytes, entry->unasked());
    return bytes == 0;
  });
}

// Adds a read to the next batch of the connection that will have it first. False: there is none, or no room.
bool RdmaPullTable::read_next(Nanoseconds now) noexcept {
  if (std::ranges::none_of(lanes_, [](const Lane& lane) { return lane.has_room(); })) return false;
  for (RdmaPull* const one : ready_) {
    const auto [next, segment] = lanes_.next(
        one->unasked(), now, [&](const Lane& lane) { return lane.can_carry(*one); },
        [&](const Lane& lane) { return lane.will_carry(*one); });
    if (next == nullptr) continue;
    Lane& lane = *next;
    const EntryPointer entry = *one->place;
    const std::uint64_t most = lane.socket ? segment : lane.connection->device().max_message;
    make_unready_locked(*entry);
    const remote::ByteRange range = entry->take_unasked(std::min(segment, most));
    make_ready_locked(*entry);
    if (lane.socket || entry->is_divided()) lane.pace.asked(range.end - range.begin, now);
    if (lane.socket) {
      lane.segments.ask(next_id_, entry, range);
      next_id_ += 2;
    } else {
      add_read(lane, entry, range);
    }
    return true;
  }
  return false;
}

void RdmaPullTable::add_read(Lane& lane, const EntryPointer& entry, remote::ByteRange range) noexcept {
  const Opening& opening = *entry->opening_on(*lane.connection);
  const std::uint64_t length = range.end - range.begin;
  lane.operations[lane.count] = {.write = false,
                                 .local = entry->memory + range.begin,
                                 .local_key = opening.local_key,
                                 .remote = opening.remote + range.begin,
                                 .remote_key = opening.remote_key,
                                 .length = static_cast<std::uint32_t>(length),
                                 .id = next_id_};
  next_id_ += 2;
  lane.next[lane.count++] = {.entry = entry, .range = range, .ends_batch = false};
  lane.bytes += length;
  if (entry->is_divided()) ++lane.divided;
  ++entry->reads;
  if (lane.count == kBatchReads || lane.bytes >= kBatchBytes) {
    post(lane);
    update_may_begin(lane);
  }
}

// A batch that finds no room waits for room(), or for the loss of the connection.
void RdmaPullTable::post(Lane& lane) noexcept {
  if (lane.socket) lane.segments.send_requests(*lane.socket);
  const std::size_t count = std::exchange(lane.count, 0);
  if (count == 0) return;
  lane.bytes = 0;
  try {
    for (std::size_t index = 0; index < count; ++index) lane.reads.emplace(lane.operations[index].id, lane.next[index]);
  } catch (const std::bad_alloc&) {
    lane.connection->cut();  // so that it takes none
  }
  const std::size_t posted = lane.connection->post(std::span(lane.operations).first(count));
  lane.is_refused = posted != count;
  for (std::size_t index = 0; index < posted; ++index) lane.reading += std::exchange(lane.next[index], {}).length();
  if (posted != 0) {
    lane.reads.at(lane.operations[posted - 1].id).ends_batch = true;
    ++lane.batches;
  }
  for (std::size_t index = count; index > posted; --index) {
    lane.reads.erase(lane.operations[index - 1].id);
    give_back(lane, std::exchange(lane.next[index - 1], {}));
  }
}

// A range that was not read over this connection is read next.
void RdmaPullTable::give_back(Lane& lane, const Read& read) noexcept {
  RdmaPull& entry = *read.entry;
  if (entry.is_divided()) {
    --lane.divided;
    lane.pace.forget(read.length());
  }
  --entry.reads;
  if (entry.is_over()) {
    settle(entry);
    return;
  }
  entry.returned.push_back(read.range);
  make_ready_locked(entry);
}

// Ends the pull if it has failed and no device is reading for it.
void RdmaPullTable::settle(RdmaPull& entry) noexcept {
  if (entry.failure == RIPC_OK) return;
  make_unready_locked(entry);
  if (entry.reads == 0) end(entry, entry.failure);
}

void RdmaPullTable::forget_questions(RdmaPull& entry) noexcept {
  for (const Opening& opening : entry.openings) {
    if (opening.question == 0) continue;
    if (Lane* const lane = lanes_.find(*opening.connection)) lane->questions.erase(opening.question);
  }
}

void RdmaPullTable::end(RdmaPull& entry, ripc_status status) noexcept {
  make_unready_locked(entry);
  if (!entry.is_pending()) return;
  forget_questions(entry);
  entry.openings.clear();
  entry.registrations.clear();
  entry.take_away();  // a rail of sockets may still bring something
  end_locked(entry, status);
}

// ---- Connections and what they bring -------------------------------------------------------------------------

void RdmaPullTable::connection_made(std::shared_ptr<QueuePairConnection> connection, bool is_first) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  std::list<Lane> lane;
  try {
    lane.emplace_back();
  } catch (const std::bad_alloc&) {
    connection->cut();
    return;
  }
  lane.front().peer = connection->peer();
  // Nothing tells when the first byte has arrived. With fewer segments, the measured rate would be that of the
  // question, or of the small share that is under way next to other reads.
  lane.front().first_segments = kBatchBytes / remote::kSegmentSize;
  lane.front().first_segment = remote::kSegmentSize;
  lane.front().connection = std::move(connection);
  lanes_.add(lane, is_first);
  stands_in_ = false;
  for (const EntryPointer& entry : entries_) {
    if (!entry->is_over()) ask(*entry);
  }
  read_some();
}

void RdmaPullTable::connection_lost(const QueuePairConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lanes_.find(connection);
  if (lane == nullptr) return;
  std::erase_if(offers_, [&](const OfferedItem& offer) { return offer.connection == &connection; });
  for (const EntryPointer& entry : entries_)
    std::erase_if(entry->openings, [&](const Opening& opening) { return opening.connection == &connection; });
  for (const auto& [id, read] : lane->reads) give_back(*lane, read);
  lanes_.remove(*lane, monotonic_now());
  stands_in_ = std::ranges::all_of(lanes_, [](const Lane& left) { return left.socket != nullptr; });
  for (const EntryPointer& entry : entries_) {
    if (entry->is_over() || !entry->openings.empty()) continue;
    make_unready_locked(*entry);
    ask(*entry);
  }
  read_some();
  changed_.notify_all();
}

void RdmaPullTable::answered(const QueuePairConnection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lanes_.find(connection);
  if (lane == nullptr) return;
  const auto found = lane->questions.find(frame.id);
  if (found == lane->questions.end()) return;
  const EntryPointer entry = std::move(found->second);
  lane->questions.erase(found);
  if (entry->is_over()) return;
  const auto status = static_cast<ripc_status>(frame.value);
  if (status == RIPC_OK) {
    open(*entry, *entry->opening_on(connection), frame.location, static_cast<std::uint32_t>(frame.key),
         frame.offset != 0);
    read_some();
    return;
  }
  std::erase_if(entry->openings, [&](const Opening& opening) { return opening.connection == &connection; });
  if (!entry->openings.empty()) {
    read_some();  // over a resting rail, if it waited for this read
    return;
  }
  if (status == RIPC_UNSUPPORTED) {
    // It was open over another connection, which is lost by now.
    ask(*entry);
    read_some();
    return;
  }
  entry->failure = refusal(status);
  settle(*entry);
}

// If the item was asked for, the answer comes too.
void RdmaPullTable::offered(const QueuePairConnection& connection, const bulk::Frame& frame) noexcept try {
  const std::lock_guard lock(mutex_);
  if (lanes_.find(connection) == nullptr) return;
  if (frame.value == 0) {
    std::erase_if(offers_, [&](const OfferedItem& offer) { return offer.is_of(frame.key, frame.location); });
    return;
  }
  if (offers_.size() == kOffers) offers_.pop_front();
  offers_.push_back(
      {&connection, frame.key, frame.location, frame.value, static_cast<std::uint32_t>(frame.id), frame.offset != 0});
} catch (const std::bad_alloc&) {
  // The item is asked for.
}

bool RdmaPullTable::read_done(const QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept {
  if (!is_own(id)) return false;
  const std::lock_guard lock(mutex_);
  Lane* const lane = lanes_.find(connection);
  if (lane == nullptr) return true;
  const auto found = lane->reads.find(id);
  if (found == lane->reads.end()) return true;
  const Read read = std::move(found->second);
  lane->reads.erase(found);
  if (read.ends_batch) --lane->batches;
  lane->reading -= read.length();
  RdmaPull& entry = *read.entry;
  changed_.notify_all();
  if (status == RIPC_PEER_DEAD) {
    lane->is_refused = true;  // it is being lost
    give_back(*lane, read);
  } else {
    if (entry.is_divided()) {
      --lane->divided;
      lane->pace.arrived(read.length(), monotonic_now());
    }
    --entry.reads;
    if (status == RIPC_OK) {
      entry.landed += read.length();
      if (entry.landed == entry.descriptor.length) {
        const Opening* const opening = entry.opening_on(connection);
        const bool ends_key = opening != nullptr && opening->ends_key && connection.device().windows;
        finish_early_locked(entry, *lane->connection, ends_key ? opening->remote_key : 0);
        end(entry, RIPC_OK);
      }
    } else if (entry.failure == RIPC_OK) {
      entry.failure = status;
    }
    settle(entry);
  }
  read_some();
  return true;
}

void RdmaPullTable::room(const QueuePairConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lanes_.find(connection);
  if (lane == nullptr) return;
  lane->is_refused = false;
  read_some();
}

bool RdmaPullTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_,
                             [](const EntryPointer& entry) { return entry->openings.empty() && !entry->is_over(); });
}

bool RdmaPullTable::is_offered(const wire::Descriptor& item) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(offers_, [&](const OfferedItem& offer) { return offer.is_of(item.key, item.location); });
}

std::size_t RdmaPullTable::offers() const noexcept {
  const std::lock_guard lock(mutex_);
  return offers_.size();
}

bool RdmaPullTable::busy() const noexcept {
  const std::lock_guard lock(mutex_);
  return !ready_.empty() || std::ranges::any_of(lanes_, [](const Lane& lane) {
    return !lane.reads.empty() || !lane.questions.empty() || !lane.segments.empty();
  });
}

bool RdmaPullTable::is_owed(const QueuePairConnection& connection) const noexcept {
  const std::lock_guard lock(mutex_);
  const Lane* const lane = lanes_.find(connection);
  return lane != nullptr && !(lane->reads.empty() && lane->questions.empty());
}

}  // namespace ripc::internal::verbs
