// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/rdma_pull_table.hpp"

#include <algorithm>
#include <array>

#include "base/loop_wait.hpp"

namespace ripc::internal::verbs {

namespace {

namespace bulk = wire::bulk;

// Of one read: long enough to be cheap, short enough for the others to have their turns.
constexpr std::uint32_t kPullPiece = std::uint32_t{1} << 20;
// How long whoever takes a destination away waits for the reads into it, before the connection is cut.
constexpr Nanoseconds kReadPatience = 100'000'000;

}  // namespace

// ---- The receiver --------------------------------------------------------------------------------------------

ripc_status RdmaPullTable::pull(spi::Pull& pull, EventSet& events) noexcept {
  if (pull.progress != 0) return look_at(pull);
  if (pull.descriptor.length == 0) return pull.status = RIPC_OK;
  Result<LocalMemory> memory = registrar_->local(pull.destination, pull.descriptor.length, true);
  if (!memory.ok()) return pull.status = memory.status().code();
  const std::lock_guard lock(mutex_);
  RdmaPull* const entry = begin_locked(pull, events);
  if (entry == nullptr) return pull.status;
  entry->destination = pull.destination;
  entry->memory = std::move(*memory);
  ask(*entry->place);
  return RIPC_PENDING;
}

void RdmaPullTable::start() noexcept {
  const std::lock_guard lock(mutex_);
  read_some();
}

void RdmaPullTable::abandon(spi::Pull& pull) noexcept {
  if (pull.progress == 0) return;
  std::unique_lock lock(mutex_);
  const EntryPointer entry = take_out_locked(pull);
  questions_.erase(entry->question);
  if (entry->ready) std::erase(ready_, entry);
  entry->ready = false;
  if (entry->failure == RIPC_OK) entry->failure = RIPC_CANCELLED;
  const auto done = [&] { return entry->reads == 0; };
  if (!done() && !loop_.in_loop_thread()) (void)wait_in(loop_, lock, changed_, Deadline::after(kReadPatience), done);
  if (!done()) {
    // Nothing else keeps the device from writing there.
    const std::shared_ptr<QueuePairConnection> connection = connection_;
    lock.unlock();
    if (connection) connection->cut();
    return;
  }
  end(*entry, RIPC_CANCELLED);
}

// The connection has ended before.
void RdmaPullTable::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  connection_.reset();
  ready_.clear();
  reads_.clear();
  lots_ = 0;
  reading_ = 0;
  questions_.clear();
  offers_.clear();
  for (const EntryPointer& entry : entries_) {
    entry->ready = false;
    entry->reads = 0;
    end(*entry, RIPC_PEER_DEAD);
  }
  changed_.notify_all();
}

// ---- Asking and reading; with the lock held ------------------------------------------------------------------

void RdmaPullTable::open(const EntryPointer& entry, std::uint64_t remote, std::uint32_t remote_key,
                         bool ends_key) noexcept {
  entry->step = Step::open;
  entry->remote = remote;
  entry->remote_key = remote_key;
  entry->ends_key = ends_key;
  entry->ready = true;
  ready_.push_back(entry);
}

bool RdmaPullTable::take_offer(const EntryPointer& entry) noexcept {
  const wire::Descriptor& item = entry->descriptor;
  const auto found = std::find_if(offers_.begin(), offers_.end(),
                                  [&](const OfferedItem& offer) { return offer.is_of(item.key, item.location); });
  if (found == offers_.end()) return false;
  const OfferedItem offer = *found;
  offers_.erase(found);
  open(entry, offer.remote, offer.remote_key, offer.ends_key);
  return true;
}

void RdmaPullTable::ask(const EntryPointer& entry) noexcept {
  if (!connection_ || take_offer(entry)) return;
  const std::uint64_t id = next_id_;
  if (!connection_->enqueue({.type = bulk::Type::ask_read,
                             .id = id,
                             .key = entry->descriptor.key,
                             .location = entry->descriptor.location}))
    return;
  next_id_ += 2;
  entry->step = Step::asked;
  entry->question = id;
  questions_.emplace(id, entry);
}

void RdmaPullTable::ask_all() noexcept {
  for (const EntryPointer& entry : entries_) {
    if (entry->step == Step::waiting && entry->is_pending() && entry->failure == RIPC_OK) ask(entry);
  }
  read_some();
}

void RdmaPullTable::read_some() noexcept {
  while (connection_ && !ready_.empty() && lots_ < kLots && reads_.size() < registrar_->device()->read_depth) {
    if (lots_ != 0 && !has_ready(std::min(reading_, kLotBytes))) return;
    if (!read_lot()) return;
  }
}

// Whether so many bytes could be read.
bool RdmaPullTable::has_ready(std::uint64_t bytes) const noexcept {
  return std::any_of(ready_.begin(), ready_.end(), [&](const EntryPointer& entry) {
    const std::uint64_t left = entry->descriptor.length - entry->next;
    bytes -= std::min(bytes, left);
    return bytes == 0;
  });
}

