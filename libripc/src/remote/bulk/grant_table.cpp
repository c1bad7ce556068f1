// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/grant_table.hpp"

#include "base/random.hpp"

namespace ripc::internal::remote {

namespace {

constexpr std::uint64_t kGrantMask = kMaxGrants - 1;
static_assert((kMaxGrants & kGrantMask) == 0);

}  // namespace

void GrantTable::Slot::end() noexcept {
  if (destination) destination->take_away();
  destination.reset();
  if (state != State::written && state != State::free) state = State::ended;
}

ripc_status GrantTable::grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept {
  std::uint16_t index = 0;
  Slot* slot = nullptr;
  if (const ripc_status status = slots_.acquire(index, slot); status != RIPC_OK) return status;
  const std::lock_guard lock(slot->mutex);
  if (dead_.load(std::memory_order_acquire)) {
    slots_.release(index);
    return RIPC_PEER_DEAD;
  }
  slot->state = State::open;
  slot->owner = owner;
  slot->key = (random_u64() & ~kGrantMask) | index;
  slot->location = random_u64();
  slot->size = memory.size();
  slot->memory = memory.data();
  grant = {.key = slot->key, .location = slot->location, .length = memory.size()};
  return RIPC_OK;
}

ripc_status GrantTable::end_grant(const wire::Grant& grant) noexcept {
  Slot* slot = slots_.find(grant.key & kGrantMask);
  if (slot == nullptr) return RIPC_EMPTY;
  bool written = false;
  {
    const std::lock_guard lock(slot->mutex);
    if (!slot->is_named(grant.key, grant.location)) return RIPC_EMPTY;
    slot->end();
    written = slot->state == State::written;
    slot->state = State::free;
  }
  slots_.release(static_cast<std::uint16_t>(grant.key & kGrantMask));
  return written ? RIPC_OK : RIPC_EMPTY;
}

void GrantTable::end_owner(std::uint64_t owner) noexcept {
  slots_.for_each([&](Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    if (slot.owner == owner) slot.end();
  });
}

void GrantTable::died() noexcept {
  dead_.store(true, std::memory_order_release);
  slots_.for_each([](Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    slot.end();
  });
}

std::shared_ptr<Destination> GrantTable::begin_frame(const void* connection, const wire::bulk::Frame& frame) {
  Slot* slot = slots_.find(frame.key & kGrantMask);
  if (slot == nullptr) return nullptr;
  const std::lock_guard lock(slot->mutex);
  // `written` is allowed: the reply that was to announce an earlier write could not be sent.
  const bool may_write = slot->state == State::open || slot->state == State::written;
  if (may_write && slot->is_named(frame.key, frame.location) && frame.offset == 0 && frame.value <= slot->size) {
    slot->destination = std::make_shared<Destination>();
    slot->state = State::writing;
    slot->connection = connection;
    slot->push = frame.id;
    slot->total = frame.value;
    slot->received = 0;
    slot->destination->memory = slot->memory;
  }
  return slot->is_written_by(connection, frame) ? slot->destination : nullptr;
}

ripc_status GrantTable::end_frame(const void* connection, const wire::bulk::Frame& frame, ripc_status status) noexcept {
  Slot* slot = slots_.find(frame.key & kGrantMask);
  if (slot == nullptr) return RIPC_REVOKED;
  const std::lock_guard lock(slot->mutex);
  if (!slot->is_written_by(connection, frame)) return RIPC_REVOKED;
  // Empty frames that make no progress would go on for ever.
  if (status == RIPC_OK && frame.length == 0 && frame.value != 0) status = RIPC_CORRUPT;
  slot->received += frame.length;
  if (status == RIPC_OK && slot->received != slot->total) return RIPC_PENDING;
  slot->close(status == RIPC_OK ? State::written : State::open);
  return status;
}

ripc_status GrantTable::complete(const void* connection, const wire::bulk::Frame& frame) noexcept {
  Slot* slot = slots_.find(frame.key & kGrantMask);
  if (slot == nullptr) return RIPC_REVOKED;
  const std::lock_guard lock(slot->mutex);
  if (!slot->is_written_by(connection, frame)) return RIPC_REVOKED;
  slot->close(State::written);
  return RIPC_OK;
}

void GrantTable::connection_lost(const void* connection) noexcept {
  slots_.for_each([&](Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    if (slot.state == State::writing && slot.connection == connection) slot.close(State::open);
  });
}

}  // namespace ripc::internal::remote
