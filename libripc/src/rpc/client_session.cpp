// SPDX-License-Identifier: Apache-2.0
#include "rpc/client_session.hpp"

#include <algorithm>
#include <utility>

namespace ripc::internal::rpc {

void ClientSession::start(std::uint64_t session, std::uint64_t server, std::uint32_t slot_count) {
  free_slots.reserve(slot_count);  // the session stays idle if there is no memory for either
  slots.assign(slot_count, {});
  free_slots.clear();
  // The last one is used first: a client with one call in progress touches one slot of the server.
  for (std::uint32_t slot = slot_count; slot-- != 0;) {
    slots[slot].next_number = slot + slot_count;
    free_slots.push_back(static_cast<std::uint16_t>(slot));
  }
  window.start(slot_count);
  probes.start(slot_count);
  in_flight = 0;
  name = session;
  incarnation = server;
}

bool ClientSession::would_expire(const Call& call, Nanoseconds now) const noexcept {
  if (probes.is_open(now)) return false;
  const Nanoseconds mean = call.record == nullptr ? answer_time : std::min(answer_time, call.record->answer_time);
  // The mean alone would let half of the calls expire.
  return elapsed(now, call.deadline) < 2 * mean;
}

void ClientSession::wait(Call& called, Nanoseconds now) noexcept {
  if (state == State::open && would_expire(called, now)) {
    hold_back(called);
  } else {
    queue.push(called);
  }
}

Call* ClientSession::next_call(Nanoseconds now) noexcept {
  while (Call* const call = queue.front()) {
    queue.remove(*call);
    if (!would_expire(*call, now)) return call;
    hold_back(*call);
  }
  // The one that has the most time. Its timer ends one that has none.
  Call* const call = held_back.front();
  if (call == nullptr || now >= call->deadline || (!probes.admits() && would_expire(*call, now))) return nullptr;
  held_back.remove(*call);
  return call;
}

void ClientSession::hold_back(Call& called) noexcept {
  called.was_held_back = true;
  held_back.push_front(called);
}

void ClientSession::queue_held_back() noexcept {
  while (Call* const call = held_back.front()) {
    held_back.remove(*call);
    queue.push_front(*call);
  }
}

void ClientSession::take_slot(Call& called, Nanoseconds now) noexcept {
  called.is_probe = would_expire(called, now);
  if (called.is_probe) probes.sent();
  Slot& slot = slots[free_slots.back()];
  free_slots.pop_back();
  slot.call = &called;
  called.number = slot.next_number;
  ++in_flight;
  slot.next_number += static_cast<std::uint32_t>(slots.size());
}

void ClientSession::give_slot_back(Call& called) noexcept {
  const std::size_t slot = called.number & (slots.size() - 1);
  slots[slot].call = nullptr;
  if (std::exchange(called.is_probe, false)) probes.ended();
  if (!called.is_with_server) --in_flight;
  free_slots.push_back(static_cast<std::uint16_t>(slot));
}

void ClientSession::set_with_server(Call& called, bool is_there) noexcept {
  if (called.is_with_server == is_there) return;
  called.is_with_server = is_there;
  in_flight = is_there ? in_flight - 1 : in_flight + 1;
}

int ClientSession::compare_load(const ClientSession& other, Nanoseconds now) const noexcept {
  // Otherwise a member that was slow once would never be chosen again.
  constexpr Nanoseconds kRemembered = 1'000'000'000;
  const auto is_known = [&](const ClientSession& session) { return now - session.answered_at < kRemembered; };
  const bool are_known = is_known(*this) && is_known(other);
  const auto load = [&](const ClientSession& session) {
    return (session.under_way() + 1) * (are_known ? session.answer_time + 1 : 1);
  };
  const Nanoseconds here = load(*this);
  const Nanoseconds there = load(other);
  return here < there ? -1 : here > there ? 1 : 0;
}

}  // namespace ripc::internal::rpc
