// SPDX-License-Identifier: Apache-2.0
// The paths and sessions of a client.
#include <algorithm>

#include "base/random.hpp"
#include "rpc/client.hpp"

namespace ripc::internal::rpc {

using wire::call::Header;
using wire::call::Kind;

namespace {

// As long as a list of members may still name a member that is gone.
constexpr Nanoseconds kAvoidTime = 250'000'000;
// A session that was used this recently is not checked before its next call: the call itself finds out.
constexpr Nanoseconds kFresh = 1'000'000;

}  // namespace

ClientSession& Client::session_of(ripc_service_id to) {
  if (ClientSession* const known = find_session(to)) return *known;
  ClientSession& made = *(sessions_[to] = std::make_unique<ClientSession>(to));
  timers_.set(made, messenger_.now() + wire::call::kSessionTime);  // until then it is used, or forgotten
  return made;
}

ClientSession* Client::find_session(ripc_service_id to) noexcept {
  if (last_session_ != nullptr && last_session_->to == to) return last_session_;
  const auto found = sessions_.find(to);
  return found != sessions_.end() ? last_session_ = found->second.get() : nullptr;
}

// The same server may still answer over a former path that loses messages, and notice only later that this path is
// gone.
void Client::note_path(ClientSession& session, const Messenger::Path& path) noexcept {
  const bool is_other = path.incarnation != 0 && path.incarnation != session.incarnation;
  session.may_lose = path.loses || (session.may_lose && !is_other);
}

void Client::take_path(ClientSession& session, const Messenger::Path& path) noexcept {
  note_path(session, path);
  session.way = path.way;
  ++session.path_changes;
}

// Called before a call: the path of an idle session may be broken by now, without anyone having noticed.
void Client::prepare(ClientSession& session, Nanoseconds now) {
  if (session.state == ClientSession::State::closed) {
    open(session, now);
  } else if (session.state == ClientSession::State::open && !session.is_group() && session.is_idle() &&
             session.waiting() == 0 && elapsed(session.used_at, now) > kFresh) {
    const bool is_old = elapsed(session.used_at, now) > wire::call::kSessionTime / 2;
    if (is_old) session.is_stale = true;
    check_path(session, now);
  }
}

void Client::find_path(ClientSession& session) noexcept {
  if (session.state != ClientSession::State::finding) {
    session.state = ClientSession::State::finding;
    session.finding_since = messenger_.now();
    session.failure = RIPC_TIMEOUT;  // nobody has answered yet
    session.queue_held_back();
    for (Call* call = session.queue.front(); call != nullptr; call = call->next) set_timer(*call);
  }
  if (session.search) return;
  try {
    session.search = messenger_.find_path(session.to, [weak = weak_from_this(), to = session.to](ripc_status status) {
      const std::shared_ptr<Client> self = weak.lock();
      if (!self) return;
      const Lock lock(self->mutex_);
      self->found_.push_back({to, status});
      self->note_changed();
    });
  } catch (const std::bad_alloc&) {
    timers_.set(session, messenger_.now() + TimerWheel::kTick);
  }
}

void Client::open(ClientSession& session, Nanoseconds now) noexcept {
  const Messenger::Path path = messenger_.path(session.to);
  if (!path.is_known) return find_path(session);
  if (session.state != ClientSession::State::opening) {
    session.nonce = static_cast<std::uint32_t>(random_u64());
    session.open_pause = RoundTrip::kFirst;
  }
  session.state = ClientSession::State::opening;
  session.search.reset();
  take_path(session, path);
  session.name = 0;
  session.is_stale = false;
  const ripc_status status =
      send_header(session, {.kind = Kind::open, .number = session.nonce, .code = options_.slots});
  if (status == RIPC_PENDING) return find_path(session);
  session.used_at = now;
  timers_.set(session, session.may_lose || status != RIPC_OK ? now + session.open_pause : UINT64_MAX);
}

void Client::close(ClientSession& session) noexcept {
  session.state = ClientSession::State::closed;
  session.name = 0;
  session.is_stale = false;
  session.search.reset();
  session.used_at = messenger_.now();
  timers_.set(session, session.used_at + wire::call::kSessionTime);
}

// Ends the calls that were sent: they may have run, and nobody will report it.
void Client::end_sent(ClientSession& session, ripc_status why) noexcept {
  for (const ClientSession::Slot& slot : session.slots) {
    if (slot.call != nullptr && !slot.call->is_in_send) finish(*slot.call, RIPC_CALL_MAY_HAVE_RUN, why);
  }
}

void Client::path_found(ClientSession& session, ripc_status status, Nanoseconds now) noexcept {
  if (session.state != ClientSession::State::finding) return;
  if (session.is_group()) return members_found(session, status, now);
  if (status == RIPC_REFUSED) {
    // Waiting does not help.
    end_sent(session, RIPC_PEER_DEAD);
    return refused(session, status);
  }
  if (status != RIPC_OK) {
    session.failure = status;
    session.avoid_until = now + kAvoidTime;
    // Group calls go to other members.
    for (Call* call = session.queue.front(); call != nullptr;) {
      Call* const next = call->next;
      if (call->group != 0) finish(*call, RIPC_CALL_DID_NOT_RUN, status);
      call = next;
    }
    // The holder of the service is gone. Calls that were not sent wait for the next one.
    end_sent(session, RIPC_PEER_DEAD);
    session.name = 0;
    if (session.queue.empty() && session.is_idle()) close(session);
    return;
  }
  session.search.reset();
  const Messenger::Path path = messenger_.path(session.to);
  if (!path.is_known) return find_path(session);
  const bool is_same = path.incarnation == 0 || path.incarnation == session.incarnation;
  if (session.name != 0 && is_same) return path_changed(session, path, now);
  end_sent(session, RIPC_PEER_DEAD);
  open(session, now);
}

// The same server over another path: messages in progress may have been lost with the former path.
void Client::path_changed(ClientSession& session, const Messenger::Path& path, Nanoseconds now) noexcept {
  session.state = ClientSession::State::open;
  take_path(session, path);
  for (const ClientSession::Slot& slot : session.slots) {
    if (slot.call != nullptr && slot.call->state == Call::State::sent) ask_again(*slot.call, now);
  }
  timers_.set(session, now + wire::call::kSessionTime);
}

void Client::check_path(ClientSession& session, Nanoseconds now) noexcept {
  if (session.is_group()) return;
  if (session.state != ClientSession::State::open && session.state != ClientSession::State::opening) return;
  const Messenger::Path path = messenger_.path(session.to);
  const bool is_same = path.incarnation == 0 || session.name == 0 || path.incarnation == session.incarnation;
  if (!path.is_known || !is_same) return find_path(session);
  // Somebody else may have made the path again.
  const bool is_other = session.way.owner_before(path.way) || path.way.owner_before(session.way);
  if (is_other && session.name != 0) path_changed(session, path, now);
  if ((is_other && session.name == 0) || (session.is_stale && session.is_idle())) return open(session, now);
  note_path(session, path);
}

void Client::session_over(ClientSession& session, ripc_status why) noexcept {
  if (session.state == ClientSession::State::opening) return refused(session, why);
  // The session is searching for another server, or this is a late answer to a repeated question.
  if (session.state != ClientSession::State::open || why != RIPC_CLOSED) return;
  end_queued(session, why);
  session.is_stale = true;  // the server reports how each call that it has ends
}

void Client::end_queued(ClientSession& session, ripc_status why) noexcept {
  session.queue_held_back();
  while (!session.queue.empty()) finish(*session.queue.front(), RIPC_CALL_DID_NOT_RUN, why);
}

void Client::refused(ClientSession& session, ripc_status why) noexcept {
  end_queued(session, why);
  close(session);
}

void Client::opened(ClientSession& session, const Header& header, Nanoseconds now) noexcept {
  if (session.state != ClientSession::State::opening || header.number != session.nonce) return;
  // A thread is still sending a call of the former session, whose slots it holds.
  if (!session.is_idle()) return timers_.set(session, now + TimerWheel::kTick);
  try {
    session.start(header.session, header.incarnation, header.code);
  } catch (const std::bad_alloc&) {
    return refused(session, RIPC_NO_MEMORY);
  }
  session.state = ClientSession::State::open;
  session.used_at = now;
  timers_.set(session, now + wire::call::kSessionTime);
  ++counters_.sessions_opened;
}

bool Client::session_due(ClientSession& session, Nanoseconds now) noexcept {
  session.needs_room = false;
  switch (session.state) {
    case ClientSession::State::finding:
      find_path(session);
      return true;
    case ClientSession::State::opening:
      session.open_pause = std::min(2 * session.open_pause, RoundTrip::kLongest);
      open(session, now);
      return true;
    default:
      break;
  }
  // Calls that have ended refer to their sessions until they are reported.
  const bool is_used = !session.is_idle() || session.waiting() != 0 || !ended_.empty();
  if (is_used || elapsed(session.used_at, now) < wire::call::kSessionTime) {
    const bool waits = !session.held_back.empty() && !session.probes.is_open(now);
    timers_.set(session, waits ? session.probes.opens_at() : std::max(now, session.used_at) + wire::call::kSessionTime);
    return true;
  }
  if (last_session_ == &session) last_session_ = nullptr;
  sessions_.erase(session.to);
  return false;
}

}  // namespace ripc::internal::rpc
