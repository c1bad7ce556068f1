// SPDX-License-Identifier: Apache-2.0
// The long items of one session, as its links see them. This context exposes memory to the peer, pulls from it, and has
// return buffers in both directions. Bulk holds what is the same whatever carries the bytes; bulk_backend.hpp holds the
// rest that TCP connections and RDMA share.
//
// Threads: "any" and "receiver" as in spi/transport.hpp. No call waits for the network but push(). The caller may hold
// locks during any call but push(). That is safe because only the loop and the mover (stream_connection.hpp) call
// hooks, and never from inside a call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/bulk/exposure_table.hpp"
#include "remote/bulk/finish_table.hpp"
#include "remote/bulk/grant_table.hpp"
#include "remote/bulk/silence.hpp"
#include "spi/shortage.hpp"
#include "spi/transport.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::remote {

// All are called in the responder or the mover, without locks held, and not after died() (one that is running may still
// finish).
struct BulkHooks {
  // A watched transfer that was exposed for `owner` has finished.
  std::function<void(std::uint64_t owner, std::uint64_t transfer, ripc_status status)> finished;
  // One more connection is wanted. The answer may come at any time, from any thread: a connection or dial_failed().
  // Until then the hook is not called again. A connection that the peer dialed is an answer, too.
  std::function<void()> dial;
  // An announcement of a transfer of `owner` seems to be lost: send it once more.
  std::function<void(std::uint64_t owner, spi::Bytes packet)> repeat;
};

class Bulk {
 public:
  // ---- Connections -------------------------------------------------------------------------------------------

  // Any. The answer to BulkHooks::dial when there will be no connection. While anything waits for one, dial is called
  // again after a pause that grows from 10 ms to 1 s.
  virtual void dial_failed() noexcept = 0;

  // Any. The peer is gone, or the session ends. Closes the connections; pulls end with RIPC_PEER_DEAD, unanswered
  // finish() with RIPC_REVOKED, transfers with RIPC_PEER_DEAD unless they had finished, grants as end_grant() tells.
  // When it has returned, no one touches exposed, granted or destination memory any more. Idempotent.
  virtual void died() noexcept = 0;

  // Any. For people: what carries long items.
  virtual std::string describe() const = 0;

  // Any. The rails that have connections, as in Channel::describe. Throws std::bad_alloc.
  virtual std::vector<spi::RailReport> rails() const = 0;

  // ---- Exposing side: what Channel needs ---------------------------------------------------------------------

  // Any. As Channel::expose; `owner` is the caller's name for the channel. At most RIPC_MAX_ITEMS items; kMaxTransfers
  // of a session at a time, then RIPC_AGAIN. RIPC_NO_MEMORY, RIPC_PEER_DEAD. The memory is read until the transfer is
  // gone (transfer_status(), revoke()).
  virtual ripc_status expose(std::uint64_t owner, std::span<const spi::Exposure> items,
                             std::span<wire::Descriptor> descriptors, std::uint64_t& transfer) noexcept {
    return transfers_.expose(owner, items, descriptors, transfer);
  }

  // Any. A packet of this size is going to announce a transfer, at once or with `more` that follow. RIPC_NO_MEMORY: the
  // packet could not be repeated. By default, nothing has to be sent before the packet.
  virtual ripc_status prepare_announcement(std::uint64_t transfer, std::size_t size, bool /*more*/) noexcept {
    return transfers_.prepare_announcement(transfer, size);
  }

  // Any. After prepare_announcement(): this packet has announced a transfer. It may have gone by a datagram, which may
  // be lost. So it is repeated, with growing pauses, until the peer has asked for the transfer or it ends.
  void announced(std::uint64_t transfer, spi::Gather packet) noexcept {
    if (transfers_.announced(transfer, packet)) repeats_.look_soon();
  }

  // Any. RIPC_PENDING, at the cost of one atomic load, or how the transfer ended; the transfer is gone then.
  // RIPC_CANCELLED: the memory could not be read any more. RIPC_LIMIT: this process may not lock it for the device.
  ripc_status transfer_status(std::uint64_t transfer) noexcept { return transfers_.status(transfer); }

  // Any. From now on BulkHooks::finished is called for the transfer. False: it has finished already.
  bool watch(std::uint64_t transfer) noexcept { return transfers_.watch(transfer); }

  // Any. As Channel::revoke, never RIPC_PENDING (nothing is lent). Afterwards nothing reads the memory.
  virtual ripc_status revoke(std::uint64_t transfer) noexcept { return transfers_.revoke(transfer); }

  // Any. As Channel::grant. kMaxGrants of a session at a time, then RIPC_AGAIN. RIPC_NO_MEMORY,
  // RIPC_PEER_DEAD.
  ripc_status grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept {
    return grants_.grant(owner, memory, grant);
  }

