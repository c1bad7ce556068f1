// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/bulk/rdma_push_table.hpp"

#include <algorithm>
#include <new>

namespace ripc::internal::verbs {

namespace {

namespace bulk = wire::bulk;

constexpr std::uint32_t kPushPiece = std::uint32_t{1} << 20;
constexpr std::size_t kMostWrites = 32;  // of one push under way

}  // namespace

// ---- The replier ---------------------------------------------------------------------------------------------

std::shared_ptr<QueuePairConnection> RdmaPushTable::connection() const noexcept {
  const std::lock_guard lock(mutex_);
  return connection_;
}

// The requester's own pull finds out what is wrong, and tells the sender.
ripc_status RdmaPushTable::find_memory(RdmaPush& push, Registrar& registrar) noexcept {
  if (push.bytes().empty() || (push.memory.region && push.memory.region->device() == registrar.device().get()))
    return RIPC_OK;
  Result<LocalMemory> memory = registrar.local(push.bytes().data(), push.bytes().size(), false);
  if (!memory.ok()) return memory.status().code() == RIPC_CANCELLED ? RIPC_CANCELLED : RIPC_UNSUPPORTED;
  push.memory = std::move(*memory);
  return RIPC_OK;
}

RdmaPushTable::PushPointer RdmaPushTable::begin(const wire::Grant& grant, spi::Bytes bytes) {
  PushPointer push;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) return nullptr;
    push = std::make_shared<RdmaPush>(grant, bytes, next_id_);
    next_id_ += 2;
  }
  // Without the lock, before anyone else knows the push.
  std::shared_ptr<QueuePairConnection> present = connection();
  const std::shared_ptr<Registrar> registrar = registrar_.get();
  Registrar* const there = present ? &present->registrar() : registrar.get();
  const ripc_status failure = there != nullptr ? find_memory(*push, *there) : RIPC_UNSUPPORTED;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) return nullptr;
    entries_.emplace(push->id(), push);
    if (failure == RIPC_OK) {
      place(*push);
    } else {
      push->end(failure);
    }
    present = connection_;
  }
  if (present) present->flush();
  return push;
}

bool RdmaPushTable::needs_connection(const RdmaPush& push) const noexcept {
  const std::lock_guard lock(mutex_);
  return push.is_pending() && !push.over;
}

ripc_status RdmaPushTable::wait(RdmaPush& push) noexcept {
  const ripc_status status = push.wait(loop_, patience_);
  // The device must have finished with the bytes, even if the push failed.
  std::shared_ptr<QueuePairConnection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (push.writes != 0) connection = push.over;
  }
  if (connection) connection->cut();
  close(push);
  return status;
}

void RdmaPushTable::died() noexcept {
  {
    const std::lock_guard lock(mutex_);
    dead_ = true;
    connection_.reset();
    writes_.clear();
    for (auto& [id, push] : entries_) push->writes = 0;
  }
  end_all(RIPC_PEER_DEAD, [](const RdmaPush&) { return true; });
}

// ---- Steps; with the lock held -------------------------------------------------------------------------------

bulk::Frame RdmaPushTable::frame_of(const RdmaPush& push, bulk::Type type) noexcept {
  return {.type = type,
          .id = push.id(),
          .key = push.grant().key,
          .location = push.grant().location,
          .value = push.bytes().size()};
}

void RdmaPushTable::place(RdmaPush& push) noexcept {
  if (!connection_) return;
  // The push may have waited since an earlier device was in use.
  if (const ripc_status failure = find_memory(push, connection_->registrar()); failure != RIPC_OK) {
    push.end(failure);
    return;
  }
  push.over = connection_;
  if (push.bytes().empty()) {
    tell(push);
  } else if (push.over->enqueue(frame_of(push, bulk::Type::ask_write))) {
    push.step = Step::asked;
  }
  if (push.step == Step::waiting) push.over.reset();
  push.connection = push.over.get();
}

