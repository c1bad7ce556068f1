// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/transfer_table.hpp"

#include <algorithm>
#include <new>

#include "spi/outcome.hpp"

namespace ripc::internal::shm {

namespace {

constexpr std::uint64_t watched_bit(std::size_t slot) noexcept { return std::uint64_t{1} << (slot % 64); }

constexpr std::uint64_t word(std::uint32_t generation, TransferState state, ripc_status status = RIPC_OK) noexcept {
  return std::uint64_t{generation} << 32 | std::uint64_t{static_cast<std::uint8_t>(status)} << 8 |
         static_cast<std::uint8_t>(state);
}
constexpr std::uint64_t word(std::uint32_t generation, GrantState state) noexcept {
  return std::uint64_t{generation} << 32 | static_cast<std::uint8_t>(state);
}
constexpr std::uint32_t generation_of(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value >> 32); }
constexpr std::uint8_t state_of(std::uint64_t value) noexcept { return static_cast<std::uint8_t>(value); }

bool is_done(Key key, std::uint64_t value) noexcept {
  return generation_of(value) == key.generation && state_of(value) == static_cast<std::uint8_t>(TransferState::done);
}

ripc_status reported_status(std::uint64_t value) noexcept {
  return spi::checked_outcome(static_cast<ripc_status>(static_cast<std::uint8_t>(value >> 8)));
}

}  // namespace

// ---- TransferOwner -------------------------------------------------------------------------------------------

ripc_status TransferOwner::expose(std::span<const ExposedItem> items, Key& key) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_.load(std::memory_order_relaxed)) return RIPC_PEER_DEAD;
  std::uint16_t slot = 0;
  while (slot < slots_.size() && slots_[slot].used) ++slot;
  if (slot == kTransferSlots) return RIPC_AGAIN;
  try {
    if (slot == slots_.size()) slots_.emplace_back();
    slots_[slot].items.assign(items.begin(), items.end());
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  Slot& entry = slots_[slot];
  entry.used = true;
  used_.fetch_add(1, std::memory_order_relaxed);
  entry.revoked = false;
  set_watched(slot, false);
  ++entry.generation;
  control_->transfers[slot].store(word(entry.generation, TransferState::exposed), std::memory_order_release);
  key = {entry.generation, slot, 0};
  return RIPC_OK;
}

ripc_status TransferOwner::status(Key key) noexcept {
  // Read first: what the word says afterwards is what was left of the transfer at the end of the peer.
  const bool dead = dead_.load(std::memory_order_acquire);
  const std::uint64_t value = control_->transfers[key.slot].load(std::memory_order_acquire);
  const bool ours = generation_of(value) == key.generation;
  const auto state = static_cast<TransferState>(state_of(value));
  if (ours && !dead && state != TransferState::done && state != TransferState::drained) return RIPC_PENDING;
  const std::lock_guard lock(mutex_);
  if (ours && !dead && state == TransferState::drained && !slots_[key.slot].revoked) return RIPC_PENDING;
  free_slot(key.slot);
  return outcome(key, value);
}

ripc_status TransferOwner::outcome(Key key, std::uint64_t value) const noexcept {
  if (!is_done(key, value) && dead_.load(std::memory_order_relaxed)) return RIPC_PEER_DEAD;
  if (generation_of(value) != key.generation) return RIPC_CORRUPT;
  return slots_[key.slot].revoked ? RIPC_REVOKED : reported_status(value);
}

ripc_status TransferOwner::revoke(Key key, bool& is_read) noexcept {
  const std::lock_guard lock(mutex_);
  is_read = false;
  std::atomic<std::uint64_t>& shared = control_->transfers[key.slot];
  std::uint64_t value = shared.load(std::memory_order_acquire);
  for (;;) {
    if (is_done(key, value)) {
      free_slot(key.slot);
      return reported_status(value);
    }
    if (dead_.load(std::memory_order_relaxed)) {
      free_slot(key.slot);
      return RIPC_PEER_DEAD;
    }
    if (generation_of(value) == key.generation && state_of(value) == static_cast<std::uint8_t>(TransferState::lent)) {
      is_read = true;
      return RIPC_PENDING;
    }
    const std::uint64_t revoked = word(key.generation, TransferState::revoked);
    if (shared.compare_exchange_weak(value, revoked, std::memory_order_seq_cst, std::memory_order_acquire)) break;
  }
  is_read =
      generation_of(value) == key.generation && state_of(value) == static_cast<std::uint8_t>(TransferState::pulling);
  slots_[key.slot].revoked = is_read;
  if (!is_read) free_slot(key.slot);
  return RIPC_REVOKED;
}

