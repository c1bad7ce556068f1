// SPDX-License-Identifier: Apache-2.0
#include "memory/pool.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include "memory/pool_implementation.hpp"

namespace ripc::internal::memory {
namespace {

std::uintptr_t address_of(const void* data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

bool wraps_around(const void* data, std::size_t size) noexcept { return size > UINTPTR_MAX - address_of(data); }

}  // namespace

// ---- Hold ------------------------------------------------------------------------------------------------------

void Hold::reset() noexcept {
  if (place_.arena != nullptr) {
    Pool::Implementation& pool = *place_.owner->implementation_;
    const std::lock_guard guard(pool.mutex);
    pool.end_hold(*this);
  }
  place_ = {};
}

// ---- Leases ----------------------------------------------------------------------------------------------------

Result<std::byte*> Pool::Implementation::lease(Lock& lock, std::size_t size) {
  // No arena for this size can exist, however much is freed.
  if (size > limit || size > static_cast<std::size_t>(PTRDIFF_MAX)) return limit_reached(size);
  return size > kLargestPooled ? lease_own_arena(lock, size) : lease_pooled(lock, size);
}

Result<std::byte*> Pool::Implementation::lease_pooled(Lock& lock, std::size_t size) {
  for (bool grown = false;;) {
    if (const Piece piece = take_piece(size)) {
      piece.lease->size = size;
      piece.lease->state = LeaseState::leased;
      if (!grown) ++reuses;
      return piece.arena->base + piece.start;
    }
    // One thread adds an arena for all that need one.
    if (growing) {
      changed.wait(lock);
      continue;
    }
    bool at_limit = false;
    const Result<PoolArena*> arena = grow_alone(lock, stretch_for(size), at_limit);
    if (arena.ok()) {
      grown = true;
    } else if (at_limit) {
      // A block is up to twice as large as the lease; an arena of its own fits it more closely.
      return size >= kArenaAlignment ? lease_own_arena(lock, size) : limit_reached(size);
    } else if (arena.status().code() != RIPC_AGAIN) {
      return arena.status();
    }
  }
}

Result<std::byte*> Pool::Implementation::lease_own_arena(Lock& lock, std::size_t size) {
  const std::size_t rounded = (size - 1) / kArenaAlignment * kArenaAlignment + kArenaAlignment;
  for (;;) {
    PoolArena* arena = nullptr;
    // Do not take an arena that is much too large, because all of it counts against the limit.
    if (const auto fit = unused.lower_bound(rounded); fit != unused.end() && fit->first / 2 <= rounded) {
      arena = fit->second;
      arena->unused_node = unused.extract(fit);
      ++reuses;
    } else {
      bool at_limit = false;
      const Result<PoolArena*> made = grow(lock, rounded, rounded, true, at_limit);
      if (at_limit) return limit_reached(size);
      if (made.status().code() == RIPC_AGAIN) continue;
      if (!made.ok()) return made.status();
      arena = made.value();
    }
    arena->lease.size = size;
    arena->lease.state = LeaseState::leased;
    return arena->base;
  }
}

Piece Pool::Implementation::take_piece(std::size_t size) {
  if (size <= kLargestSlot) return slabs.take(slab_class_of(size));
  Block* const block = blocks.take(block_units(size));
  if (block == nullptr) return {};
  block->kind = BlockKind::leased;
  const auto unit = static_cast<std::uint64_t>(block - block->arena->blocks.get());
  return Piece{block->arena, block, &block->lease, unit * kUnitSize};
}

void Pool::Implementation::free_piece(const Piece& piece) noexcept {
  leased -= piece.lease->size;
  piece.lease->size = 0;
  piece.lease->state = LeaseState::free;
  if (piece.block == nullptr) {
    unused.insert(std::move(piece.arena->unused_node));
  } else if (piece.block->slab != nullptr) {
    slabs.give_back(piece);
  } else {
    blocks.give_back(*piece.block);
  }
}

void Pool::Implementation::end_lease(const Piece& piece) noexcept {
  ++releases;
  if (piece.lease->holds > 0) {
    ++deferred_releases;
    piece.lease->state = LeaseState::released;
  } else {
    free_piece(piece);
  }
}

Piece Pool::Implementation::held_piece(const Hold& hold) const noexcept {
  // Every arena of this pool is a PoolArena; the hold only exposes a const view of it.
  auto& arena = const_cast<PoolArena&>(static_cast<const PoolArena&>(*hold.arena()));
  const Piece piece = piece_at(arena, hold.offset());
  assert(piece && piece.lease->holds > 0);
  return piece;
}

void Pool::Implementation::end_hold(const Hold& hold) noexcept {
  const Piece piece = held_piece(hold);
  if (--piece.lease->holds == 0 && piece.lease->state == LeaseState::released) free_piece(piece);
}

// ---- Lookup ----------------------------------------------------------------------------------------------------

PoolArena* Pool::Implementation::arena_below(std::uintptr_t address) const noexcept {
  const auto above =
      std::upper_bound(arenas.begin(), arenas.end(), address,
                       [](std::uintptr_t value, const auto& arena) { return value < address_of(arena->base); });
  return above == arenas.begin() ? nullptr : std::prev(above)->get();
}

Piece Pool::Implementation::piece_of(const void* address) const noexcept {
  PoolArena* const arena = arena_below(address_of(address));
  if (arena == nullptr || !arena->contains(address_of(address))) return {};
  return piece_at(*arena, address_of(address) - address_of(arena->base));
}

bool Pool::Implementation::touches_arena(const void* data, std::size_t size) const noexcept {
  const PoolArena* const arena = arena_below(address_of(data) + (size - 1));
  return arena != nullptr && address_of(arena->base) + arena->size > address_of(data);
}

// ---- Pool ------------------------------------------------------------------------------------------------------

Pool::Pool(std::uint64_t limit) : implementation_(std::make_unique<Implementation>(limit)) {}

Pool::~Pool() = default;

void Pool::set_arena_observer(const void* owner, std::function<void(std::uint32_t)> observer) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->arena_observers[owner] = std::move(observer);
}

void Pool::set_registration_observer(std::function<void(std::span<std::byte>)> observer) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->registration_observer = std::move(observer);
}

