// SPDX-License-Identifier: Apache-2.0
// Handles the messages that servers send to a client.
#include <algorithm>

#include "rpc/call_message.hpp"
#include "rpc/client.hpp"

namespace ripc::internal::rpc {

using wire::call::Header;
using wire::call::Kind;

std::size_t Client::received(core::Message* message, const Header& header, Arrival& arrival) {
  Lock lock(mutex_);
  ClientSession* const found = find_session(message->source);
  bool is_kept = false;
  if (found == nullptr) {
    ++counters_.dropped;
  } else {
    ClientSession& session = *found;
    if (header.kind == Kind::answer) {
      is_kept = answered(session, *message, header, arrival);
    } else if (header.kind == Kind::opened) {
      opened(session, header, arrival.about());
    } else if (Call* const unseen = state_received(session, header, arrival.about())) {
      send_again(lock, *unseen);
    }
    pump(lock, session);
  }
  if (!is_kept) core::MessagePool::release(message);
  return report_ended(lock);
}

bool Client::answered(ClientSession& session, core::Message& message, const Header& header, Arrival& arrival) noexcept {
  Call* const call = session.name == header.session ? session.call(header.number) : nullptr;
  if (call == nullptr) return false;  // it has ended
  session.used_at = arrival.about();
  if (call->is_timed) [[unlikely]]
    note_time(session, *call, arrival.exactly(), header.time == wire::call::kLate);
  if (call->is_probe && !call->was_held_back) [[unlikely]]
    session.probes.answered();
  std::erase(call->requests, message.in_reply_to);  // it has ended with its answer
  const std::span<ripc_item_view> items = call_items(message);
  for (std::size_t index = 0; header.incarnation != 0 && index < std::min<std::size_t>(items.size(), 64); ++index) {
    if ((header.incarnation >> index & 1) == 0) continue;
    ripc_item_view& view = items[index];
    if (view.kind == RIPC_VIEW_FAILED) continue;  // there are no bytes
    const auto bytes = std::span(static_cast<const std::byte*>(view.data), view.size);
    const Result<wire::call::Returned> returned = wire::call::decode_returned(bytes);
    view = {};
    view.kind = RIPC_VIEW_FAILED;
    view.status = RIPC_CORRUPT;
    if (!returned.ok() || returned->index >= call->returns.size()) continue;
    const ripc_return_buffer& buffer = call->returns[returned->index];
    if (returned->size > buffer.size) continue;
    std::ranges::copy(returned->bytes, static_cast<std::byte*>(buffer.data));
    view.data = buffer.data;
    view.size = static_cast<std::size_t>(returned->size);
    view.kind = RIPC_VIEW_RETURNED;
    view.status = RIPC_OK;
    view.return_index = returned->index;
  }
  call->result.code = header.code;
  call->result.item_count = static_cast<std::uint32_t>(items.size());
  call->result.items = items.data();
  call->result.message = reinterpret_cast<ripc_message*>(&message);
  finish(*call, RIPC_CALL_ANSWERED, RIPC_OK);
  return true;
}

void Client::note_time(ClientSession& session, const Call& call, Nanoseconds now, bool is_late) noexcept {
  const Nanoseconds round_trip = elapsed(call.sent_at, now);
  if (session.may_lose && call.repeats == 0) {
    session.round_trip.add(round_trip);
    is_late ? session.window.answered_late() : session.window.answered(round_trip);
  }
  session.answered_at = now;
  session.answer_time = smoothed(session.answer_time, round_trip);
  if (call.record == nullptr) return;
  call.record->answer_time = smoothed(call.record->answer_time, round_trip);
  call.record->time.add(elapsed(call.begun, now));
}

Call* Client::state_received(ClientSession& session, const Header& header, Nanoseconds now) noexcept {
  if (header.session == 0) {
    if (header.number == session.nonce) session_over(session, static_cast<ripc_status>(header.code));
    return nullptr;
  }
  Call* const call = session.name == header.session ? session.call(header.number) : nullptr;
  if (call == nullptr) return nullptr;
  if (call->is_in_send) {
    // The sending thread ends the call. A state that ends nothing may come late, and must not replace one that ends the
    // call.
    const bool ends = header.state != wire::call::State::running && header.state != wire::call::State::unseen;
    if (ends) call->end_state = header;
    return nullptr;
  }
  session.used_at = now;
  switch (header.state) {
    case wire::call::State::running:
      session.set_with_server(*call, true);
      session.window.was_not_lost(call->number);
      break;
    case wire::call::State::unseen:
      if (call->ticket) break;  // the items that travel long are on their way
      if (call->is_kept) return call;
      // The call was lost with a path that loses nothing, so nothing was kept to be sent again. Once the server knows
      // that nobody waits, it never runs the call, and says so.
      call->is_withdrawn = true;
      if (ask_about(*call) != RIPC_OK) ask_again(*call, now);
      break;
    default:
      end_with_state(*call, header);
  }
  return nullptr;
}

void Client::end_with_state(Call& call, const Header& header) noexcept {
  const auto why = static_cast<ripc_status>(header.code);
  switch (header.state) {
    case wire::call::State::not_run:
      if (why == RIPC_TIMEOUT) note_expired(call, messenger_.now());
      finish(call, RIPC_CALL_DID_NOT_RUN, call.is_withdrawn ? RIPC_PEER_DEAD : why);
      break;
    case wire::call::State::may_have_run:
      finish(call, RIPC_CALL_MAY_HAVE_RUN, why);
      break;
    case wire::call::State::no_session:
      // That is true of this message. If the call was sent several times, an earlier message may have run.
      call.session->is_stale = true;
      finish(call, call.repeats == 0 ? RIPC_CALL_DID_NOT_RUN : RIPC_CALL_MAY_HAVE_RUN, why);
      break;
    case wire::call::State::running:
    case wire::call::State::unseen:
      break;  // it has not ended
  }
}

ripc_status Client::send_about(const Call& call, Kind kind) noexcept {
  const ClientSession& session = *call.session;
  return send_header(
      session, {.kind = kind, .number = call.number, .session = session.name, .incarnation = session.incarnation});
}

ripc_status Client::ask_about(const Call& call) noexcept {
  const ripc_status status = call.is_withdrawn ? send_about(call, Kind::cancel) : RIPC_OK;
  return status == RIPC_OK ? send_about(call, Kind::ask) : status;
}

ripc_status Client::send_header(const ClientSession& session, const Header& header) noexcept {
  return messenger_.send_short(session.to, CallMessage(header).items());
}

}  // namespace ripc::internal::rpc
