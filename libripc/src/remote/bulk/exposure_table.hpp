// SPDX-License-Identifier: Apache-2.0
// What this side of a session exposes to the peer. The table is the single source of truth about a transfer: the peer
// may deliver what it pulled only if its Finish finds the transfer still exposed.
//
//   free -> exposed -> done(status)     the peer finished it; it could not be read; the session or its channel ended
//              +-----> free             withdrawn
//
// A descriptor's key holds the slot in its low 12 bits, and 52 random bits. Its location holds the item in its low 8
// bits, and 56 random bits that are the same for all items of a transfer. Both must match, and both expire with the
// transfer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "remote/bulk/access.hpp"
#include "remote/bulk/frame_sender.hpp"
#include "remote/bulk/limits.hpp"
#include "remote/bulk/slot_table.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::internal::remote {

class ExposureTable {
 public:
  // ---- For the owner; any thread. As the calls of Bulk with these names. ----
  ripc_status expose(std::uint64_t owner, std::span<const spi::Exposure> items, std::span<wire::Descriptor> descriptors,
                     std::uint64_t& transfer) noexcept;
  ripc_status prepare_announcement(std::uint64_t transfer, std::size_t size) noexcept;
  // False: the peer has asked for it already.
  bool announced(std::uint64_t transfer, spi::Gather packet) noexcept;
  ripc_status status(std::uint64_t transfer) noexcept;
  bool watch(std::uint64_t transfer) noexcept;
  bool has_room() const noexcept { return slots_.has(1); }
  // `closed`, if not null, gets the items that were open to the peer's device.
  struct Closed {
    std::uint64_t key = 0;
    std::uint64_t location = 0;
  };
  ripc_status revoke(std::uint64_t transfer, std::vector<Closed>* closed = nullptr) noexcept;
  void end_owner(std::uint64_t owner) noexcept;
  void died() noexcept;

  // An announcement to be sent again.
  struct Unrequested {
    std::uint64_t owner = 0;
    std::vector<std::byte> packet;
  };
  // In the responder. Collects the announcements that are due, of transfers that the peer has not asked for; true if
  // there are any such transfers. Throws std::bad_alloc: some may have to wait for a later call.
  bool find_unrequested(Nanoseconds now, std::vector<Unrequested>& due);

  // ---- For the peer's requests; in the responder or the mover ----
  // What to notify when a transfer has finished.
  struct Watcher {
    bool watched = false;
    std::uint64_t owner = 0;
    std::uint64_t transfer = 0;
    ripc_status status = RIPC_OK;
  };

  // The given part of an item. RIPC_REVOKED: the item is not exposed to this peer, or is not that long.
  Reading read(std::uint64_t key, std::uint64_t location, std::uint64_t offset, std::uint64_t length) noexcept;

  // The memory of an item, as it was exposed.
  struct Item {
    spi::Bytes bytes;
    const memory::Arena* arena = nullptr;  // what it lies in; null: memory of the application
    memory::Residence residence;
  };
  // Calls serves(item, remote_key) with each remote key that the peer's devices have for the item. Unless one of them
  // serves, calls make(item), which opens the memory to one of the devices. Keeps the result until the transfer ends,
  // and then ends the key. The result is a Result of a shared_ptr<RemoteKey>, a RemoteAccess with `is_open()`. `asked`:
  // the peer has asked for it. RIPC_REVOKED as for read(); else what make() fails with.
  template <typename RemoteKey, typename Serves, typename Make>
  ripc_status admit(std::uint64_t key, std::uint64_t location, bool asked, Serves&& serves, Make&& make) noexcept {
    Slot* slot = find_by_key(key);
    if (slot == nullptr) return RIPC_REVOKED;
    const std::lock_guard lock(slot->mutex);
    const std::uint64_t item = item_of(location);
    if (!slot->is_named(key, location) || item >= slot->items.size()) return RIPC_REVOKED;
    slot->is_requested = slot->is_requested || asked;
    if (!slot->is(State::exposed)) return slot->is_cancelled() ? RIPC_CANCELLED : RIPC_REVOKED;
    // All that the caller ever made are of this class; naming it here would name a transport.
    const auto remote_key_of = [](const Opened& one) -> RemoteKey& { return static_cast<RemoteKey&>(*one.remote_key); };
    std::erase_if(slot->opened, [&](const Opened& one) { return !remote_key_of(one).is_open(); });
    for (const Opened& one : slot->opened) {
      if (one.item == item && serves(slot->items[item], remote_key_of(one))) return RIPC_OK;
    }
    try {
      slot->opened.reserve(slot->opened.size() + 1);
    } catch (const std::bad_alloc&) {
      return RIPC_NO_MEMORY;
    }
    Result<std::shared_ptr<RemoteKey>> made = make(slot->items[item]);
    if (!made.ok()) return made.status().code();
    slot->opened.push_back({item, std::move(*made)});
    return RIPC_OK;
  }

