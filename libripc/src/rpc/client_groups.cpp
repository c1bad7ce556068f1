// SPDX-License-Identifier: Apache-2.0
// Calls to groups: which member gets one, and where it goes when that member does not run it.
#include <algorithm>
#include <array>

#include "rpc/client.hpp"

namespace ripc::internal::rpc {

namespace {

// The pause between two searches for members while none can be reached.
constexpr Nanoseconds kMemberPause = 10'000'000;

// Whether the member no longer exists. Other statuses mean that it does not accept the call.
bool is_gone(ripc_status status) noexcept {
  return status == RIPC_NO_SERVICE || status == RIPC_PEER_DEAD || status == RIPC_CLOSED || status == RIPC_FENCED;
}

}  // namespace

// The power of two choices (Mitzenmacher, IEEE TPDS 2001). It is nearly as good as comparing all members, and many
// clients do not all pick the same one.
ClientSession* Client::choose_member(const Call& call, Nanoseconds now) {
  const std::shared_ptr<const core::GroupList> list = messenger_.members(call.group);
  if (!list) return nullptr;
  const auto is_candidate = [&](ripc_service_id member) {
    if (std::find(call.tried.begin(), call.tried.end(), member) != call.tried.end()) return false;
    const auto known = sessions_.find(member);
    return known == sessions_.end() || now >= known->second->avoid_until;
  };
  // Picks two at random in one pass (reservoir sampling).
  std::array<ripc_service_id, 2> picked{};
  std::size_t seen = 0;
  for (const auto& member : list->members) {
    const ripc_service_id id = member->record().id;
    if (!is_candidate(id)) continue;
    const std::size_t at = seen < picked.size() ? seen : random_() % (seen + 1);
    if (at < picked.size()) picked[at] = id;
    ++seen;
  }
  if (seen == 0) return nullptr;
  ClientSession& one = session_of(picked[0]);
  if (seen == 1) return &one;
  ClientSession& other = session_of(picked[1]);
  // The two come in the order of the list, so between equals the choice is random.
  const int compared = one.compare_load(other, now);
  return compared < 0 || (compared == 0 && random_() % 2 == 0) ? &one : &other;
}

Status Client::place_once(Lock& lock, Call& call) {
  const Nanoseconds now = messenger_.now();
  ClientSession* const member = choose_member(call, now);
  if (member == nullptr) return wait_for_member(call, now);
  prepare(*member, now);
  call.session = member;
  if (member->takes(call, now)) {
    if (const Status status = dispatch(lock, call, call.arguments.items(), now); status != RIPC_PENDING) return status;
  }
  return enqueue(call, *member, now);
}

Status Client::place(Lock& lock, Call& call) {
  for (;;) {
    Status status = place_once(lock, call);
    // This member's queue is full, or it has just ended, but another may have room.
    if ((status != RIPC_AGAIN && !is_gone(status.code())) || call.session->is_group() || is_closed_) return status;
    call.refusal = status.code();
    call.tried.push_back(call.session->to);
  }
}

void Client::place_begun(Lock& lock, Call& call) noexcept {
  Status status;
  try {
    status = place(lock, call);
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  if (status.ok()) return;
  call.is_final = true;
  finish(call, RIPC_CALL_DID_NOT_RUN, status.code());
}

// Called when no member can be reached that the call was not sent to.
Status Client::wait_for_member(Call& call, Nanoseconds now) {
  ClientSession& group = session_of(call.group);
  call.session = &group;
  if (!call.tried.empty() && !is_gone(call.refusal)) return call.refusal;
  call.tried.clear();
  if (group.state == ClientSession::State::open) {
    group.state = ClientSession::State::finding;
    group.failure = RIPC_NO_SERVICE;  // none of the members that are known can be reached
    timers_.set(group, now + kMemberPause);
  }
  prepare(group, now);
  return enqueue(call, group, now);
}

void Client::members_found(ClientSession& group, ripc_status status, Nanoseconds now) noexcept {
  if (status == RIPC_OK) {
    group.search.reset();
    group.state = ClientSession::State::open;
    group.used_at = now;
    timers_.set(group, now + wire::call::kSessionTime);
  } else {
    group.failure = status;
    if (group.queue.empty()) close(group);
  }
}

bool Client::may_move(const Call& call) const noexcept {
  if (call.group == 0 || is_closed_ || call.is_final || call.session->is_group()) return false;
  return call.result.outcome == RIPC_CALL_DID_NOT_RUN ||
         (call.result.outcome == RIPC_CALL_MAY_HAVE_RUN && call.is_idempotent);
}

// Moves a call that has ended at one member to another.
void Client::move(Lock& lock, Call& call) noexcept {
  call.perhaps_ran = call.result.outcome == RIPC_CALL_MAY_HAVE_RUN;
  call.refusal = static_cast<ripc_status>(call.result.status);
  call.state = Call::State::sending;
  call.is_in_send = true;
  take_back(lock, call);
  lock.lock();
  call.is_in_send = false;
  sent_.notify_all();
  call.ticket.reset();
  call.start_anew();
  // The search for members begins now, unless this one could not be reached either.
  if (ClientSession* const group = find_session(call.group); group != nullptr && call.had_session)
    group->finding_since = messenger_.now();
  try {
    call.tried.push_back(call.session->to);
  } catch (const std::bad_alloc&) {
    call.is_final = true;
    return finish(call, RIPC_CALL_DID_NOT_RUN, RIPC_NO_MEMORY);
  }
  place_begun(lock, call);
}

}  // namespace ripc::internal::rpc