void TransferOwner::peer_died() noexcept {
  const std::lock_guard lock(mutex_);
  // With another generation in the word, a receiver that still runs cannot finish the transfer. Transfers that it had
  // finished stay finished.
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].used && is_finished(slot)) continue;
    control_->transfers[slot].store(word(slots_[slot].generation + 1, TransferState::free), std::memory_order_release);
  }
  // From here on, only this ends transfers: the peer may write into its words for ever.
  dead_.store(true, std::memory_order_release);
}

std::unique_lock<std::mutex> TransferOwner::find(Key key, ExposedItem& item) noexcept {
  std::unique_lock lock(mutex_);
  if (dead_.load(std::memory_order_relaxed) || key.slot >= slots_.size()) return {};
  const Slot& slot = slots_[key.slot];
  if (!slot.used || slot.revoked || slot.generation != key.generation || key.item >= slot.items.size()) return {};
  item = slot.items[key.item];
  return lock;
}

bool TransferOwner::is_finished(std::size_t slot) noexcept {
  const std::uint64_t value = control_->transfers[slot].load(std::memory_order_seq_cst);
  return dead_.load(std::memory_order_relaxed) || generation_of(value) != slots_[slot].generation ||
         state_of(value) == static_cast<std::uint8_t>(TransferState::done);
}

void TransferOwner::watch(Key key) noexcept {
  const std::lock_guard lock(mutex_);
  set_watched(key.slot, true);
  control_->sender.transfers_watched.store(1, std::memory_order_seq_cst);
}

void TransferOwner::watch_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) set_watched(slot, slots_[slot].used);
  control_->sender.transfers_watched.store(1, std::memory_order_seq_cst);
}

// The receiver reads these bits after the request for notification, which the sender stores after them.
void TransferOwner::set_watched(std::size_t slot, bool watched) noexcept {
  if (slots_[slot].watched == watched) return;
  slots_[slot].watched = watched;
  std::atomic<std::uint64_t>& bits = control_->sender.watched[slot / 64];
  const std::uint64_t others = bits.load(std::memory_order_relaxed) & ~watched_bit(slot);
  bits.store(watched ? others | watched_bit(slot) : others, std::memory_order_relaxed);
}

TransferOwner::Finished TransferOwner::collect_finished() noexcept {
  const std::lock_guard lock(mutex_);
  const auto still_watched = [&](const Slot& slot) {
    return slot.used && slot.watched && !is_finished(static_cast<std::size_t>(&slot - slots_.data()));
  };
  // The peer cleared the request when it acted on it. The request must be set again before the words are read.
  if (std::any_of(slots_.begin(), slots_.end(), still_watched))
    control_->sender.transfers_watched.store(1, std::memory_order_seq_cst);
  Finished finished;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].used || !is_finished(slot)) continue;
    const Key key{slots_[slot].generation, static_cast<std::uint16_t>(slot), 0};
    finished.transfers[finished.count++] = {key,
                                            outcome(key, control_->transfers[slot].load(std::memory_order_relaxed))};
  }
  return finished;
}

void TransferOwner::free_slot(std::uint16_t slot) noexcept {
  if (!slots_[slot].used) return;
  slots_[slot].used = false;
  used_.fetch_sub(1, std::memory_order_seq_cst);
}

// ---- GrantOwner ----------------------------------------------------------------------------------------------

ripc_status GrantOwner::grant(Key& key) noexcept {
  const std::lock_guard lock(mutex_);
  if (dead_) return RIPC_PEER_DEAD;
  for (std::uint16_t slot = 0; slot < kGrantSlots; ++slot) {
    if (used_[slot]) continue;
    used_[slot] = true;
    count_.fetch_add(1, std::memory_order_relaxed);
    key = {++generations_[slot], slot, 0};
    control_->grants[slot].store(word(key.generation, GrantState::open), std::memory_order_release);
    return RIPC_OK;
  }
  return RIPC_AGAIN;
}

