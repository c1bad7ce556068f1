// SPDX-License-Identifier: Apache-2.0
#include "rpc/client_session.hpp"

namespace ripc::internal::rpc {

void ClientSession::start(std::uint64_t session, std::uint64_t server, std::uint32_t slot_count) {
  slots.assign(slot_count, {});
  free_slots.reserve(slot_count);
  free_slots.clear();
  // The last one is used first: a client with one call under way touches one slot of the server.
  for (std::uint32_t slot = slot_count; slot-- != 0;) {
    slots[slot].next_number = slot + slot_count;
    free_slots.push_back(static_cast<std::uint16_t>(slot));
  }
  name = session;
  incarnation = server;
}

void ClientSession::take_slot(Call& called) noexcept {
  Slot& slot = slots[free_slots.back()];
  free_slots.pop_back();
  slot.call = &called;
  called.number = slot.next_number;
  slot.next_number += static_cast<std::uint32_t>(slots.size());
}

void ClientSession::give_slot_back(const Call& called) noexcept {
  const std::size_t slot = called.number % slots.size();
  slots[slot].call = nullptr;
  free_slots.push_back(static_cast<std::uint16_t>(slot));
}

}  // namespace ripc::internal::rpc
