// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/exposure_table.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "spi/outcome.hpp"

namespace ripc::internal::remote {

namespace {

constexpr std::uint64_t kTransferMask = kMaxTransfers - 1;
static_assert((kMaxTransfers & kTransferMask) == 0);
static_assert(RIPC_MAX_ITEMS <= 0x100);

// How many announcements one look repeats. The others wait for the next look, so that the responder is not held up.
constexpr std::size_t kMostAtATime = 8;

// So kMaxTransfers free slots keep 8 MiB at most.
constexpr std::size_t kKeptPacket = 2048;

constexpr auto status_of(std::uint64_t value) noexcept {
  return static_cast<ripc_status>(static_cast<std::uint8_t>(value >> 8));
}

}  // namespace

bool ExposureTable::Slot::is_cancelled() const noexcept {
  return is(State::done) && status_of(word.load(std::memory_order_relaxed)) == RIPC_CANCELLED;
}

// The memory of a transfer is closed before any thread can see that it is no longer exposed. A thread that ends a
// connection may still hold a remote key that it is only about to end.
void ExposureTable::Slot::set(State state, ripc_status status) noexcept {
  if (state != State::exposed) {
    for (const Opened& one : opened) one.remote_key->end();
    opened.clear();
  }
  word.store(
      std::uint64_t{generation} << 32 | static_cast<std::uint64_t>(status) << 8 | static_cast<std::uint8_t>(state),
      std::memory_order_release);
}

void ExposureTable::Slot::free() noexcept {
  set(State::free);
  // The next transfer in the slot needs a buffer, but not such a large one.
  if (packet.capacity() > kKeptPacket) std::vector<std::byte>().swap(packet);
}

std::uint64_t ExposureTable::name_of(const Slot& slot) noexcept {
  return std::uint64_t{slot.generation} << 32 | slot.index;
}
ExposureTable::Slot* ExposureTable::find_by_key(std::uint64_t key) const noexcept {
  return slots_.find(key & kTransferMask);
}
ExposureTable::Slot& ExposureTable::slot_of(std::uint64_t transfer) const noexcept {
  return *slots_.find(transfer & kTransferMask);
}

// ---- The owner -----------------------------------------------------------------------------------------------

ripc_status ExposureTable::expose(std::uint64_t owner, std::span<const spi::Exposure> items,
                                  std::span<wire::Descriptor> descriptors, std::uint64_t& transfer) noexcept {
  std::uint16_t index = 0;
  Slot* slot = nullptr;
  if (const ripc_status status = slots_.acquire(index, slot); status != RIPC_OK) return status;
  const std::lock_guard lock(slot->mutex);
  try {
    slot->items.reserve(items.size());
    if (slot->remembered.empty()) slot->remembered.emplace_back();
  } catch (const std::bad_alloc&) {
    slots_.release(index);
    return RIPC_NO_MEMORY;
  }
  if (dead_.load(std::memory_order_acquire)) {
    slots_.release(index);
    return RIPC_PEER_DEAD;
  }
  slot->index = index;
  ++slot->generation;
  slot->watched = false;
  slot->is_requested = false;
  slot->packet.clear();
  slot->owner = owner;
  slot->key = (random_u64() & ~kTransferMask) | index;
  slot->nonce = random_u64() >> 8;
  slot->items.clear();
  for (std::size_t item = 0; item < items.size(); ++item) {
    const memory::Hold* hold = items[item].hold;
    slot->items.push_back({.bytes = items[item].bytes,
                           .arena = hold != nullptr ? hold->arena() : nullptr,
                           .residence = hold != nullptr ? hold->residence() : memory::Residence()});
    descriptors[item] = {.key = slot->key, .location = slot->nonce << 8 | item, .length = items[item].bytes.size()};
  }
  transfer = name_of(*slot);
  slot->set(State::exposed);
  return RIPC_OK;
}

ripc_status ExposureTable::prepare_announcement(std::uint64_t transfer, std::size_t size) noexcept try {
  Slot& slot = slot_of(transfer);
  const std::lock_guard lock(slot.mutex);
  slot.packet.reserve(size);
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

bool ExposureTable::announced(std::uint64_t transfer, spi::Gather packet) noexcept {
  Slot& slot = slot_of(transfer);
  const std::lock_guard lock(slot.mutex);
  if (!slot.is(State::exposed) || slot.is_requested) return false;
  for (const spi::Bytes range : packet) slot.packet.insert(slot.packet.end(), range.begin(), range.end());
  slot.pause.reset();
  slot.repeat_at = 0;
  return true;
}

bool ExposureTable::find_unrequested(Nanoseconds now, std::vector<Unrequested>& due) {
  bool any = false;
  slots_.for_each([&](Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    if (!slot.is(State::exposed) || slot.is_requested || slot.packet.empty()) return;
    any = true;
    // The sender does not read the clock: most announcements are answered before the first look.
    if (slot.repeat_at == 0) slot.repeat_at = now + slot.pause.next();
    if (now < slot.repeat_at || due.size() == kMostAtATime) return;
    due.push_back({slot.owner, slot.packet});
    slot.repeat_at = now + slot.pause.next();
  });
  return any;
}

ripc_status ExposureTable::status(std::uint64_t transfer) noexcept {
  Slot& slot = slot_of(transfer);
  if (static_cast<State>(slot.word.load(std::memory_order_acquire)) == State::exposed) return RIPC_PENDING;
  ripc_status status = RIPC_OK;
  {
    const std::lock_guard lock(slot.mutex);
    status = status_of(slot.word.load(std::memory_order_relaxed));
    slot.free();
  }
  slots_.release(slot.index);
  return status;
}

ripc_status ExposureTable::revoke(std::uint64_t transfer, std::vector<Closed>* closed) noexcept {
  Slot& slot = slot_of(transfer);
  ripc_status status = RIPC_REVOKED;
  {
    const std::lock_guard lock(slot.mutex);
    if (slot.is(State::done)) status = status_of(slot.word.load(std::memory_order_relaxed));
    try {
      if (closed != nullptr) {
        for (const Opened& one : slot.opened) closed->push_back({slot.key, slot.nonce << 8 | one.item});
      }
    } catch (const std::bad_alloc&) {
      // If the peer still reads one of the others, the connection is lost.
    }
    slot.free();
  }
  slots_.release(slot.index);
  return status;
}

bool ExposureTable::watch(std::uint64_t transfer) noexcept {
  Slot& slot = slot_of(transfer);
  const std::lock_guard lock(slot.mutex);
  slot.watched = true;
  return slot.is(State::exposed);
}

void ExposureTable::end_owner(std::uint64_t owner) noexcept {
  slots_.for_each([&](Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    if (slot.is(State::exposed) && slot.owner == owner) (void)end(slot, RIPC_PEER_DEAD);
  });
}

void ExposureTable::died() noexcept {
  // An exposing thread reads this with the slot's mutex held: it either sees it, or its transfer is found below.
  dead_.store(true, std::memory_order_release);
  slots_.for_each([](Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    if (slot.is(State::exposed)) (void)end(slot, RIPC_PEER_DEAD);
  });
}

// ---- The peer ------------------------------------------------------------------------------------------------

Reading ExposureTable::read(std::uint64_t key, std::uint64_t location, std::uint64_t offset,
                            std::uint64_t length) noexcept {
  Slot* slot = find_by_key(key);
  if (slot == nullptr) return {.status = RIPC_REVOKED};
  std::unique_lock lock(slot->mutex);
  const std::uint64_t item = item_of(location);
  if (slot->is_named(key, location) && item < slot->items.size()) {
    slot->is_requested = true;
    const auto& [bytes, arena, residence] = slot->items[item];
    if (slot->is(State::exposed) && offset <= bytes.size() && length <= bytes.size() - offset)
      return {std::move(lock), bytes.subspan(offset, length), RIPC_OK, residence.pin()};
    if (slot->is_cancelled()) return {.status = RIPC_CANCELLED};
  }
  return {.status = RIPC_REVOKED};
}

ExposureTable::Watcher ExposureTable::fail(std::uint64_t key, std::uint64_t location, ripc_status status) noexcept {
  Slot* slot = find_by_key(key);
  if (slot == nullptr) return {};
  const std::lock_guard lock(slot->mutex);
  if (!slot->is(State::exposed) || !slot->is_named(key, location)) return {};
  return end(*slot, status);
}

ExposureTable::Watcher ExposureTable::finish(const wire::bulk::Frame& frame, FrameSender& connection) noexcept {
  Ending ending;
  const ripc_status outcome = answer_to(frame.key, frame.location, static_cast<ripc_status>(frame.value), ending);
  (void)connection.send({.type = wire::bulk::Type::finished,
                         .key = frame.key,
                         .location = frame.location,
                         .value = static_cast<std::uint64_t>(outcome)});
  return complete(std::move(ending));
}

ripc_status ExposureTable::answer_to(std::uint64_t key, std::uint64_t location, ripc_status status,
                                     Ending& ending) noexcept {
  Slot* slot = find_by_key(key);
  if (slot == nullptr) return RIPC_REVOKED;
  std::unique_lock lock(slot->mutex);
  if (!slot->is(State::exposed) || !slot->is_named(key, location))
    return was_taken(key, location) ? RIPC_OK : RIPC_REVOKED;
  slot->is_requested = true;
  remember(*slot);
  ending.slot_ = slot;
  ending.lock_ = std::move(lock);
  ending.status_ = spi::checked_outcome(status);
  return RIPC_OK;
}

ExposureTable::Watcher ExposureTable::complete(Ending&& ending) noexcept {
  if (ending.slot_ == nullptr) return {};
  const std::unique_lock lock = std::move(ending.lock_);
  return end(*std::exchange(ending.slot_, nullptr), ending.status_);
}

ExposureTable::Watcher ExposureTable::end(Slot& slot, ripc_status status) noexcept {
  slot.set(State::done, status);
  return {slot.watched, slot.owner, name_of(slot), status};
}

bool ExposureTable::was_taken(std::uint64_t key, std::uint64_t location) noexcept {
  const std::lock_guard lock(taken_mutex_);
  return std::any_of(taken_.begin(), taken_.end(),
                     [&](const Taken& taken) { return taken.key == key && taken.nonce == location >> 8; });
}

void ExposureTable::remember(Slot& slot) noexcept {
  slot.remembered.front() = {slot.key, slot.nonce};
  const std::lock_guard lock(taken_mutex_);
  taken_.splice(taken_.end(), slot.remembered);
  // The oldest entry makes room, and its list node is kept for the next one.
  if (taken_.size() > kMaxTransfers) slot.remembered.splice(slot.remembered.begin(), taken_, taken_.begin());
}

}  // namespace ripc::internal::remote