  // Any. As Channel::end_grant, never RIPC_PENDING. A write that is going on is cut off: RIPC_EMPTY, and the memory
  // holds a part of it. Afterwards nothing writes the memory.
  ripc_status end_grant(const wire::Grant& grant) noexcept { return grants_.end_grant(grant); }

  // Any. True if expose(), or need.count calls of grant(), would not return RIPC_AGAIN.
  bool has_room(spi::Need need) const noexcept {
    return need.resource == spi::Resource::transfers ? transfers_.has_room() : grants_.has_room(need.count);
  }

  // Any. The channel `owner` is lost while the session lives on: what it exposed ends with RIPC_PEER_DEAD unless it had
  // finished, its grants end; each is still to be collected by transfer_status(), revoke() or end_grant(). Nothing
  // touches their memory when it has returned. BulkHooks::finished is not called for them.
  void end_owner(std::uint64_t owner) noexcept {
    transfers_.end_owner(owner);
    grants_.end_owner(owner);
  }

  // ---- Pulling side: what Source needs -----------------------------------------------------------------------

  // Receiver. As Source::begin for items of one transfer, without asking the peer. RIPC_REVOKED: that transfer was
  // begun before. RIPC_CORRUPT: more than kMaxTransfers, which no peer can have exposed. RIPC_NO_MEMORY: nothing has
  // happened. After died() RIPC_REVOKED. `events` must be valid until finish() or forget().
  virtual ripc_status begin(std::span<const wire::Descriptor> items, EventSet& events) noexcept = 0;

  // Receiver. As Source::pull. `events` is woken when the pull ends; it must be valid until then, or until abandon() or
  // forget(). `pull.progress` is 0 at the first call and belongs to Bulk from then on. RIPC_OK, RIPC_PENDING,
  // RIPC_REVOKED (withdrawn, or never ours), RIPC_CANCELLED (the memory of either side cannot be accessed),
  // RIPC_NO_MEMORY (the destination cannot be registered; nothing is pending then), RIPC_PEER_DEAD.
  virtual ripc_status pull(spi::Pull& pull, EventSet& events) noexcept = 0;

  // Receiver. As Source::abandon: when it has returned, nothing writes the destination any more.
  virtual void abandon(spi::Pull& pull) noexcept = 0;

  // Any. As Source::finish. RIPC_OK and RIPC_REVOKED are final. The first RIPC_PENDING is reported to the peer;
  // `events` is woken when the answer is there, and must be valid until then or until forget(). A status that drops the
  // message is sent at once, kept until the peer has it, and gives RIPC_OK. Transfers that were not begun give
  // RIPC_REVOKED.
  virtual ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events) noexcept = 0;

  // Any. `events` is about to be destroyed: after this returns, it is not woken any more.
  virtual void forget(const EventSet& events) noexcept = 0;

  // Any, without locks held. As Source::push; waits for the peer's answer, in the loop's thread by running the loop.
  // RIPC_UNSUPPORTED also when no connection or memory could be had, the connection was lost, or nothing moved for the
  // stall timeout. The requester may pull instead. `bytes` is not read any more when it has returned. RIPC_CANCELLED:
  // `bytes` cannot be read.
  virtual ripc_status push(const wire::Grant& grant, spi::Bytes bytes) noexcept = 0;

 protected:
  Bulk(EventLoop& loop, BulkHooks hooks) noexcept : loop_(loop), hooks_(std::move(hooks)) {}
  // Does not call died(): derived classes do, while they are still whole.
  virtual ~Bulk() = default;

  bool is_dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  // Responder or mover, without locks.
  void tell(const ExposureTable::Watcher& watcher) noexcept {
    if (watcher.watched && !is_dead()) hooks_.finished(watcher.owner, watcher.transfer, watcher.status);
  }

  // Responder. Throws std::bad_alloc: look again.
  void repeat_announcements() {
    std::vector<ExposureTable::Unrequested> due;
    if (transfers_.find_unrequested(monotonic_now(), due)) repeats_.look_soon();
    for (const ExposureTable::Unrequested& one : due) {
      if (!is_dead()) hooks_.repeat(one.owner, one.packet);
    }
  }

  // The pause between two looks at the transfers that the peer has not asked for.
  static constexpr Nanoseconds kRepeatLook = 50'000'000;

  EventLoop& loop_;
  const BulkHooks hooks_;
  std::atomic<bool> dead_{false};

  ExposureTable transfers_;
  LaterLook repeats_{loop_, kRepeatLook};
  GrantTable grants_;
  FinishTable finishes_;
};

}  // namespace ripc::internal::remote
