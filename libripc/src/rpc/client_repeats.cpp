// SPDX-License-Identifier: Apache-2.0
// What a client does as time passes: it ends calls at their deadlines, and repeats messages that may have been lost.
#include <algorithm>

#include "rpc/call_message.hpp"
#include "rpc/client.hpp"

namespace ripc::internal::rpc {

using wire::call::Kind;

namespace {

// Whether the status of an ended ticket says that the request was not delivered, and never will be.
bool is_undelivered(ripc_status status) noexcept {
  return status == RIPC_TIMEOUT || status == RIPC_CANCELLED || status == RIPC_REFUSED || status == RIPC_LIMIT;
}

// When a search for the path gives up on a call that waits for it.
Nanoseconds end_of_search(const Call& call, const ClientSession& session, Nanoseconds timeout) noexcept {
  return Deadline::after(timeout, std::max(call.begun, session.finding_since)).at();
}

}  // namespace

void Client::set_timer(Call& call) noexcept {
  Nanoseconds due = call.deadline;
  if (call.state == Call::State::queued) {
    const ClientSession& session = *call.session;
    if (session.state == ClientSession::State::finding)
      due = std::min(due, end_of_search(call, session, messenger_.resolve_timeout()));
  } else {
    due = std::min(due, call.repeat_at);
  }
  timers_.set(call, due);
}

void Client::call_due(Call& call, Nanoseconds now) noexcept {
  if (call.is_in_send) return timers_.set(call, now + TimerWheel::kTick);
  const ClientSession& session = *call.session;
  if (now >= call.deadline) {
    if (call.state == Call::State::sent) note_expired(call, now);
    return give_up(call, RIPC_TIMEOUT);
  }
  if (call.state == Call::State::queued) {
    const bool has_no_path = session.state == ClientSession::State::finding;
    if (has_no_path && now >= end_of_search(call, session, messenger_.resolve_timeout()))
      return finish(call, RIPC_CALL_DID_NOT_RUN, session.failure);
  } else if (now >= call.repeat_at) {
    repeat(call, now);
    if (call.state == Call::State::ended) return;
  }
  set_timer(call);
}

// A call that this client has held back says nothing about the server.
void Client::note_expired(const Call& call, Nanoseconds now) noexcept {
  if (call.was_held_back) return;
  ClientSession& session = *call.session;
  session.probes.expired(now);
  if (session.state == ClientSession::State::open && !session.needs_room)
    timers_.set(session, session.probes.opens_at());
}

void Client::repeat(Call& call, Nanoseconds now) noexcept {
  ClientSession& session = *call.session;
  call.repeat_at = now + call.repeat_pause;
  call.repeat_pause = std::min(2 * call.repeat_pause, RoundTrip::kLongest);
  if (call.ticket) {
    const ripc_status status = call.ticket->poll();
    if (status == RIPC_PENDING) return;  // core repeats it
    call.ticket.reset();
    if (is_undelivered(status)) return finish(call, RIPC_CALL_DID_NOT_RUN, status);
  }
  if (session.state != ClientSession::State::open) return;
  if (!session.may_lose && !call.is_with_server) {
    call.repeat_at = UINT64_MAX;
    return;
  }
  if (call.repeats == 0 && session.may_lose) {
    session.window.lost(call.number, now, session.round_trip.overdue());
    session.round_trip.back_off();
  }
  note_repeated(call);
  if (call.is_kept && call.returns.empty() && !call.is_with_server) {
    const CallMessage message(request_header(call, now), call.arguments.items());
    if (messenger_.send_short(session.to, message.items()) != RIPC_PENDING) return;
  }
  // Also for one that is too large to be repeated unasked. On a path that loses nothing, a question is sent only once.
  if (ask_about(call) == RIPC_OK && !session.may_lose) call.repeat_at = UINT64_MAX;
}

void Client::ask_again(Call& call, Nanoseconds at) noexcept {
  call.session->set_with_server(call, true);
  call.repeat_at = at;
  set_timer(call);
}

void Client::note_repeated(Call& call) noexcept {
  ++call.repeats;
  ++counters_.repeats;
  if (call.record != nullptr) ++call.record->counters.repeats;
}

// Repeats a call that the server has not seen.
void Client::send_again(Lock& lock, Call& call) {
  note_repeated(call);
  call.session->set_with_server(call, false);
  const std::uint64_t path_changes = call.session->path_changes;
  const Nanoseconds now = messenger_.now();
  const CallMessage message(request_header(call, now), call.arguments.items());
  ripc_status status = call.returns.empty() ? messenger_.send_short(call.session->to, message.items()) : RIPC_PENDING;
  if (status == RIPC_PENDING) status = send_any(lock, call, message.items()).code();
  if (call.state == Call::State::sending) call.state = Call::State::sent;
  if (call.state != Call::State::sent) return;
  // Without room or a path, the answer to the next question leads here again.
  if (status != RIPC_OK || call.session->path_changes != path_changes) ask_again(call, now + call.repeat_pause);
}

}  // namespace ripc::internal::rpc