ripc_status GrantOwner::end(Key key) noexcept {
  const std::lock_guard lock(mutex_);
  if (key.slot >= kGrantSlots || !used_[key.slot] || generations_[key.slot] != key.generation) return RIPC_EMPTY;
  std::atomic<std::uint64_t>& shared = control_->grants[key.slot];
  std::uint64_t value = shared.load(std::memory_order_acquire);
  bool written = false;
  for (;;) {
    const bool ours = generation_of(value) == key.generation;
    const bool is_written = ours && state_of(value) == static_cast<std::uint8_t>(GrantState::writing);
    if (is_written && (!dead_ || (writer_ != nullptr && writer_->is_running()))) return RIPC_PENDING;
    written = ours && state_of(value) == static_cast<std::uint8_t>(GrantState::written);
    const std::uint64_t ended = word(key.generation, GrantState::ended);
    if (shared.compare_exchange_weak(value, ended, std::memory_order_seq_cst, std::memory_order_acquire)) break;
  }
  used_[key.slot] = false;
  count_.fetch_sub(1, std::memory_order_seq_cst);
  return written ? RIPC_OK : RIPC_EMPTY;
}

void GrantOwner::peer_died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
}

// ---- TransferTaker -------------------------------------------------------------------------------------------

ripc_status TransferTaker::begin(Key key) noexcept {
  if (key.slot >= kTransferSlots) return RIPC_CORRUPT;
  std::uint64_t expected = word(key.generation, TransferState::exposed);
  if (control_->transfers[key.slot].compare_exchange_strong(expected, word(key.generation, TransferState::pulling),
                                                            std::memory_order_seq_cst, std::memory_order_acquire))
    return RIPC_OK;
  // A newer generation means that this one was withdrawn and its slot used again.
  return RIPC_REVOKED;
}

bool TransferTaker::mark_lent(Key key) noexcept {
  if (key.slot >= kTransferSlots) return false;
  const std::uint64_t lent = word(key.generation, TransferState::lent);
  std::uint64_t expected = word(key.generation, TransferState::pulling);
  return control_->transfers[key.slot].compare_exchange_strong(expected, lent, std::memory_order_seq_cst,
                                                               std::memory_order_acquire) ||
         expected == lent;
}

ripc_status TransferTaker::finish(Key key, ripc_status status, bool& tell) noexcept {
  if (key.slot >= kTransferSlots) return RIPC_CORRUPT;
  std::atomic<std::uint64_t>& shared = control_->transfers[key.slot];
  std::uint64_t value = shared.load(std::memory_order_acquire);
  ripc_status outcome = RIPC_REVOKED;
  while (generation_of(value) == key.generation) {
    const auto state = static_cast<TransferState>(state_of(value));
    if (state == TransferState::pulling || state == TransferState::lent) {
      if (!shared.compare_exchange_weak(value, word(key.generation, TransferState::done, status),
                                        std::memory_order_seq_cst, std::memory_order_acquire))
        continue;
      outcome = RIPC_OK;
    } else if (state == TransferState::revoked) {
      if (!shared.compare_exchange_weak(value, word(key.generation, TransferState::drained), std::memory_order_seq_cst,
                                        std::memory_order_acquire))
        continue;
    }
    break;
  }
  SenderLine& sender = control_->sender;
  const auto is_watched = [&] {
    return (sender.watched[key.slot / 64].load(std::memory_order_seq_cst) & watched_bit(key.slot)) != 0;
  };
  tell = sender.transfers_watched.load(std::memory_order_seq_cst) != 0 && is_watched() &&
         sender.transfers_watched.exchange(0, std::memory_order_seq_cst) != 0;
  return outcome;
}

bool TransferTaker::begin_write(Key grant) noexcept {
  if (grant.slot >= kGrantSlots) return false;
  const std::uint64_t open = word(grant.generation, GrantState::open);
  const std::uint64_t written = word(grant.generation, GrantState::written);
  std::uint64_t value = open;
  do {
    if (control_->grants[grant.slot].compare_exchange_strong(value, word(grant.generation, GrantState::writing),
                                                             std::memory_order_seq_cst, std::memory_order_acquire))
      return true;
    // `written` is allowed: the reply that was to announce an earlier write could not be sent.
  } while (value == open || value == written);
  return false;
}

void TransferTaker::end_write(Key grant, bool written) noexcept {
  std::uint64_t expected = word(grant.generation, GrantState::writing);
  control_->grants[grant.slot].compare_exchange_strong(
      expected, word(grant.generation, written ? GrantState::written : GrantState::open), std::memory_order_seq_cst,
      std::memory_order_acquire);
}

}  // namespace ripc::internal::shm