// False: there is no room for all of it, until room() is called; or the connection is being lost, and everything begins
// anew.
bool RdmaPullTable::read_lot() noexcept {
  const std::size_t most = std::min(kLotReads, registrar_->device()->read_depth - reads_.size());
  const std::uint64_t piece = std::min(kPullPiece, registrar_->device()->max_message);
  std::array<Operation, kLotReads> operations;
  std::array<EntryPointer, kLotReads> entries;
  std::size_t count = 0;
  for (std::uint64_t bytes = 0; count < most && bytes < kLotBytes && !ready_.empty(); ++count) {
    EntryPointer entry = std::move(ready_.front());
    ready_.pop_front();
    const auto length = static_cast<std::uint32_t>(std::min(piece, entry->descriptor.length - entry->next));
    operations[count] = {.write = false,
                         .local = entry->destination + entry->next,
                         .local_key = entry->memory.region->local_key(),
                         .remote = entry->remote + entry->next,
                         .remote_key = entry->remote_key,
                         .length = length,
                         .id = next_id_ + 2 * count};
    entry->next += length;
    bytes += length;
    entry->ready = entry->next != entry->descriptor.length;
    if (entry->ready) ready_.push_back(entry);
    entries[count] = std::move(entry);
  }
  const std::size_t posted = connection_->post(std::span(operations).first(count));
  for (std::size_t index = count; index > posted; --index) take_back(entries[index - 1], operations[index - 1]);
  for (std::size_t index = 0; index < posted; ++index) {
    const Operation& one = operations[index];
    ++entries[index]->reads;
    const auto offset = static_cast<std::uint64_t>(one.local - entries[index]->destination);
    reading_ += one.length;
    reads_.emplace(one.id, Read{std::move(entries[index]), offset, one.length, index + 1 == posted});
  }
  next_id_ += 2 * posted;
  lots_ += posted != 0 ? 1 : 0;
  return posted == count;
}

// A read that was not posted comes first again; of those of one entry the last one is taken back first.
void RdmaPullTable::take_back(const EntryPointer& entry, const Operation& operation) noexcept {
  if (entry->ready) std::erase(ready_, entry);
  entry->next -= operation.length;
  entry->ready = true;
  ready_.push_front(entry);
}

// What was read is read again: pieces end in any order.
void RdmaPullTable::restart(RdmaPull& entry) noexcept {
  if (entry.ready) std::erase_if(ready_, [&](const auto& other) { return other.get() == &entry; });
  entry.ready = false;
  entry.step = Step::waiting;
  entry.next = 0;
  entry.landed = 0;
}

// Ends it if it has failed and the device is through with it.
void RdmaPullTable::settle(RdmaPull& entry) noexcept {
  if (entry.reads == 0 && entry.failure != RIPC_OK) end(entry, entry.failure);
}

void RdmaPullTable::end(RdmaPull& entry, ripc_status status) noexcept {
  if (entry.ready) std::erase_if(ready_, [&](const auto& other) { return other.get() == &entry; });
  entry.ready = false;
  if (!entry.is_pending()) return;
  entry.memory = {};
  end_locked(entry, status);
}

// ---- Connections and what they bring -------------------------------------------------------------------------

void RdmaPullTable::connection_made(std::shared_ptr<QueuePairConnection> connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  connection_ = std::move(connection);
  ask_all();
}

void RdmaPullTable::connection_lost(const QueuePairConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_.get() != &connection) return;
  connection_.reset();
  questions_.clear();
  offers_.clear();
  ready_.clear();
  reads_.clear();
  lots_ = 0;
  reading_ = 0;
  for (const EntryPointer& entry : entries_) {
    entry->ready = false;
    entry->reads = 0;
    settle(*entry);
    if (entry->is_pending()) restart(*entry);
  }
  changed_.notify_all();
}

void RdmaPullTable::answered(const QueuePairConnection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_.get() != &connection) return;
  const auto found = questions_.find(frame.id);
  if (found == questions_.end()) return;
  const EntryPointer entry = std::move(found->second);
  questions_.erase(found);
  entry->question = 0;
  const auto status = static_cast<ripc_status>(frame.value);
  if (status != RIPC_OK) {
    end(*entry, refusal(status));
    return;
  }
  open(entry, frame.location, static_cast<std::uint32_t>(frame.key), frame.offset != 0);
  read_some();
}

// To an item that was asked for the answer comes too.
void RdmaPullTable::offered(const QueuePairConnection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_.get() != &connection) return;
  if (frame.value == 0) {
    std::erase_if(offers_, [&](const OfferedItem& offer) { return offer.is_of(frame.key, frame.location); });
    return;
  }
  if (offers_.size() == kOffers) offers_.pop_front();
  offers_.push_back({frame.key, frame.location, frame.value, static_cast<std::uint32_t>(frame.id), frame.offset != 0});
}

bool RdmaPullTable::read_done(const QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept {
  if (!is_own(id)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = reads_.find(id);
  if (found == reads_.end() || connection_.get() != &connection) return true;
  const Read read = std::move(found->second);
  reads_.erase(found);
  if (read.ends_lot) --lots_;
  reading_ -= read.length;
  RdmaPull& entry = *read.entry;
  --entry.reads;
  changed_.notify_all();
  if (status == RIPC_OK) {
    entry.landed += read.length;
    if (entry.landed == entry.descriptor.length) {
      const std::uint32_t remote_key = entry.ends_key && registrar_->device()->windows ? entry.remote_key : 0;
      finish_early_locked(entry, *connection_, remote_key);
      end(entry, RIPC_OK);
    }
  } else if (status != RIPC_PEER_DEAD && entry.failure == RIPC_OK) {
    entry.failure = status;
  }
  settle(entry);
  read_some();
  return true;
}

void RdmaPullTable::room(const QueuePairConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_.get() == &connection) read_some();
}

bool RdmaPullTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const EntryPointer& entry) { return entry->step == Step::waiting && entry->is_pending(); });
}

bool RdmaPullTable::is_offered(const wire::Descriptor& item) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(offers_.begin(), offers_.end(),
                     [&](const OfferedItem& offer) { return offer.is_of(item.key, item.location); });
}

std::size_t RdmaPullTable::offers() const noexcept {
  const std::lock_guard lock(mutex_);
  return offers_.size();
}

bool RdmaPullTable::busy() const noexcept {
  const std::lock_guard lock(mutex_);
  return !reads_.empty() || !questions_.empty() || !ready_.empty();
}

}  // namespace ripc::internal::verbs
