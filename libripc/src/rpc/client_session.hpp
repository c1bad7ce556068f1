// SPDX-License-Identifier: Apache-2.0
// What a client knows of one server: its path, the session, the free slots, and how long answers take. It may also
// stand for a group: then the calls in its queue wait for a member, and it is open while members are known.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/group_id.hpp"
#include "rpc/call.hpp"
#include "rpc/call_window.hpp"
#include "rpc/messenger.hpp"
#include "rpc/probe_window.hpp"
#include "rpc/round_trip.hpp"

namespace ripc::internal::rpc {

// Guarded by the client's mutex. Its timer asks again for a session, and checks again for room.
struct ClientSession : TimerWheel::Timer {
  enum class State : std::uint8_t {
    closed,   // no session, and no search for one
    finding,  // searches for the path; an existing session continues if the path leads to the same server
    opening,  // asked for a session
    open,
  };
  struct Slot {
    Call* call = nullptr;
    std::uint32_t next_number = 0;  // calls in slot s have numbers that are s modulo the number of slots, a power of 2
  };

  explicit ClientSession(ripc_service_id of) noexcept : Timer(Of::session), to(of) {}

  const ripc_service_id to;
  State state = State::closed;
  bool may_lose = false;    // the path loses messages, or an earlier path to the same server did
  bool needs_room = false;  // there was none for the last message
  bool is_stale = false;    // the server has forgotten the session: a new one follows when its calls have ended
  std::uint32_t nonce = 0;
  std::uint64_t name = 0;         // of the session, given by the server; 0: there is none
  std::uint64_t incarnation = 0;  // of the server
  std::weak_ptr<const void> way;  // the path that its messages took last: Messenger::Path::way
  std::uint64_t path_changes = 0;
  std::vector<Slot> slots;
  std::vector<std::uint16_t> free_slots;
  std::size_t in_flight = 0;  // calls with a slot that the server has not reported on; only these count in the window
  CallQueue queue;
  CallQueue held_back;  // calls that would expire and that `probes` does not admit
  ProbeWindow probes;
  Nanoseconds used_at = 0;  // when a message was last sent or received
  Nanoseconds finding_since = 0;
  ripc_status failure = RIPC_NO_SERVICE;  // why the path was not found
  Nanoseconds open_pause = 0;
  RoundTrip round_trip;
  CallWindow window;
  Messenger::Search search;
  Nanoseconds answer_time = 0;  // smoothed; 0: unknown
  Nanoseconds answered_at = 0;
  Nanoseconds avoid_until = 0;  // group calls avoid it until then: no path was found

  bool is_group() const noexcept { return internal::is_group(to); }
  bool takes_calls() const noexcept {
    if (state != State::open || is_stale || needs_room) return false;
    return is_group() || (!free_slots.empty() && (!may_lose || window.admits(in_flight)));
  }
  std::size_t under_way() const noexcept { return slots.size() - free_slots.size() + waiting(); }
  std::size_t waiting() const noexcept { return queue.size() + held_back.size(); }
  bool is_idle() const noexcept { return free_slots.size() == slots.size(); }
  Call* call(std::uint32_t number) const noexcept {
    if (slots.empty()) return nullptr;
    Call* const call = slots[number & (slots.size() - 1)].call;
    return call != nullptr && call->number == number ? call : nullptr;
  }
  void start(std::uint64_t session, std::uint64_t server, std::uint32_t slot_count);
  // Whether this new call is sent at once.
  bool takes(const Call& call, Nanoseconds now) const noexcept {
    return takes_calls() && queue.empty() && (probes.admits() || !would_expire(call, now));
  }
  // Whether calls have run out of time lately, and this one has less left than slow answers of the server and of the
  // method take.
  bool would_expire(const Call& call, Nanoseconds now) const noexcept;
  // Puts the call into the queue, or holds it back.
  void wait(Call& called, Nanoseconds now) noexcept;
  void hold_back(Call& called) noexcept;
  // Takes the next call to be sent out of its queue; nullptr: there is none.
  Call* next_call(Nanoseconds now) noexcept;
  // The calls that are held back wait in the queue again, before the others.
  void queue_held_back() noexcept;
  // Puts the call into a free slot, which gives it its number.
  void take_slot(Call& called, Nanoseconds now) noexcept;
  void give_slot_back(Call& called) noexcept;
  // Notes whether the server has the call, which has a slot.
  void set_with_server(Call& called, bool is_there) noexcept;
  // The comparison for group calls: less than 0 if another call is likely to end sooner here than with `other`.
  int compare_load(const ClientSession& other, Nanoseconds now) const noexcept;
};

}  // namespace ripc::internal::rpc
