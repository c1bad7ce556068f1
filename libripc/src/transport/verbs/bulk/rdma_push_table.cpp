// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/rdma_push_table.hpp"

#include <algorithm>

#include "base/loop_wait.hpp"

namespace ripc::verbs {

namespace {

namespace bulk = wire::bulk;

constexpr std::uint32_t kPushPiece = std::uint32_t{1} << 20;
constexpr std::size_t kMostWrites = 32;  // of one push under way

}  // namespace

// ---- The replier ---------------------------------------------------------------------------------------------

RdmaPushTable::EntryPointer RdmaPushTable::begin(const wire::Grant& grant, spi::Bytes bytes) noexcept {
  auto entry = std::make_shared<Entry>();
  entry->grant = grant;
  entry->bytes = bytes;
  if (!bytes.empty()) {
    Result<LocalMemory> memory = registrar_->local(bytes.data(), bytes.size(), false);
    if (memory.ok()) {
      entry->memory = std::move(*memory);
    } else {
      // The requester's own pull finds out what is wrong, and says so to the sender.
      entry->status = memory.status().code() == RIPC_CANCELLED ? RIPC_CANCELLED : RIPC_UNSUPPORTED;
    }
  }
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) return nullptr;
    entry->id = next_id_;
    next_id_ += 2;
    entries_.emplace(entry->id, entry);
    if (entry->status == RIPC_PENDING) place(*entry);
    connection = connection_;
  }
  if (connection) connection->flush();
  return entry;
}

bool RdmaPushTable::needs_connection(const Entry& entry) const noexcept {
  const std::lock_guard lock(mutex_);
  return entry.status == RIPC_PENDING && !connection_;
}

ripc_status RdmaPushTable::wait(Entry& entry) noexcept {
  std::unique_lock lock(mutex_);
  while (entry.status == RIPC_PENDING) {
    const std::uint64_t seen = entry.progress;
    (void)wait_in(loop_, lock, changed_, Deadline::after(patience_), [&] { return entry.status != RIPC_PENDING; });
    if (entry.status == RIPC_PENDING && entry.progress == seen) entry.status = RIPC_UNSUPPORTED;
  }
  // Whatever ended it, the device must be through with the bytes.
  if (entry.writes != 0 && connection_) {
    const std::shared_ptr<Connection> connection = connection_;
    lock.unlock();
    connection->cut();
    lock.lock();
  }
  const ripc_status status = entry.status;
  entries_.erase(entry.id);
  return status;
}

void RdmaPushTable::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  connection_.reset();
  writes_.clear();
  for (auto& [id, entry] : entries_) {
    entry->writes = 0;
    end(*entry, RIPC_PEER_DEAD);
  }
}

// ---- Steps; with the lock held -------------------------------------------------------------------------------

bulk::Frame RdmaPushTable::frame_of(const Entry& entry, bulk::Type type) const noexcept {
  return {.type = type,
          .id = entry.id,
          .key = entry.grant.key,
          .location = entry.grant.location,
          .value = entry.bytes.size()};
}

void RdmaPushTable::place(Entry& entry) noexcept {
  if (!connection_) return;
  if (entry.bytes.empty()) {
    tell(entry);
  } else if (connection_->enqueue(frame_of(entry, bulk::Type::ask_write))) {
    entry.step = Step::asked;
  }
}

void RdmaPushTable::write_some(Entry& entry) noexcept {
  const std::uint32_t piece = std::min(kPushPiece, registrar_->device()->max_message);
  while (entry.next != entry.bytes.size() && entry.writes < kMostWrites) {
    const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(piece, entry.bytes.size() - entry.next));
    const std::uint64_t id = next_id_;
    // An RDMA write only reads here.
    auto* const local = const_cast<std::byte*>(entry.bytes.data() + entry.next);
    if (!connection_->post({.write = true,
                            .local = local,
                            .local_key = entry.memory.region->local_key(),
                            .remote = entry.remote + entry.next,
                            .remote_key = entry.remote_key,
                            .length = length,
                            .id = id})) {
      // Others have the queue, or the connection is being lost: both are told of.
      if (entry.writes == 0) end(entry, RIPC_UNSUPPORTED);
      return;
    }
    next_id_ += 2;
    writes_.emplace(id, entries_.at(entry.id));
    entry.next += length;
    ++entry.writes;
  }
  // What is sent after the writes arrives after them.
  if (entry.next == entry.bytes.size() && entry.step == Step::writing) tell(entry);
}