void Pool::set_hold_ender(std::function<void()> ender) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->hold_ender = std::move(ender);
}

Result<std::byte*> Pool::lease(std::size_t size) {
  Implementation& pool = *implementation_;
  size = std::max<std::size_t>(size, 1);
  Implementation::Lock lock(pool.mutex);
  try {
    Result<std::byte*> data = pool.lease(lock, size);
    if (data.status().code() == RIPC_NO_MEMORY && pool.hold_ender) {
      lock.unlock();
      pool.hold_ender();
      lock.lock();
      data = pool.lease(lock, size);
    }
    if (data.ok()) {
      ++pool.leases;
      pool.leased += size;
    } else {
      ++pool.failures;
    }
    return data;
  } catch (const std::bad_alloc&) {
    ++pool.failures;
    return RIPC_NO_MEMORY;
  }
}

Status Pool::release(void* data) {
  Implementation& pool = *implementation_;
  const std::lock_guard guard(pool.mutex);
  const Piece piece = pool.piece_of(data);
  if (!piece || piece.lease->state != LeaseState::leased || piece.arena->base + piece.start != data) {
    return Status(RIPC_INVALID_ARGUMENT,
                  "The address is not the start of a leased buffer, or the buffer was released already; release each "
                  "buffer once, with the address that the lease gave.");
  }
  pool.end_lease(piece);
  return RIPC_OK;
}

void Pool::release(const Hold& hold) noexcept {
  if (hold.place_.arena == nullptr) return;
  Implementation& pool = *implementation_;
  const std::lock_guard guard(pool.mutex);
  const Piece piece = pool.held_piece(hold);
  if (piece.lease->state == LeaseState::leased) pool.end_lease(piece);
}

