// SPDX-License-Identifier: Apache-2.0
// Transfers and grants: who may read or write which memory, and until when. Each has one 64-bit word in the link's
// control page, which both sides change by compare-and-swap:
//
//   bits 32-63 generation | bits 16-31 zero | bits 8-15 status | bits 0-7 state
//
//   transfer   free -> exposed -> pulling [-> lent] -> done(status)          the receiver took it
//                        |           |
//                        +-----------+----> revoked -> drained               the sender withdrew it
//   grant      free -> open -> writing -> written                            the replier wrote
//                        +-------------------------> ended                   the requester withdrew it
//
// A receiver may use what it pulled only if its step to `done` succeeds. So memory that was withdrawn during the pull
// can never be delivered torn.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "ripc/ripc.h"
#include "spi/transport.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/process_memory.hpp"

namespace ripc::internal::shm {

// The `key` of a descriptor or grant.
struct Key {
  std::uint32_t generation;
  std::uint16_t slot;
  std::uint16_t item;

  static constexpr Key from(std::uint64_t value) noexcept {
    return {static_cast<std::uint32_t>(value >> 32), static_cast<std::uint16_t>(value >> 16),
            static_cast<std::uint16_t>(value)};
  }
  constexpr std::uint64_t value() const noexcept {
    return std::uint64_t{generation} << 32 | std::uint64_t{slot} << 16 | item;
  }
};

enum class TransferState : std::uint8_t { free, exposed, pulling, lent, done, revoked, drained };
enum class GrantState : std::uint8_t { free, open, writing, written, ended };

// ---- The end that owns the memory ----------------------------------------------------------------------------

// Where an exposed item lies.
struct ExposedItem {
  const std::byte* data;
  std::size_t size;
  std::uint32_t arena;  // 0: foreign memory
};

class TransferOwner {
 public:
  explicit TransferOwner(std::byte* base) noexcept : control_(reinterpret_cast<Control*>(base)) {}

  // RIPC_OK and the transfer's key (item 0), or RIPC_AGAIN.
  ripc_status expose(std::span<const ExposedItem> items, Key& key) noexcept;
  ripc_status status(Key key) noexcept;                 // as Channel::poll_transfer
  ripc_status revoke(Key key, bool& is_read) noexcept;  // as Channel::revoke
  // The peer is gone: ends everything; no one reads any more.
  void peer_died() noexcept;
  // Finds the item that a peer asks for because it cannot map memory. No lock unless it is exposed and being pulled. As
  // long as the lock is held, the transfer does not end, so its memory stays as it is.
  std::unique_lock<std::mutex> find(Key key, ExposedItem& item) noexcept;
  // Asks the receiver to report when this transfer, and no other, finishes.
  void watch(Key key) noexcept;
  // The same for all transfers. A receiver that closes reports that, too.
  void watch_all() noexcept;
  // True if expose() would find a free slot, or report that the peer died.
  bool has_room() const noexcept { return used_.load(std::memory_order_seq_cst) < kTransferSlots; }
  // Called when the receiver has reported an end: collects what has finished. Other watched transfers stay watched.
  struct Finished {
    struct Transfer {
      Key key;
      ripc_status status;
    };
    std::array<Transfer, kTransferSlots> transfers{};
    std::size_t count = 0;
  };
  Finished collect_finished() noexcept;

 private:
  struct Slot {
    std::uint32_t generation = 0;
    bool used = false;
    bool revoked = false;
    bool watched = false;
    std::vector<ExposedItem> items;
  };
  bool is_finished(std::size_t slot) noexcept;
  // The outcome of a transfer that is not pending; `value` is its word.
  ripc_status outcome(Key key, std::uint64_t value) const noexcept;
  void set_watched(std::size_t slot, bool watched) noexcept;
  void free_slot(std::uint16_t slot) noexcept;

  Control* control_;
  std::mutex mutex_;
  std::atomic<bool> dead_{false};  // written under mutex_
  std::vector<Slot> slots_;
  std::atomic<std::size_t> used_{0};
};

class GrantOwner {
 public:
  // `writer`: the process that may write; nullptr: it is not known.
  explicit GrantOwner(std::byte* base, const PeerProcess* writer = nullptr) noexcept
      : control_(reinterpret_cast<Control*>(base)), writer_(writer) {}

  ripc_status grant(Key& key) noexcept;
  // Ends the grant. RIPC_OK: it was written; RIPC_EMPTY: it was not; RIPC_PENDING: a write is going on, ask again.
  ripc_status end(Key key) noexcept;
  // True if this many grants are free.
  bool has_room(std::size_t count) const noexcept {
    return kGrantSlots - count_.load(std::memory_order_seq_cst) >= count;
  }
  // The peer is gone, perhaps because it broke the protocol or closed the service: its process may still write.
  void peer_died() noexcept;

 private:
  Control* control_;
  const PeerProcess* writer_;
  std::mutex mutex_;
  bool dead_ = false;
  std::array<std::uint32_t, kGrantSlots> generations_{};
  std::array<bool, kGrantSlots> used_{};
  std::atomic<std::size_t> count_{0};  // of used_
};

// ---- The end that reads or writes it -------------------------------------------------------------------------

class TransferTaker {
 public:
  explicit TransferTaker(std::byte* base) noexcept : control_(reinterpret_cast<Control*>(base)) {}

  ripc_status begin(Key key) noexcept;
  // One mark covers all items of the transfer: true as long as it is neither finished nor revoked.
  bool mark_lent(Key key) noexcept;
  // As Source::finish. `tell` becomes true if the owner asked for notification of this transfer.
  ripc_status finish(Key key, ripc_status status, bool& tell) noexcept;

  bool begin_write(Key grant) noexcept;
  void end_write(Key grant, bool written) noexcept;

 private:
  Control* control_;
};

}  // namespace ripc::internal::shm