  // The memory behind it cannot be read: the transfer ends with this status, RIPC_CANCELLED or RIPC_LIMIT.
  Watcher fail(std::uint64_t key, std::uint64_t location, ripc_status status = RIPC_CANCELLED) noexcept;

  // The peer's Finish, which came over the connection. Sends the answer (RIPC_OK or RIPC_REVOKED) before the owner can
  // see the end. An owner that exits as soon as it knows must not take the answer with it. The same Finish gets the
  // same answer again.
  Watcher finish(const wire::bulk::Frame& frame, FrameSender& connection) noexcept;

  // The same in two steps, for several at once: first the status to answer, then, when the answers are on their way,
  // the end. In between no one else can access the transfer, and the caller may do so only by complete(). `ending` is
  // empty before.
  class Ending;
  ripc_status answer_to(std::uint64_t key, std::uint64_t location, ripc_status status, Ending& ending) noexcept;
  static Watcher complete(Ending&& ending) noexcept;

 private:
  // A slow receiver must not be flooded.
  static constexpr Nanoseconds kFirstRepeat = 100'000'000;
  static constexpr Nanoseconds kLongestPause = 2'000'000'000;
  enum class State : std::uint8_t { free, exposed, done };
  struct Taken {
    std::uint64_t key = 0;
    std::uint64_t nonce = 0;
  };
  struct Opened {
    std::uint64_t item = 0;
    std::shared_ptr<RemoteAccess> remote_key;
  };
  struct Slot {
    std::atomic<std::uint64_t> word{0};  // generation << 32 | status << 8 | state
    std::mutex mutex;                    // held while the memory is read, and for all below
    std::uint32_t generation = 0;
    std::uint16_t index = 0;
    bool watched = false;
    bool is_requested = false;  // the peer knows of it
    std::uint64_t owner = 0;
    std::uint64_t key = 0;
    std::uint64_t nonce = 0;  // of the location
    std::vector<Item> items;
    std::vector<Opened> opened;     // to the peer's devices
    std::vector<std::byte> packet;  // that announced it; empty: none did
    Nanoseconds repeat_at = 0;      // 0: no one has looked since it was announced
    Backoff pause{kFirstRepeat, kLongestPause};
    std::list<Taken> remembered;  // a place in taken_, for when it is finished

    bool is(State state) const noexcept { return static_cast<State>(word.load(std::memory_order_relaxed)) == state; }
    bool is_named(std::uint64_t other_key, std::uint64_t location) const noexcept {
      return key == other_key && nonce == location >> 8;
    }
    bool is_cancelled() const noexcept;
    void set(State state, ripc_status status = RIPC_OK) noexcept;
    void free() noexcept;
  };

  static std::uint64_t item_of(std::uint64_t location) noexcept { return location & 0xff; }
  static std::uint64_t name_of(const Slot& slot) noexcept;
  Slot* find_by_key(std::uint64_t key) const noexcept;
  Slot& slot_of(std::uint64_t transfer) const noexcept;
  static Watcher end(Slot& slot, ripc_status status) noexcept;  // with its mutex held
  bool was_taken(std::uint64_t key, std::uint64_t location) noexcept;
  void remember(Slot& slot) noexcept;

  SlotTable<Slot, kMaxTransfers> slots_;
  std::atomic<bool> dead_{false};
  std::mutex taken_mutex_;
  // The transfers that were finished last, so that a Finish repeated after the loss of a connection gets its answer.
  // The peer waits for no more answers than there can be transfers.
  std::list<Taken> taken_;
};

// A transfer that the peer has finished, before its owner can see that. Empty: there is no such transfer.
class ExposureTable::Ending {
 public:
  // Whether the transfer that this key names cannot be accessed while this object holds its slot.
  bool holds(std::uint64_t key) const noexcept { return slot_ != nullptr && (slot_->key ^ key) % kMaxTransfers == 0; }

 private:
  friend class ExposureTable;
  Slot* slot_ = nullptr;
  std::unique_lock<std::mutex> lock_;
  ripc_status status_ = RIPC_OK;
};

}  // namespace ripc::internal::remote
