// SPDX-License-Identifier: Apache-2.0
// The return buffers that this side of a session lets the peer write, each once and from its start.
//
//   free -> open -> writing -> written       the peer pushed
//             +<-------+                     its connection was lost, or it could not read its own memory
//   any -> free                              ended by the owner
//
// A grant's key holds the slot in its low 10 bits, and 54 random bits; its location is random.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "remote/bulk/access.hpp"
#include "remote/bulk/limits.hpp"
#include "remote/bulk/slot_table.hpp"
#include "ripc/ripc.h"
#include "wire/bulk.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::remote {

class GrantTable {
 public:
  // ---- For the owner; any thread. As the calls of Bulk with these names. ----
  ripc_status grant(std::uint64_t owner, std::span<std::byte> memory, wire::Grant& grant) noexcept;
  ripc_status end_grant(const wire::Grant& grant) noexcept;
  bool has_room(std::size_t count) const noexcept { return slots_.has(count); }
  void end_owner(std::uint64_t owner) noexcept;
  void died() noexcept;

  // ---- For the peer's pushes; in the responder or the mover. `connection` tells connections apart ----
  // Where the payload of this push frame belongs. Null: nowhere. The first frame claims the grant. Throws
  // std::bad_alloc: nothing has changed.
  std::shared_ptr<Destination> begin_frame(const void* connection, const wire::bulk::Frame& frame);
  // The payload of the frame is there or, with a `status` other than RIPC_OK, will not come. RIPC_OK: the push is
  // complete; RIPC_PENDING: it goes on; any other status: it has ended.
  ripc_status end_frame(const void* connection, const wire::bulk::Frame& frame, ripc_status status) noexcept;
  // All `value` bytes of a push that was begun are there. RIPC_OK, RIPC_REVOKED.
  ripc_status complete(const void* connection, const wire::bulk::Frame& frame) noexcept;
  // The return buffers that it was writing may be written again.
  void connection_lost(const void* connection) noexcept;

 private:
  enum class State : std::uint8_t { free, open, writing, written, ended };
  struct Slot {
    std::mutex mutex;  // for all below; taken before the destination's
    State state = State::free;
    std::uint64_t owner = 0;
    std::uint64_t key = 0;
    std::uint64_t location = 0;
    std::size_t size = 0;
    std::byte* memory = nullptr;
    std::shared_ptr<Destination> destination;
    // Of the push that is going on.
    const void* connection = nullptr;
    std::uint64_t push = 0;
    std::uint64_t total = 0;
    std::uint64_t received = 0;

    bool is_named(std::uint64_t other_key, std::uint64_t other_location) const noexcept {
      return state != State::free && key == other_key && location == other_location;
    }
    bool is_written_by(const void* other, const wire::bulk::Frame& frame) const noexcept {
      return state == State::writing && is_named(frame.key, frame.location) && connection == other &&
             push == frame.id && total == frame.value && received == frame.offset;
    }
    // The write that is going on is over.
    void close(State then) noexcept {
      destination->take_away();
      destination.reset();
      state = then;
    }
    void end() noexcept;  // unless it has ended
  };

  SlotTable<Slot, kMaxGrants> slots_;
  std::atomic<bool> dead_{false};
};

}  // namespace ripc::internal::remote
