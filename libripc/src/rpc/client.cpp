// SPDX-License-Identifier: Apache-2.0
#include "rpc/client.hpp"

#include <algorithm>

#include "core/protocol/outgoing.hpp"
#include "core/state/requests.hpp"
#include "rpc/call_message.hpp"

namespace ripc::internal::rpc {

using wire::call::Header;
using wire::call::Kind;

Header Client::request_header(const Call& call, Nanoseconds now) noexcept {
  return {.kind = Kind::request,
          .number = call.number,
          .session = call.session->name,
          .incarnation = call.session->incarnation,
          .code = call.method,
          .time = wire::call::time_left(Deadline(call.deadline).remaining(now))};
}

Client::~Client() {
  for (const auto& [to, session] : sessions_) timers_.remove(*session);
  for (const auto& call : calls_) timers_.remove(*call);
}

// ---- Calls ---------------------------------------------------------------------------------------------------

Call& Client::make(const CallRequest& request, ClientSession& session) {
  if (free_ == nullptr) {
    auto made = std::make_unique<Call>();
    made->index = static_cast<std::uint32_t>(calls_.size());
    calls_.push_back(std::move(made));
    free_ = calls_.back().get();
  }
  Call& call = *free_;
  call.returns.assign(request.returns.begin(), request.returns.end());
  if (request.loan_ended != nullptr && core::has_kind(request.items, RIPC_ITEM_LONG))
    call.loan = new Loan(request.loan_ended, request.loan_user);
  free_ = std::exchange(call.next, nullptr);
  call.start_anew();
  call.method = request.method;
  call.session = &session;
  call.group = session.is_group() ? session.to : 0;
  call.tried.clear();
  call.refusal = RIPC_NO_SERVICE;
  call.deadline = request.deadline;
  call.done = request.done;
  call.user = request.user;
  call.is_idempotent = request.is_idempotent;
  call.perhaps_ran = call.is_final = false;
  call.is_kept = false;
  return call;
}

void Client::free(Call& call) noexcept {
  timers_.remove(call);
  delete std::exchange(call.loan, nullptr);
  call.arguments.clear();
  call.ticket.reset();
  call.state = Call::State::free;
  ++call.generation;
  call.next = std::exchange(free_, &call);
}

Call* Client::find(std::uint64_t name) noexcept {
  const auto index = static_cast<std::uint32_t>(name);
  if (index >= calls_.size()) return nullptr;
  Call& call = *calls_[index];
  return call.name() == name && call.state != Call::State::free ? &call : nullptr;
}

Status Client::begin(const CallRequest& request, std::uint64_t* name) {
  if (std::size_t bytes = 0; request.to == 0 || !request.returns.empty() || !core::is_plain(request.items, bytes)) {
    if (Status valid = core::check({.to = request.to, .items = request.items, .returns = request.returns}); !valid.ok())
      return valid;
  }
  if (request.items.size() > RIPC_RPC_MAX_ITEMS)
    return Status(RIPC_INVALID_ARGUMENT, "A call has at most 63 arguments: join some of them.");
  Nanoseconds now = request.now;
  if (now >= request.deadline) return Status(RIPC_TIMEOUT, "The call has no time: its deadline has passed.");

  Lock lock(mutex_);
  if (is_closed_) return why_closed_;
  ClientSession& session = session_of(request.to);
  prepare(session, now);
  MethodRecord* const record = record_of(request.method);
  Call& call = make(request, session);
  call.record = record;
  call.is_timed = needs_clock(session, record, now);
  if (call.is_timed && request.is_rough) now = messenger_.now();
  if (record != nullptr) ++record->counters.calls;
  call.begun = now;
  ++counters_.calls;
  if (name != nullptr) *name = call.name();
  const Status status = start(lock, call, request.items, now);
  if (!status.ok()) {
    free(call);
    --counters_.calls;
    if (record != nullptr) forget_call(*record);
    return status;
  }
  if (timers_.next_due() < sleeping_until_) messenger_.wake();
  return {};
}

Status Client::start(Lock& lock, Call& call, std::span<const ripc_item> items, Nanoseconds now) noexcept {
  try {
    ClientSession& session = *call.session;
    if (!session.is_group() && session.takes(call, now)) {
      if (Status status = dispatch(lock, call, items, now); status != RIPC_PENDING) return status;
    }
    const bool has_given = core::has_kind(items, RIPC_ITEM_GIVEN);
    if (Status valid = has_given ? messenger_.check_given(items) : Status(); !valid.ok()) return valid;
    keep(call, items);  // until it can be sent, or for other members
    Status status = session.is_group() ? place(lock, call) : enqueue(call, session, now);
    if (status.ok() && has_given) messenger_.release_given(items);
    return status;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
}

Status Client::cancel(std::uint64_t name) {
  Lock lock(mutex_);
  Call* call = find(name);
  while (call != nullptr && call->is_in_send && call->state != Call::State::ended) {
    sent_.wait(lock);
    call = find(name);
  }
  Status status;
  if (call == nullptr || (call->state == Call::State::ended && !may_move(*call))) {
    status = Status(RIPC_INVALID_ARGUMENT, "There is no such call under way: it has ended, or never began.");
  } else if (call->state == Call::State::ended) {
    call->is_final = true;  // it was about to move to another member
    call->result.status = RIPC_CANCELLED;
  } else {
    give_up(*call, RIPC_CANCELLED);
  }
  // A call that has ended is reported here too: this may be a callback in the thread that would report it later.
  if (call != nullptr && ended_.remove(*call)) {
    // Another call may be waiting for its slot.
    if (call->session->waiting() != 0) note_changed();
    report(lock, *call);
  }
  return status;
}

void Client::give_up(Call& call, ripc_status why) noexcept {
  const bool was_sent = call.state == Call::State::sent;
  if (was_sent && call.session->state == ClientSession::State::open) (void)send_about(call, Kind::cancel);
  call.is_final = true;
  finish(call, was_sent ? RIPC_CALL_MAY_HAVE_RUN : RIPC_CALL_DID_NOT_RUN, why);
}

void Client::keep(Call& call, std::span<const ripc_item> items) {
  if (!items.empty() && items.data() == call.arguments.items().data()) return;  // they are kept already
  call.arguments.assign(items);
  call.is_kept = !core::has_kind(items, RIPC_ITEM_LONG);
}

Status Client::enqueue(Call& call, ClientSession& session, Nanoseconds now) {
  if (session.waiting() >= options_.queue)
    return Status(RIPC_AGAIN, "As many calls to this server wait as the endpoint allows: run it, then call again.");
  call.session = &session;
  session.wait(call, now);
  set_timer(call);
  return {};
}

Status Client::dispatch(Lock& lock, Call& call, std::span<const ripc_item> items, Nanoseconds now) {
  ClientSession& session = *call.session;
  const std::uint64_t name = session.name;
  const std::uint64_t path_changes = session.path_changes;
  // Once they are sent, the leases of GIVEN items may have other holders.
  if (session.may_lose && core::has_kind(items, RIPC_ITEM_GIVEN)) keep(call, items);
  session.take_slot(call, now);
  const CallMessage message(request_header(call, now), items);
  ripc_status status = call.returns.empty() ? messenger_.send_short(session.to, message.items()) : RIPC_PENDING;
  Status failure;
  if (status == RIPC_PENDING) {
    failure = send_any(lock, call, message.items());
    status = failure.code();
    if (call.state == Call::State::ended) return {};  // answered before send() returned
  }
  if (status != RIPC_OK) {
    session.give_slot_back(call);
    call.state = Call::State::queued;
    if (status == RIPC_AGAIN) lack_room(session, now);
    if (status == RIPC_AGAIN || status == RIPC_PENDING) return RIPC_PENDING;
    if (session.waiting() != 0) note_changed();
    return failure.ok() ? Status(status) : failure;
  }
  // The session was lost while another thread ran the endpoint.
  if (session.name != name) {
    finish(call, RIPC_CALL_MAY_HAVE_RUN, RIPC_PEER_DEAD);
    note_changed();
    return {};
  }
  // Items that travel long are not lost.
  if (session.may_lose && !call.ticket && !call.is_kept && !core::has_kind(items, RIPC_ITEM_GIVEN)) {
    try {
      keep(call, items);
    } catch (const std::bad_alloc&) {
    }
  }
  note_sent(call, now);
  if (session.path_changes != path_changes) ask_again(call, now);  // it may have been lost with its path
  return {};
}

// Called when a message cannot be sent without waiting. Nothing reports that the path is wide enough, so the session
// looks again and again.
void Client::wait_for_path(ClientSession& session) noexcept {
  if (!messenger_.path(session.to).is_known) return find_path(session);
  session.needs_room = true;
  timers_.set(session, messenger_.now() + TimerWheel::kTick);
}

// The general case. The thread releases the lock, because it may copy much.
Status Client::send_any(Lock& lock, Call& call, std::span<const ripc_item> items) {
  ClientSession& session = *call.session;
  try {
    if (!call.returns.empty()) call.requests.reserve(call.requests.size() + 1);
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  core::SendArguments arguments;
  arguments.to = session.to;
  arguments.items = items;
  arguments.returns = call.returns;
  arguments.timeout = Deadline(call.deadline).remaining(messenger_.now());
  arguments.auto_limit = kMostRepeated;
  arguments.never_waits = true;
  std::uint64_t request_name = 0;
  arguments.request_id = &request_name;
  Loan* const loan = call.loan;
  if (loan != nullptr) {
    loan->hold();
    arguments.callback = &Loan::release;
    arguments.user = loan;
  }
  call.state = Call::State::sending;
  call.is_in_send = true;
  call.end_state.reset();
  std::shared_ptr<core::Ticket> ticket;
  Status status;
  lock.unlock();
  try {
    status = messenger_.send(arguments, &ticket);
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  if (loan != nullptr && !status.ok()) Loan::release(loan, status.code());
  lock.lock();
  call.is_in_send = false;
  // An earlier request keeps its return buffers: it may be late instead of lost, and then the server answers that one.
  if (request_name != 0) call.requests.push_back(request_name);
  sent_.notify_all();
  call.ticket = std::move(ticket);
  if (status == RIPC_PENDING) wait_for_path(session);
  if (call.end_state && call.state == Call::State::sending) {
    end_with_state(call, *call.end_state);
    note_changed();
  }
  return status;
}

void Client::note_sent(Call& call, Nanoseconds now) noexcept {
  ClientSession& session = *call.session;
  call.state = Call::State::sent;
  call.sent_at = session.used_at = now;
  // On a path that loses nothing, only a ticket may fail.
  call.repeat_pause = session.may_lose ? session.round_trip.overdue() : RoundTrip::kLongest;
  call.repeat_at = session.may_lose || call.ticket ? now + call.repeat_pause : UINT64_MAX;
  set_timer(call);
}

void Client::lack_room(ClientSession& session, Nanoseconds now) noexcept {
  session.needs_room = true;
  messenger_.ask_for_room(session.to);
  timers_.set(session, now + TimerWheel::kTick);
}

void Client::pump(Lock& lock, ClientSession& session) {
  if (session.is_stale && session.is_idle()) {
    if (session.waiting() == 0) return close(session);
    check_path(session, messenger_.now());
  }
  while (session.takes_calls() && session.waiting() != 0) {
    const Nanoseconds now = messenger_.now();
    Call* const next = session.next_call(now);
    if (next == nullptr) return;
    Call& call = *next;
    if (session.is_group()) {
      place_begun(lock, call);
      continue;
    }
    const Status status = dispatch(lock, call, call.arguments.items(), now);
    if (status == RIPC_PENDING) {
      session.queue.push_front(call);
      set_timer(call);
      return;
    }
    if (!status.ok()) finish(call, RIPC_CALL_DID_NOT_RUN, status.code());
  }
}

void Client::finish(Call& call, ripc_call_outcome outcome, ripc_status status) noexcept {
  ClientSession& session = *call.session;
  if (call.state == Call::State::queued) {
    if (call.queue != nullptr) call.queue->remove(call);
  } else {
    session.give_slot_back(call);
  }
  timers_.remove(call);
  call.state = Call::State::ended;
  call.had_session = session.name != 0;
  if (call.perhaps_ran && outcome == RIPC_CALL_DID_NOT_RUN) outcome = RIPC_CALL_MAY_HAVE_RUN;
  call.result.outcome = outcome;
  call.result.status = status;
  ended_.push(call);
}

// Takes back what a member or a server still has of an ended call, and releases the lock, because it may wait. When the
// endpoint ends, all peers that stand still are waited for together.
void Client::take_back(Lock& lock, const Call& call) noexcept {
  const Nanoseconds until = patient_until_;
  lock.unlock();
  for (const std::uint64_t request : call.requests)
    messenger_.end_request(request, Deadline(std::min(until, messenger_.now() + core::RequestTable::kWritePatience)));
  if (call.ticket && call.result.outcome != RIPC_CALL_ANSWERED) (void)call.ticket->cancel();
}

// Reports a call that has ended and is in no list. An answer may overtake the end of its send().
void Client::report(Lock& lock, Call& call) {
  while (call.is_in_send) sent_.wait(lock);
  if (may_move(call)) return move(lock, call);
  count(call);
  Loan* const loan = std::exchange(call.loan, nullptr);
  // The caller has its memory back before it learns of the end.
  take_back(lock, call);
  if (loan != nullptr) Loan::release(loan, static_cast<ripc_status>(call.result.status));
  if (call.done != nullptr) {
    call.done(call.user, &call.result);
  } else {
    ripc_message_release(call.result.message);
  }
  lock.lock();
  free(call);
}

std::size_t Client::report_ended(Lock& lock) {
  std::size_t count = 0;
  while (!ended_.empty()) {
    ++count;
    Call& call = *ended_.front();
    ended_.remove(call);
    ClientSession& session = *call.session;
    const bool holds_nothing = call.requests.empty() && !call.ticket && call.loan == nullptr && !call.is_in_send;
    if (!holds_nothing || call.done == nullptr || may_move(call)) {
      report(lock, call);
      pump(lock, session);
      continue;
    }
    // The case of most calls: it does not take the lock a second time.
    this->count(call);
    const ripc_call_done done = call.done;
    void* const user = call.user;
    const ripc_call_result result = call.result;
    free(call);
    pump(lock, session);
    const bool is_last = ended_.empty();
    lock.unlock();
    done(user, &result);
    if (is_last) return count;
    lock.lock();
  }
  return count;
}

// ---- Time ----------------------------------------------------------------------------------------------------

void Client::note_changed() noexcept {
  changed_ = true;
  // The thread that reports changes may hold this client longer than the endpoint and its messenger exist.
  if (sleeping_until_ != 0 && !is_closed_) messenger_.wake();
}

void Client::changed() noexcept {
  const Lock lock(mutex_);
  note_changed();
}

// False: changes are handled when there is memory. Deadlines do not wait for that.
bool Client::has_room_for_changed() noexcept {
  try {
    changed_sessions_.reserve(sessions_.size());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::size_t Client::progress(Nanoseconds now) {
  mutex_.adopt();
  Lock lock(mutex_);
  sleeping_until_ = 0;
  // Sending releases the lock, and other threads may add sessions meanwhile. So the sessions that can send are noted
  // first.
  if (changed_ && has_room_for_changed()) {
    changed_ = false;
    for (const auto& [to, status] : std::exchange(found_, {})) {
      if (ClientSession* const found = find_session(to)) path_found(*found, status, now);
    }
    changed_sessions_.clear();
    for (const auto& [to, session] : sessions_) {
      check_path(*session, now);
      session->needs_room = false;
      if (session->takes_calls() && session->waiting() != 0) changed_sessions_.push_back(session.get());
    }
    for (ClientSession* session : changed_sessions_) pump(lock, *session);
  }
  while (TimerWheel::Timer* timer = timers_.take_due(now)) {
    if (timer->of() == TimerWheel::Timer::Of::call) {
      call_due(static_cast<Call&>(*timer), now);
    } else if (auto& session = static_cast<ClientSession&>(*timer); session_due(session, now)) {
      pump(lock, session);
    }
  }
  const std::size_t reported = report_ended(lock);
  if (reported == 0) sleeping_until_ = changed_ ? 0 : timers_.next_due();
  return reported;
}

std::size_t Client::end_all(ripc_status why) {
  Lock lock(mutex_);
  if (!is_closed_) {
    why_closed_ = why;
    patient_until_ = messenger_.now() + core::RequestTable::kWritePatience;
  }
  is_closed_ = true;
  for (const auto& call : calls_) {
    while (call->is_in_send) sent_.wait(lock);
    if (call->state == Call::State::queued || call->state == Call::State::sent) give_up(*call, why);
  }
  for (const auto& [to, session] : sessions_) session->search.reset();
  return report_ended(lock);
}

}  // namespace ripc::internal::rpc