void RdmaPushTable::write_some(RdmaPush& push) noexcept {
  const std::uint32_t piece = std::min(kPushPiece, push.over->device().max_message);
  const spi::Bytes bytes = push.bytes();
  while (push.next != bytes.size() && push.writes < kMostWrites) {
    const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(piece, bytes.size() - push.next));
    const std::uint64_t id = next_id_;
    try {
      writes_.emplace(id, entries_.at(push.id()));
    } catch (const std::bad_alloc&) {
      push.end(RIPC_UNSUPPORTED);
      return;
    }
    // An RDMA write only reads this memory.
    auto* const local = const_cast<std::byte*>(bytes.data() + push.next);
    if (!push.over->post({.write = true,
                          .local = local,
                          .local_key = push.memory.region->local_key(),
                          .remote = push.remote + push.next,
                          .remote_key = push.remote_key,
                          .length = length,
                          .id = id})) {
      writes_.erase(id);
      // Others fill the queue, or the connection is being lost; an event will report either.
      if (push.writes == 0) push.end(RIPC_UNSUPPORTED);
      return;
    }
    next_id_ += 2;
    push.next += length;
    ++push.writes;
  }
  // A message that is sent after the writes arrives after them.
  if (push.next == bytes.size() && push.step == Step::writing) tell(push);
}

void RdmaPushTable::tell(RdmaPush& push) noexcept {
  if (push.over->enqueue(frame_of(push, bulk::Type::written))) push.step = Step::announced;
}

// The answer may overtake the completions of the writes, and a bad peer may even answer before it has received
// anything. The device may read the bytes until it reports completion.
void RdmaPushTable::settle(RdmaPush& push) noexcept {
  if (push.step == Step::answered && push.writes == 0) push.end(push.answer);
}

// ---- Connections and what they bring -------------------------------------------------------------------------

void RdmaPushTable::place_all(const std::shared_ptr<QueuePairConnection>& connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  connection_ = connection;
  for (auto& [id, push] : entries_) {
    if (push->is_pending() && push->step == Step::waiting) place(*push);
  }
}

void RdmaPushTable::connection_lost(const QueuePairConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  if (connection_.get() == &connection) connection_.reset();
  std::erase_if(writes_, [&](const auto& write) { return write.second->over.get() == &connection; });
  for (auto& [id, push] : entries_) {
    if (push->over.get() != &connection) continue;
    push->writes = 0;
    settle(*push);
    if (push->step != Step::waiting) push->end(RIPC_UNSUPPORTED);
  }
}

bool RdmaPushTable::answered(const QueuePairConnection& connection, const bulk::Frame& frame) noexcept {
  if (frame.id % 2 == 0) return false;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.id);
  if (found == entries_.end()) return true;
  RdmaPush& push = *found->second;
  if (push.over.get() != &connection || push.step != Step::asked || !push.is_pending()) return true;
  push.note_progress();
  const auto status = static_cast<ripc_status>(frame.value);
  if (status != RIPC_OK) {
    push.end(status == RIPC_REVOKED ? RIPC_REVOKED : RIPC_UNSUPPORTED);
    return true;
  }
  push.step = Step::writing;
  push.remote = frame.location;
  push.remote_key = static_cast<std::uint32_t>(frame.key);
  write_some(push);
  return true;
}

void RdmaPushTable::pushed(const QueuePairConnection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.id);
  if (found == entries_.end()) return;
  RdmaPush& push = *found->second;
  if (push.over.get() != &connection || push.step != Step::announced) return;
  push.step = Step::answered;
  push.answer = static_cast<ripc_status>(frame.value) == RIPC_OK ? RIPC_OK : RIPC_REVOKED;
  push.note_progress();
  settle(push);
}

void RdmaPushTable::write_done(const QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = writes_.find(id);
  if (found == writes_.end() || found->second->over.get() != &connection) return;
  const PushPointer push = std::move(found->second);
  writes_.erase(found);
  --push->writes;
  push->note_progress();
  if (status == RIPC_OK) {
    if (push->is_pending() && push->step == Step::writing) write_some(*push);
    settle(*push);
  } else if (status != RIPC_PEER_DEAD) {
    push->end(status);
  }
}

}  // namespace ripc::internal::verbs
