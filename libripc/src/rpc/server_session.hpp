// SPDX-License-Identifier: Apache-2.0
// What a server knows of one client: the calls that have arrived, and how they ended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/clock.hpp"
#include "core/state/ticket.hpp"
#include "ripc/rpc.h"
#include "rpc/kept_items.hpp"
#include "wire/call.hpp"

namespace ripc::internal::rpc {

// Guarded by the server's mutex.
struct ServerSession {
  struct Answer {
    KeptItems items;
    std::uint64_t returned = 0;  // which items are in return buffers
    Nanoseconds kept_at = 0;
    std::shared_ptr<core::Ticket> ticket;  // of one that travels long
  };
  // Call n lives in slot n modulo the number of slots, a power of 2. The next call of the slot acknowledges its answer.
  struct Slot {
    enum class State : std::uint8_t {
      unused,
      running,   // a handler has it
      waiting,   // the answer is kept, and waits for room
      answered,  // the answer was sent; it is kept if the path may lose it
      ended,     // it ended without an answer: `outcome` and `code` say how
    };
    State state = State::unused;
    wire::call::State outcome{};
    bool is_kept = false;  // `answer` has the items
    std::uint32_t number = 0;
    std::uint32_t code = 0;  // of the answer, or a status
    ripc_request* request = nullptr;
    std::unique_ptr<Answer> answer;  // made once it is needed: most sessions are idle, and never need it
  };

  ripc_service_id client = 0;
  std::uint32_t nonce = 0;       // of the client's request for the session
  std::uint64_t name = 0;        // 0: the session is not in use
  std::uint32_t generation = 0;  // of the name
  std::uint32_t slot_count = 0;
  std::vector<Slot> slots;  // none until the first request comes: a session that is only asked for takes little memory
  std::uint32_t running = 0;
  std::size_t kept_bytes = 0;
  Nanoseconds used_at = 0;

  bool is_unused() const noexcept {
    return std::all_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.state == Slot::State::unused; });
  }
  // False: there is no memory.
  bool make_slots() noexcept try {
    slots = std::vector<Slot>(slot_count);
    for (std::uint32_t number = 0; number < slot_count; ++number) slots[number].number = number;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  Slot& slot(std::uint32_t number) noexcept { return slots[number & (slots.size() - 1)]; }
};

}  // namespace ripc::internal::rpc
