// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/registration_cache.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/event_signal.hpp"

namespace ripc::verbs {

using memory::MappingWatch;

namespace {

memory::AddressRange bytes_of(const void* data, std::size_t size) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  return {start, start + size};
}

}  // namespace

RegistrationCache::RegistrationCache(Limits limits)
    : limits_(limits), changed_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

RegistrationCache::~RegistrationCache() {
  if (!watch_) return;
  Registrations ended;
  ended.reserve(slots_.size());
  {
    const std::lock_guard lock(watch_->mutex());
    for (Slot& slot : slots_) {
      if (slot.registration) ended.push_back(std::move(slot.registration));
      const Range pages = slot.pages;
      const bool watched = is_watched(slot);
      clear(slot);
      if (watched) unwatch(pages);
    }
  }
  ended.clear();
  watch_.reset();
}

// The thread of the watch is there when it is needed first.
bool RegistrationCache::start() {
  std::call_once(started_, [this] {
    if (limits_.bytes == 0 || limits_.count == 0) return;
    slots_.resize(limits_.count);
    Result<std::unique_ptr<MappingWatch>> watch = MappingWatch::create(*this);
    if (!watch.ok()) return;
    watch_ = std::move(*watch);
    works_.store(true, std::memory_order_release);
  });
  return works_.load(std::memory_order_acquire);
}

// ---- Use -----------------------------------------------------------------------------------------------------

RegistrationCache::Registration RegistrationCache::find(const void* owner, const void* data, std::size_t size,
                                                        bool exact) {
  if (!start()) return nullptr;
  const Range wanted = bytes_of(data, size);
  const Range pages = memory::pages_of(data, size);
  if (pages.empty()) return nullptr;
  const std::lock_guard lock(watch_->mutex());
  for (Slot& slot : slots_) {
    if (slot.use != Use::kept || slot.owner != owner) continue;
    if (exact ? slot.bytes != wanted : !slot.bytes.contains(wanted)) continue;
    const MappingWatch::State state = watch_->unchanged(pages);
    if (slot.use != Use::kept) continue;
    if (state == MappingWatch::State::changed) drop(slot, {});
    if (state != MappingWatch::State::same) continue;
    slot.last_use = ++uses_;
    ++counters_.hits;
    return slot.registration;
  }
  ++counters_.misses;
  return nullptr;
}

RegistrationCache::Making RegistrationCache::begin(const void* owner, const void* data, std::size_t size) {
  if (!start()) return {};
  const Range pages = memory::pages_of(data, size);
  Making making;
  Registrations ended;
  ended.reserve(slots_.size());
  // Pages that come later would look as if they had been exchanged; but nothing is to be written to a file for it.
  if (pages.size() <= limits_.bytes && memory::is_plain_memory(pages) &&
      (memory::is_resident(pages) || memory::make_resident(pages))) {
    const std::lock_guard lock(watch_->mutex());
    take_dropped(ended);
    if (Slot* const slot = make_room(pages.size(), ended); slot != nullptr) {
      slot->use = Use::making;
      slot->owner = owner;
      slot->bytes = bytes_of(data, size);
      slot->pages = pages;
      slot->number = ++last_number_;
      counters_.bytes += pages.size();
      making = {static_cast<std::size_t>(slot - slots_.data()), slot->number};
      if (!watch_->add(pages)) {
        clear(*slot);
        unwatch(pages);
        making = {};
      }
    }
  }
  ended.clear();
  // Other memory can lose its pages, or get others, where nobody tells. Asked again now that a change would be told.
  if (making && !memory::is_plain_memory(pages)) {
    abandon(making);
    making = {};
  }
  if (!making) {
    const std::lock_guard lock(watch_->mutex());
    ++counters_.refusals;
  }
  return making;
}

void RegistrationCache::commit(const Making& making, const Registration& registration) noexcept {
  const std::lock_guard lock(watch_->mutex());
  Slot& slot = slots_[making.slot];
  if (slot.number != making.number) return;
  const MappingWatch::State state = watch_->unchanged(slot.pages);
  if (slot.number != making.number) return;
  if (state == MappingWatch::State::same) {
    slot.registration = registration;
    slot.use = Use::kept;
    slot.last_use = ++uses_;
    ++counters_.kept;
  } else {
    drop(slot, {});
  }
}