Status Pool::register_memory(void* data, std::size_t size) {
  if (data == nullptr || size == 0 || wraps_around(data, size)) {
    return Status(RIPC_INVALID_ARGUMENT, "Only a range of at least one byte of existing memory can be registered.");
  }
  Implementation& pool = *implementation_;
  const std::lock_guard guard(pool.mutex);
  if (pool.touches_arena(data, size)) {
    const Piece piece = pool.piece_of(data);
    const std::uint64_t offset = piece ? address_of(data) - address_of(piece.arena->base) : 0;
    if (!piece || piece.lease->state != LeaseState::leased || !piece.covers(offset) ||
        size > piece.start + piece.lease->size - offset) {
      return Status(RIPC_INVALID_ARGUMENT,
                    "The range has bytes of the buffer pool but does not lie inside one leased buffer; leased buffers "
                    "need no registration.");
    }
  }
  try {
    if (pool.registrations.add(static_cast<std::byte*>(data), size)) ++pool.registration_hits;
    return RIPC_OK;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
}

Status Pool::unregister_memory(void* data, std::span<std::byte>* ended) {
  Implementation& pool = *implementation_;
  std::span<std::byte> range;
  std::shared_ptr<Registration> registration;
  Registrations::Removal removal;
  {
    const std::lock_guard guard(pool.mutex);
    removal = pool.registrations.remove(data, range, registration);
  }
  if (registration) {
    const std::lock_guard unpinned(registration->mutex);
    registration->ended = true;
  }
  const bool is_last = removal == Registrations::Removal::last;
  if (is_last && pool.registration_observer) pool.registration_observer(range);
  if (ended != nullptr) *ended = is_last ? range : std::span<std::byte>();
  if (removal != Registrations::Removal::unknown) return RIPC_OK;
  return Status(RIPC_INVALID_ARGUMENT,
                "No registered range starts at the address; unregister with the address that was registered, once for "
                "each registration.");
}

Result<std::span<std::byte>> Pool::find(const void* address) const {
  const Implementation& pool = *implementation_;
  const std::lock_guard guard(pool.mutex);
  const Piece piece = pool.piece_of(address);
  if (piece && piece.lease->state == LeaseState::leased &&
      piece.covers(address_of(address) - address_of(piece.arena->base))) {
    return std::span<std::byte>(piece.arena->base + piece.start, piece.lease->size);
  }
  const std::span<std::byte> range = pool.registrations.find(address);
  if (!range.empty()) return range;
  return Status(RIPC_INVALID_ARGUMENT,
                "The address is in no leased buffer and in no registered memory; lease or register it first.");
}

std::span<std::byte> Pool::registration_of(const void* data, std::size_t size) const noexcept {
  if (size == 0) return {};
  const Implementation& pool = *implementation_;
  const std::lock_guard guard(pool.mutex);
  return pool.registrations.find(data, size);
}

Result<Hold> Pool::hold(const void* data, std::size_t size) {
  if ((data == nullptr && size > 0) || wraps_around(data, size)) {
    return Status(RIPC_INVALID_ARGUMENT, "The range is not memory; pass the address and size of existing memory.");
  }
  Implementation& pool = *implementation_;
  Hold hold;
  const std::lock_guard guard(pool.mutex);
  const Piece piece = pool.piece_of(data);
  const std::uint64_t offset = piece ? address_of(data) - address_of(piece.arena->base) : 0;
  const bool leased = piece && piece.lease->state == LeaseState::leased && piece.covers(offset);
  if (leased) {
    if (size > piece.start + piece.lease->size - offset) {
      return Status(RIPC_INVALID_ARGUMENT,
                    "The range starts in a leased buffer and runs past its end; keep it inside the size that was "
                    "leased, or lease a larger buffer.");
    }
    ++piece.lease->holds;
    hold.place_ = {this, piece.arena, offset, piece.lease->size, Residence::pooled()};
  } else if (size > 0 && pool.touches_arena(data, size)) {
    return Status(RIPC_INVALID_ARGUMENT,
                  "The range has bytes of the buffer pool that are not leased (any more); lease a buffer, and release "
                  "it only after the send call.");
  } else if (size > 0) {
    hold.place_.residence = Residence(pool.registrations.registration_of(data, size));
  }
  hold.place_.owner = this;
  return hold;
}

Result<Hold> Pool::copy(std::span<const std::byte> bytes) {
  const Result<std::byte*> to = lease(bytes.size());
  if (!to.ok()) return to.status();
  std::memcpy(*to, bytes.data(), bytes.size());
  Result<Hold> held = hold(*to, bytes.size());
  (void)release(*to);
  return held;
}

Result<std::shared_ptr<std::byte>> Pool::share(std::size_t size) try {
  const Result<std::byte*> memory = lease(size);
  if (!memory.ok()) return memory.status();
  return std::shared_ptr<std::byte>(*memory, [this](std::byte* data) { (void)release(data); });
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void Pool::fill_statistics(ripc_pool_statistics& statistics) const {
  const Implementation& pool = *implementation_;
  const std::lock_guard guard(pool.mutex);
  statistics.limit = pool.limit;
  statistics.reserved = pool.reserved;
  statistics.leased = pool.leased;
  statistics.leases = pool.leases;
  statistics.reuses = pool.reuses;
  statistics.releases = pool.releases;
  statistics.deferred_releases = pool.deferred_releases;
  statistics.failures = pool.failures;
  statistics.arenas = pool.arenas.size();
  statistics.huge_page_arenas = pool.huge_page_arenas;
  statistics.registrations = pool.registrations.size();
  statistics.registration_hits = pool.registration_hits;
}

}  // namespace ripc::internal::memory
