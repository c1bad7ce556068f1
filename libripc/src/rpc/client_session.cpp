// SPDX-License-Identifier: Apache-2.0
#include "rpc/client_session.hpp"

#include <algorithm>

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
  in_flight = 0;
  name = session;
  incarnation = server;
}

bool ClientSession::would_expire(const Call& call, Nanoseconds now) const noexcept {
  constexpr Nanoseconds kRemembered = 1'000'000'000;
  if (elapsed(expired_at, now) >= kRemembered) return false;
  const Nanoseconds mean = call.record == nullptr ? answer_time : std::min(answer_time, call.record->answer_time);
  // With 1.5 times the mean, a simulated server refuses 20 times as many calls (overload_test.cpp).
  return elapsed(now, call.deadline) < 2 * mean;
}

void ClientSession::wait(Call& called, Nanoseconds now) noexcept {
  if (state == State::open && would_expire(called, now)) {
    held_back.push_front(called);
  } else {
    queue.push(called);
  }
}

Call* ClientSession::next_call(Nanoseconds now) noexcept {
  while (Call* const call = queue.front()) {
    queue.remove(*call);
    if (!would_expire(*call, now)) return call;
    held_back.push_front(*call);
  }
  Call* const call = probe == nullptr ? held_back.front() : nullptr;
  if (call != nullptr) held_back.remove(*call);
  return call;
}

void ClientSession::queue_held_back() noexcept {
  while (Call* const call = held_back.front()) {
    held_back.remove(*call);
    queue.push_front(*call);
  }
}

void ClientSession::leave_queue(Call& called) noexcept {
  if (!queue.remove(called)) held_back.remove(called);
}

void ClientSession::take_slot(Call& called, Nanoseconds now) noexcept {
  if (would_expire(called, now)) probe = &called;
  Slot& slot = slots[free_slots.back()];
  free_slots.pop_back();
  slot.call = &called;
  called.number = slot.next_number;
  ++in_flight;
  slot.next_number += static_cast<std::uint32_t>(slots.size());
}

void ClientSession::give_slot_back(const Call& called) noexcept {
  const std::size_t slot = called.number & (slots.size() - 1);
  slots[slot].call = nullptr;
  if (probe == &called) probe = nullptr;
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