void RdmaPushTable::tell(Entry& entry) noexcept {
  if (connection_->enqueue(frame_of(entry, bulk::Type::written))) entry.step = Step::told;
}

// The answer may overtake the completions of what it answers, and a peer may give it before it has anything: until the
// device says that it is through, it reads the bytes.
void RdmaPushTable::settle(Entry& entry) noexcept {
  if (entry.step == Step::answered && entry.writes == 0) end(entry, entry.answer);
}

void RdmaPushTable::end(Entry& entry, ripc_status status) noexcept {
  if (entry.status != RIPC_PENDING) return;
  entry.status = status;
  changed_.notify_all();
}

// ---- Connections and what they bring -------------------------------------------------------------------------

void RdmaPushTable::connection_made(std::shared_ptr<Connection> connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  connection_ = std::move(connection);
  for (auto& [id, entry] : entries_) {
    if (entry->status == RIPC_PENDING && entry->step == Step::waiting) place(*entry);
  }
}

// A push is not repeated: the reply tells the requester to pull.
void RdmaPushTable::connection_lost(const Connection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_.get() != &connection) return;
  connection_.reset();
  writes_.clear();
  for (auto& [id, entry] : entries_) {
    entry->writes = 0;
    settle(*entry);
    if (entry->step != Step::waiting) end(*entry, RIPC_UNSUPPORTED);
  }
}

void RdmaPushTable::no_connection() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry->step == Step::waiting) end(*entry, RIPC_UNSUPPORTED);
  }
}

bool RdmaPushTable::answered(const Connection& connection, const bulk::Frame& frame) noexcept {
  if (frame.id % 2 == 0) return false;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.id);
  if (found == entries_.end() || connection_.get() != &connection) return true;
  Entry& entry = *found->second;
  if (entry.step != Step::asked || entry.status != RIPC_PENDING) return true;
  ++entry.progress;
  const auto status = static_cast<ripc_status>(frame.value);
  if (status != RIPC_OK) {
    end(entry, status == RIPC_REVOKED ? RIPC_REVOKED : RIPC_UNSUPPORTED);
    return true;
  }
  entry.step = Step::writing;
  entry.remote = frame.location;
  entry.remote_key = static_cast<std::uint32_t>(frame.key);
  write_some(entry);
  return true;
}

void RdmaPushTable::pushed(const Connection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.id);
  if (found == entries_.end() || connection_.get() != &connection || found->second->step != Step::told) return;
  const auto status = static_cast<ripc_status>(frame.value);
  Entry& entry = *found->second;
  entry.step = Step::answered;
  entry.answer = status == RIPC_OK ? RIPC_OK : RIPC_REVOKED;
  ++entry.progress;
  settle(entry);
}

void RdmaPushTable::write_done(const Connection& connection, std::uint64_t id, ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = writes_.find(id);
  if (found == writes_.end() || connection_.get() != &connection) return;
  const EntryPointer entry = std::move(found->second);
  writes_.erase(found);
  --entry->writes;
  ++entry->progress;
  if (status == RIPC_OK) {
    if (entry->status == RIPC_PENDING && entry->step == Step::writing) write_some(*entry);
    settle(*entry);
  } else if (status != RIPC_PEER_DEAD) {
    end(*entry, status);
  }
}

bool RdmaPushTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry.second->status == RIPC_PENDING && entry.second->step == Step::waiting;
  });
}

bool RdmaPushTable::busy() const noexcept {
  const std::lock_guard lock(mutex_);
  return !entries_.empty();
}

}  // namespace ripc::verbs
