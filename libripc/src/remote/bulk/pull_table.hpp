// SPDX-License-Identifier: Apache-2.0
// The pulls of one session, as far as they do not depend on what carries the bytes. The table keeps each pull, and
// which parts of it were asked for, from the beginning of its transfer until the receiver has its status. Each backend
// derives its own table.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/bulk/finish_table.hpp"
#include "remote/bulk/lanes.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::remote {

struct ByteRange {
  std::uint64_t begin;
  std::uint64_t end;
};

// One pull; `Derived` is the class that derives from this one. It lives from prepare() to the end of the pull, and
// Pull::progress is its address. It has all the memory that it needs.
template <typename Derived>
struct PullEntry {
  // Throws std::bad_alloc.
  PullEntry(const wire::Descriptor& item, EventSet& receiver) : descriptor(item), events(&receiver) {
    // As many segments as can be lost at once.
    constexpr std::uint64_t kMostReturned = 128;
    returned.reserve(std::min(item.length / RailPace::kLeastPart + 1, kMostReturned));
    turn.push_back(static_cast<Derived*>(this));
  }

  std::atomic<ripc_status> status{RIPC_PENDING};
  // The table's lock guards the rest.
  wire::Descriptor descriptor;
  EventSet* events;
  bool finishes = false;            // the transfer, when it ends well
  std::uint64_t next = 0;           // first byte that was not asked for
  std::vector<ByteRange> returned;  // asked for and lost
  std::uint64_t landed = 0;         // bytes that are there
  typename std::list<std::shared_ptr<Derived>>::iterator place;
  std::list<Derived*> turn;  // this entry, while it does not wait for its turn
  bool ready = false;        // it does

  bool is_pending() const noexcept { return status.load(std::memory_order_relaxed) == RIPC_PENDING; }
  bool has_unasked() const noexcept { return next != descriptor.length || !returned.empty(); }
  std::uint64_t unasked() const noexcept {
    std::uint64_t bytes = descriptor.length - next;
    for (const ByteRange& range : returned) bytes += range.end - range.begin;
    return bytes;
  }
  // Takes the range to ask for next, lost ranges first: up to `segment` bytes.
  ByteRange take_unasked(std::uint64_t segment) noexcept {
    if (!returned.empty()) {
      ByteRange& last = returned.back();
      const std::uint64_t start = std::exchange(last.begin, last.begin + std::min(segment, last.end - last.begin));
      const ByteRange range{.begin = start, .end = last.begin};
      if (last.begin == last.end) returned.pop_back();
      return range;
    }
    const std::uint64_t begin = std::exchange(next, next + std::min(segment, descriptor.length - next));
    return {.begin = begin, .end = next};
  }
};

// Any thread may call anything, unless a line says otherwise.
template <typename Entry>
class PullTable {
 public:
  using EntryPointer = std::shared_ptr<Entry>;
  using Entries = std::list<EntryPointer>;

  // `finishes`: of the same session.
  explicit PullTable(FinishTable& finishes) noexcept : finishes_(finishes) {}