void RegistrationCache::abandon(const Making& making) noexcept {
  const std::lock_guard lock(watch_->mutex());
  if (slots_[making.slot].number == making.number) drop(slots_[making.slot], {});
}

// ---- Ending --------------------------------------------------------------------------------------------------

void RegistrationCache::clear(Slot& slot) noexcept {
  if (is_watched(slot)) counters_.bytes -= slot.pages.size();
  if (slot.use == Use::kept) --counters_.kept;
  slot.use = Use::free;
  slot.number = 0;
}

// `changed`: pages that the kernel does not watch any more, or that may be somebody else's by now.
void RegistrationCache::drop(Slot& slot, const Range& changed) noexcept {
  const bool was_kept = slot.use == Use::kept;
  const Range pages = slot.pages;
  clear(slot);
  if (was_kept) {
    slot.use = Use::dropped;
    ++counters_.invalidations;
    signal_event(changed_fd_.get());
  }
  if (changed.empty()) {
    unwatch(pages);
  } else {
    unwatch({pages.start, std::min(pages.end, changed.start)});
    unwatch({std::max(pages.start, changed.end), pages.end});
  }
}

// Those of these pages that no other slot needs.
void RegistrationCache::unwatch(const Range& pages) noexcept {
  for (std::uintptr_t position = pages.start; position < pages.end;) {
    std::uintptr_t end = pages.end;
    bool needed = false;
    for (const Slot& slot : slots_) {
      if (!is_watched(slot) || slot.pages.end <= position) continue;
      if (slot.pages.start <= position) {
        position = slot.pages.end;
        needed = true;
        break;
      }
      end = std::min(end, slot.pages.start);
    }
    if (needed) continue;
    watch_->remove({position, end});
    position = end;
  }
}

RegistrationCache::Range RegistrationCache::changed(const Range& pages) noexcept {
  Range free{0, UINTPTR_MAX & ~(memory::page_size() - 1)};
  for (Slot& slot : slots_) {
    if (is_watched(slot) && slot.pages.overlaps(pages)) drop(slot, pages);
  }
  for (const Slot& slot : slots_) {
    if (!is_watched(slot)) continue;
    if (slot.pages.end <= pages.start) free.start = std::max(free.start, slot.pages.end);
    if (slot.pages.start >= pages.end) free.end = std::min(free.end, slot.pages.start);
  }
  return free;
}

bool RegistrationCache::evict_one(Registrations& ended) noexcept {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    // Copies are made with the lock only, so what nobody else has now stays so.
    if (slot.use != Use::kept || slot.registration.use_count() != 1) continue;
    if (oldest == nullptr || slot.last_use < oldest->last_use) oldest = &slot;
  }
  if (oldest == nullptr) return false;
  ended.push_back(std::move(oldest->registration));
  const Range pages = oldest->pages;
  clear(*oldest);
  unwatch(pages);
  ++counters_.evictions;
  return true;
}

RegistrationCache::Slot* RegistrationCache::make_room(std::uint64_t bytes, Registrations& ended) noexcept {
  while (counters_.bytes + bytes > limits_.bytes) {
    if (!evict_one(ended)) return nullptr;
  }
  for (;;) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& one) { return one.use == Use::free; });
    if (slot != slots_.end()) return &*slot;
    if (!evict_one(ended)) return nullptr;
  }
}

void RegistrationCache::take_dropped(Registrations& ended) noexcept {
  for (Slot& slot : slots_) {
    if (slot.use != Use::dropped) continue;
    ended.push_back(std::move(slot.registration));
    slot.use = Use::free;
  }
}

void RegistrationCache::reap() {
  if (!works_.load(std::memory_order_acquire)) return;
  clear_event(changed_fd_.get());
  Registrations ended;
  ended.reserve(slots_.size());
  const std::lock_guard lock(watch_->mutex());
  take_dropped(ended);
}

bool RegistrationCache::drop_idle() {
  if (!works_.load(std::memory_order_acquire)) return false;
  Registrations ended;
  ended.reserve(slots_.size());
  const std::lock_guard lock(watch_->mutex());
  take_dropped(ended);
  while (evict_one(ended)) {
  }
  return !ended.empty();
}

RegistrationCache::Counters RegistrationCache::counters() const {
  if (!works_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(watch_->mutex());
  return counters_;
}

}  // namespace ripc::verbs