  // Allocates what the pulls of some items will need, so that pull() takes no memory. RIPC_NO_MEMORY.
  static ripc_status prepare(std::span<const wire::Descriptor> items, EventSet& events, Entries& prepared) noexcept
      try {
    for (const wire::Descriptor& item : items) add(prepared, item, events);
    return RIPC_OK;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  void add_prepared(Entries prepared) noexcept {
    const std::lock_guard lock(mutex_);
    prepared_.splice(prepared_.end(), prepared);
  }
  // Items of this key that were not pulled so far will not be pulled any more.
  void drop_prepared(std::uint64_t key) noexcept {
    const std::lock_guard lock(mutex_);
    prepared_.remove_if([key](const auto& entry) { return entry->descriptor.key == key; });
  }
  // As Bulk::forget.
  void forget(const EventSet& events) noexcept {
    const std::lock_guard lock(mutex_);
    prepared_.remove_if([&](const auto& entry) { return entry->events == &events; });
    for (const auto& entry : entries_) {
      if (entry->events == &events) entry->events = nullptr;
    }
  }

 protected:
  static Entry* entry_of(const spi::Pull& pull) noexcept { return reinterpret_cast<Entry*>(pull.progress); }

  // A call of pull() that is not the first one of that pull.
  ripc_status look_at(spi::Pull& pull) noexcept {
    Entry* const entry = entry_of(pull);
    const ripc_status status = entry->status.load(std::memory_order_acquire);
    if (status == RIPC_PENDING) return pull.status = status;
    const std::lock_guard lock(mutex_);
    entries_.erase(entry->place);
    pull.progress = 0;
    if (status == RIPC_OK) pull.copies = 1;
    return pull.status = status;
  }

  // ---- With the lock held ----
  // The first call. Null: `pull.status` tells why.
  Entry* begin_locked(spi::Pull& pull, EventSet& events) noexcept {
    if (dead_) {
      pull.status = RIPC_PEER_DEAD;
      return nullptr;
    }
    auto place = std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& entry) {
      return entry->descriptor.key == pull.descriptor.key && entry->descriptor.location == pull.descriptor.location;
    });
    if (place == prepared_.end()) {
      try {
        add(prepared_, pull.descriptor, events);
      } catch (const std::bad_alloc&) {
        pull.status = RIPC_NO_MEMORY;
        return nullptr;
      }
      place = std::prev(prepared_.end());
    }
    Entry& entry = **place;
    entries_.splice(entries_.end(), prepared_, place);
    entry.descriptor = pull.descriptor;
    entry.events = &events;
    entry.finishes = pull.finishes;
    pull.progress = reinterpret_cast<std::uint64_t>(&entry);
    pull.status = RIPC_PENDING;
    return &entry;
  }

  // Makes the entry wait for its turn to ask, if it has something to ask for.
  void make_ready_locked(Entry& entry) noexcept {
    if (entry.ready || !entry.has_unasked()) return;
    entry.ready = true;
    ready_.splice(ready_.end(), entry.turn);
  }
  void make_unready_locked(Entry& entry) noexcept {
    if (!std::exchange(entry.ready, false)) return;
    entry.turn.splice(entry.turn.end(), ready_, std::find(ready_.begin(), ready_.end(), &entry));
  }

  // Takes out a pull that no one waits for any more.
  EntryPointer take_out_locked(spi::Pull& pull) noexcept {
    const auto place = entry_of(pull)->place;
    pull.progress = 0;
    EntryPointer entry = std::move(*place);
    entries_.erase(place);
    entry->events = nullptr;
    return entry;
  }

  // All bytes are there: sends the Finish early. The receiver has nothing to do before the answer, which wakes it.
  // `remote_key` as in FinishTable::tell_early().
  void finish_early_locked(Entry& entry, FrameSender& connection, std::uint32_t remote_key = 0) noexcept {
    if (entry.finishes && entry.events != nullptr &&
        finishes_.tell_early(entry.descriptor, *entry.events, connection, remote_key))
      entry.events = nullptr;
  }

  // The status comes last: a thread that sees it may free the destination.
  static void end_locked(Entry& entry, ripc_status status) noexcept {
    EventSet* const events = std::exchange(entry.events, nullptr);
    entry.status.store(status, std::memory_order_release);
    if (events != nullptr) events->wake();
  }

  // Any other status means that the peer does not hand out the bytes.
  static ripc_status refusal(ripc_status status) noexcept {
    return status == RIPC_CANCELLED ? RIPC_CANCELLED : RIPC_REVOKED;
  }

  FinishTable& finishes_;
  mutable std::mutex mutex_;
  bool dead_ = false;
  Entries prepared_;
  Entries entries_;
  std::list<Entry*> ready_;  // of entries_: those that have something to ask for; they take turns

 private:
  static void add(Entries& entries, const wire::Descriptor& item, EventSet& events) {
    auto entry = std::make_shared<Entry>(item, events);
    Entry& added = *entry;
    added.place = entries.insert(entries.end(), std::move(entry));
  }
};

}  // namespace ripc::internal::remote
