// SPDX-License-Identifier: Apache-2.0
#include "rpc/client.hpp"

#include <algorithm>
#include <array>

#include "base/random.hpp"
#include "core/protocol/outgoing.hpp"

namespace ripc::internal::rpc {

using wire::call::Header;
using wire::call::Kind;

namespace {

// What an ended ticket says of the request: it was not delivered, and never will be.
bool is_undelivered(ripc_status status) noexcept {
  return status == RIPC_TIMEOUT || status == RIPC_CANCELLED || status == RIPC_REFUSED || status == RIPC_LIMIT;
}

Nanoseconds left(Nanoseconds deadline, Nanoseconds now) noexcept {
  if (deadline == UINT64_MAX) return UINT64_MAX;
  return deadline > now ? deadline - now : 0;
}

ripc_item header_item(const std::array<std::byte, wire::call::kHeaderSize>& header) noexcept {
  return {header.data(), header.size(), RIPC_ITEM_SHORT, 0};
}

// The items of a request: its header, and the arguments where they lie.
class RequestMessage {
 public:
  RequestMessage(const Call& call, std::span<const ripc_item> arguments, Nanoseconds now) noexcept
      : header_(wire::call::encode({.kind = Kind::request,
                                    .number = call.number,
                                    .session = call.session->name,
                                    .incarnation = call.session->incarnation,
                                    .code = call.method,
                                    .time = wire::call::time_left(left(call.deadline, now))})),
        count_(arguments.size() + 1) {
    items_[0] = header_item(header_);
    std::copy(arguments.begin(), arguments.end(), items_.begin() + 1);
  }
  RequestMessage(const RequestMessage&) = delete;
  RequestMessage& operator=(const RequestMessage&) = delete;
  std::span<const ripc_item> items() const noexcept { return {items_.data(), count_}; }

 private:
  std::array<std::byte, wire::call::kHeaderSize> header_;
  std::array<ripc_item, RIPC_MAX_ITEMS> items_;
  std::size_t count_;
};

}  // namespace

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
  free_ = std::exchange(call.next, nullptr);
  call.state = Call::State::queued;
  call.method = request.method;
  call.session = &session;
  call.deadline = request.deadline;
  call.done = request.done;
  call.user = request.user;
  call.loan_ended = request.loan_ended;
  call.loan_user = request.loan_user;
  call.owes_loan = request.loan_ended != nullptr && core::has_kind(request.items, RIPC_ITEM_LONG);
  call.repeats = 0;
  call.repeat_at = UINT64_MAX;
  call.is_kept = false;
  call.is_with_server = false;
  call.request = 0;
  call.result = {};
  call.result.size = sizeof call.result;
  return call;
}

void Client::free(Call& call) noexcept {
  timers_.remove(call);
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
  const bool is_under_way = call.state != Call::State::free && call.state != Call::State::ended;
  return call.name() == name && is_under_way ? &call : nullptr;
}

Status Client::begin(const CallRequest& request, std::uint64_t* name) {
  core::SendArguments arguments;
  arguments.to = request.to;
  arguments.items = request.items;
  arguments.returns = request.returns;
  if (Status valid = core::check(arguments); !valid.ok()) return valid;
  if (request.items.size() > RIPC_RPC_MAX_ITEMS)
    return Status(RIPC_INVALID_ARGUMENT, "A call has at most 63 arguments: join some of them.");
  const Nanoseconds now = messenger_.now();
  if (now >= request.deadline) return Status(RIPC_TIMEOUT, "The call has no time: its deadline has passed.");

  Lock lock(mutex_);
  if (is_closed_) return RIPC_CLOSED;
  ClientSession& session = session_of(request.to);
  prepare(session, now);
  Call& call = make(request, session);
  call.begun = now;
  ++counters_.calls;
  if (name != nullptr) *name = call.name();
  Status status = RIPC_PENDING;
  if (session.takes_calls() && session.queue.empty()) status = dispatch(lock, call, request.items, now);
  if (status == RIPC_PENDING) {
    try {
      status = enqueue(call, request.items);
    } catch (const std::bad_alloc&) {
      status = RIPC_NO_MEMORY;
    }
  }
  if (!status.ok()) {
    free(call);
    --counters_.calls;
    return status;
  }
  if (timers_.next_due() < sleeping_until_) messenger_.wake();
  return {};
}

Status Client::cancel(std::uint64_t name) {
  Lock lock(mutex_);
  Call* call = find(name);
  while (call != nullptr && call->is_in_send) {
    sent_.wait(lock);
    call = find(name);
  }
  if (call == nullptr)
    return Status(RIPC_INVALID_ARGUMENT, "There is no such call under way: it has ended, or never began.");
  give_up(*call, RIPC_CANCELLED);
  ended_.remove(*call);
  // Its slot may be what another one waits for.
  if (!call->session->queue.empty()) note_changed();
  tell(lock, *call);
  return {};
}

void Client::give_up(Call& call, ripc_status why) noexcept {
  const bool was_sent = call.state == Call::State::sent;
  const ClientSession& session = *call.session;
  if (was_sent && session.state == ClientSession::State::open)
    (void)send_header(
        session,
        {.kind = Kind::cancel, .number = call.number, .session = session.name, .incarnation = session.incarnation});
  finish(call, was_sent ? RIPC_CALL_MAY_HAVE_RUN : RIPC_CALL_DID_NOT_RUN, why);
}

Status Client::enqueue(Call& call, std::span<const ripc_item> items) {
  ClientSession& session = *call.session;
  if (session.queue.size() >= options_.queue)
    return Status(RIPC_AGAIN, "As many calls to this server wait as the endpoint allows: run it, then call again.");
  call.arguments.assign(items);
  call.is_kept = !core::has_kind(items, RIPC_ITEM_LONG);
  if (core::has_kind(items, RIPC_ITEM_GIVEN)) messenger_.release_given(items);
  session.queue.push(call);
  set_timer(call);
  return {};
}

Status Client::dispatch(Lock& lock, Call& call, std::span<const ripc_item> items, Nanoseconds now) {
  ClientSession& session = *call.session;
  const std::uint64_t name = session.name;
  session.take_slot(call);
  const RequestMessage message(call, items, now);
  ripc_status status = call.returns.empty() ? messenger_.send_short(session.to, message.items()) : RIPC_PENDING;
  Status failure;
  if (status == RIPC_PENDING) {
    failure = send_any(lock, call, message.items());
    status = failure.code();
    if (call.state == Call::State::ended || call.state == Call::State::free)
      return {};  // answered before send() returned
  }
  if (status != RIPC_OK) {
    session.give_slot_back(call);
    call.state = Call::State::queued;
    if (status != RIPC_AGAIN) return failure.ok() ? Status(status) : failure;
    lack_room(session, now);
    return RIPC_PENDING;
  }
  // The session was lost while another thread ran the endpoint.
  if (session.name != name) {
    finish(call, RIPC_CALL_MAY_HAVE_RUN, RIPC_PEER_DEAD);
    note_changed();
    return {};
  }
  // What travels long is not lost.
  if (session.may_lose && !call.ticket && !call.is_kept) {
    try {
      call.arguments.assign(items);
      call.is_kept = true;
    } catch (const std::bad_alloc&) {
    }
  }
  note_sent(call, now);
  return {};
}

// The general way. The thread lets go of the lock, because much may be copied.
Status Client::send_any(Lock& lock, Call& call, std::span<const ripc_item> items) {
  ClientSession& session = *call.session;
  if (!messenger_.path(session.to).is_known) {
    find_path(session);
    return RIPC_PENDING;
  }
  core::SendArguments arguments;
  arguments.to = session.to;
  arguments.items = items;
  arguments.returns = call.returns;
  arguments.timeout = left(call.deadline, messenger_.now());
  std::uint64_t request_name = 0;
  arguments.request_id = &request_name;
  arguments.callback = call.owes_loan ? call.loan_ended : nullptr;
  arguments.user = call.loan_user;
  call.state = Call::State::sending;
  call.is_in_send = true;
  std::shared_ptr<core::Ticket> ticket;
  Status status;
  lock.unlock();
  // Of a request that is sent again, the return buffers are granted anew.
  if (call.request != 0) messenger_.end_request(call.request);
  try {
    status = messenger_.send(arguments, &ticket);
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  lock.lock();
  call.is_in_send = false;
  call.request = request_name;
  sent_.notify_all();
  if (status.ok()) call.owes_loan = false;
  if (call.state == Call::State::free) {  // told of already, and left to this thread
    free(call);
    return {};
  }
  call.ticket = std::move(ticket);
  return status;
}

void Client::note_sent(Call& call, Nanoseconds now) noexcept {
  ClientSession& session = *call.session;
  call.state = Call::State::sent;
  call.sent_at = session.used_at = now;
  // Only a ticket may fail on a path that loses nothing.
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
  if (session.is_stale && session.is_idle()) check_path(session, messenger_.now());
  while (session.takes_calls() && !session.queue.empty()) {
    Call& call = *session.queue.front();
    session.queue.remove(call);
    const Status status = dispatch(lock, call, call.arguments.items(), messenger_.now());
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
    session.queue.remove(call);
  } else {
    session.give_slot_back(call);
  }
  timers_.remove(call);
  call.state = Call::State::ended;
  call.result.outcome = outcome;
  call.result.status = status;
  ++(outcome == RIPC_CALL_ANSWERED      ? counters_.answered
     : outcome == RIPC_CALL_DID_NOT_RUN ? counters_.did_not_run
                                        : counters_.may_have_run);
  ended_.push(call);
}

// Of a call that has ended and is in no list.
void Client::tell(Lock& lock, Call& call) {
  const bool is_answered = call.result.outcome == RIPC_CALL_ANSWERED;
  const bool owes_loan = call.owes_loan && !call.is_in_send;
  lock.unlock();
  // Memory is the caller's again before it is told.
  if (call.request != 0) messenger_.end_request(call.request);
  if (call.ticket && !is_answered) (void)call.ticket->cancel();
  if (owes_loan) call.loan_ended(call.loan_user, static_cast<ripc_status>(call.result.status));
  if (call.done != nullptr) {
    call.done(call.user, &call.result);
  } else {
    ripc_message_release(call.result.message);
  }
  lock.lock();
  if (call.is_in_send) {
    call.state = Call::State::free;  // by the thread that is there
  } else {
    free(call);
  }
}

std::size_t Client::tell_ended(Lock& lock) {
  std::size_t count = 0;
  for (; !ended_.empty(); ++count) {
    Call& call = *ended_.front();
    ended_.remove(call);
    ClientSession& session = *call.session;
    tell(lock, call);
    pump(lock, session);
  }
  return count;
}

// ---- Sessions ------------------------------------------------------------------------------------------------

ClientSession& Client::session_of(ripc_service_id to) {
  std::unique_ptr<ClientSession>& session = sessions_[to];
  if (!session) session = std::make_unique<ClientSession>(to);
  return *session;
}

// Before a call: an idle session may lead nowhere by now, without anybody having been told.
void Client::prepare(ClientSession& session, Nanoseconds now) {
  if (session.state == ClientSession::State::closed) {
    open(session, now);
  } else if (session.state == ClientSession::State::open && session.is_idle() && session.queue.empty()) {
    const bool is_old = now - session.used_at > wire::call::kSessionTime / 2;
    if (is_old) session.is_stale = true;
    check_path(session, now);
  }
}

void Client::find_path(ClientSession& session) noexcept {
  if (session.state != ClientSession::State::finding) {
    session.state = ClientSession::State::finding;
    session.finding_since = messenger_.now();
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
  session.may_lose = path.loses;
  session.name = 0;
  session.is_stale = false;
  const ripc_status status =
      send_header(session, {.kind = Kind::open, .number = session.nonce, .code = options_.slots});
  if (status == RIPC_PENDING) return find_path(session);
  session.used_at = now;
  timers_.set(session, path.loses || status != RIPC_OK ? now + session.open_pause : UINT64_MAX);
}

void Client::close(ClientSession& session) noexcept {
  session.state = ClientSession::State::closed;
  session.name = 0;
  session.is_stale = false;
  session.search.reset();
  session.used_at = messenger_.now();
  timers_.set(session, session.used_at + wire::call::kSessionTime);
}

// What was sent may have run, and nobody will say.
void Client::end_sent(ClientSession& session, ripc_status why) noexcept {
  for (const ClientSession::Slot& slot : session.slots) {
    if (slot.call != nullptr && !slot.call->is_in_send) finish(*slot.call, RIPC_CALL_MAY_HAVE_RUN, why);
  }
}

void Client::path_found(ClientSession& session, ripc_status status, Nanoseconds now) noexcept {
  if (session.state != ClientSession::State::finding) return;
  if (status != RIPC_OK) {
    session.failure = status;
    // Whoever held the service is gone. Calls that were not sent wait for the next one.
    end_sent(session, RIPC_PEER_DEAD);
    session.name = 0;
    if (session.queue.empty() && session.is_idle()) close(session);
    return;
  }
  session.search.reset();
  const Messenger::Path path = messenger_.path(session.to);
  if (!path.is_known) return find_path(session);
  const bool is_same = path.incarnation == 0 || path.incarnation == session.incarnation;
  if (session.name != 0 && is_same) {
    // The same server by another path: what is under way may have been lost with the former one.
    session.state = ClientSession::State::open;
    session.may_lose = path.loses;
    for (const ClientSession::Slot& slot : session.slots) {
      if (slot.call == nullptr || slot.call->state != Call::State::sent) continue;
      slot.call->is_with_server = true;  // asked for, as nobody knows whether it still has its arguments
      slot.call->repeat_at = now;
      set_timer(*slot.call);
    }
    timers_.set(session, now + wire::call::kSessionTime);
    return;
  }
  end_sent(session, RIPC_PEER_DEAD);
  open(session, now);
}

void Client::check_path(ClientSession& session, Nanoseconds now) noexcept {
  if (session.state != ClientSession::State::open && session.state != ClientSession::State::opening) return;
  const Messenger::Path path = messenger_.path(session.to);
  const bool is_same = path.incarnation == 0 || session.name == 0 || path.incarnation == session.incarnation;
  if (!path.is_known || !is_same) return find_path(session);
  session.may_lose = path.loses;
  if (session.is_stale && session.is_idle()) open(session, now);
}

// ---- Messages ------------------------------------------------------------------------------------------------

std::size_t Client::received(core::Message* message, const Header& header, Nanoseconds now) {
  Lock lock(mutex_);
  const auto found = sessions_.find(message->source);
  bool is_kept = false;
  if (found == sessions_.end()) {
    ++counters_.dropped;
  } else {
    ClientSession& session = *found->second;
    if (header.kind == Kind::answer) {
      is_kept = answered(session, *message, header, now);
    } else if (header.kind == Kind::opened) {
      opened(session, header, now);
    } else if (Call* const unseen = told(session, header, now)) {
      send_again(lock, *unseen);
    }
    pump(lock, session);
  }
  if (!is_kept) core::MessagePool::release(message);
  return tell_ended(lock);
}

bool Client::answered(ClientSession& session, core::Message& message, const Header& header, Nanoseconds now) noexcept {
  Call* const call = session.name == header.session ? session.call(header.number) : nullptr;
  if (call == nullptr) return false;  // it has ended
  session.used_at = now;
  if (session.may_lose && call->repeats == 0) session.round_trip.add(now - call->sent_at);
  if (message.in_reply_to == call->request) call->request = 0;  // it has ended with its answer
  const std::size_t count = message.item_count - 1;
  for (std::size_t index = 0; index < count && index < RIPC_RPC_MAX_ITEMS; ++index) {
    if ((header.incarnation >> index & 1) == 0) continue;
    ripc_item_view& view = message.items[index + 1];
    const auto bytes = std::span(static_cast<const std::byte*>(view.data), view.size);
    const Result<wire::call::Returned> returned = wire::call::decode_returned(bytes);
    view = {};
    view.kind = RIPC_VIEW_FAILED;
    view.status = RIPC_CORRUPT;
    if (!returned.ok() || returned->index >= call->returns.size()) continue;
    const ripc_return_buffer& buffer = call->returns[returned->index];
    if (returned->size > buffer.size) continue;
    view.data = buffer.data;
    view.size = static_cast<std::size_t>(returned->size);
    view.kind = RIPC_VIEW_RETURNED;
    view.status = RIPC_OK;
    view.return_index = returned->index;
  }
  call->result.code = header.code;
  call->result.item_count = static_cast<std::uint32_t>(count);
  call->result.items = message.items + 1;
  call->result.message = reinterpret_cast<ripc_message*>(&message);
  finish(*call, RIPC_CALL_ANSWERED, RIPC_OK);
  return true;
}

void Client::opened(ClientSession& session, const Header& header, Nanoseconds now) {
  if (session.state != ClientSession::State::opening || header.number != session.nonce) return;
  // A thread is still sending a call of the former session, whose slots it holds.
  if (!session.is_idle()) return timers_.set(session, now + TimerWheel::kTick);
  session.start(header.session, header.incarnation, header.code);
  session.state = ClientSession::State::open;
  session.used_at = now;
  timers_.set(session, now + wire::call::kSessionTime);
  ++counters_.sessions_opened;
}

Call* Client::told(ClientSession& session, const Header& header, Nanoseconds now) noexcept {
  const auto why = static_cast<ripc_status>(header.code);
  if (header.session == 0) {
    if (session.state != ClientSession::State::opening || header.number != session.nonce) return nullptr;
    while (!session.queue.empty()) finish(*session.queue.front(), RIPC_CALL_DID_NOT_RUN, why);
    close(session);
    return nullptr;
  }
  Call* const call = session.name == header.session ? session.call(header.number) : nullptr;
  if (call == nullptr || call->is_in_send) return nullptr;
  session.used_at = now;
  switch (header.state) {
    case wire::call::State::running:
      call->is_with_server = true;
      break;
    case wire::call::State::not_run:
      finish(*call, RIPC_CALL_DID_NOT_RUN, why);
      break;
    case wire::call::State::may_have_run:
      finish(*call, RIPC_CALL_MAY_HAVE_RUN, why);
      break;
    case wire::call::State::no_session:
      // True of this message. Of a call that was sent several times, an earlier one may have run.
      session.is_stale = true;
      finish(*call, call->repeats == 0 ? RIPC_CALL_DID_NOT_RUN : RIPC_CALL_MAY_HAVE_RUN, why);
      break;
    case wire::call::State::unseen:
      // What travels long is on its way.
      return call->is_kept && !call->ticket ? call : nullptr;
  }
  return nullptr;
}

ripc_status Client::send_header(const ClientSession& session, const Header& header) noexcept {
  const auto bytes = wire::call::encode(header);
  const ripc_item item = header_item(bytes);
  return messenger_.send_short(session.to, {&item, 1});
}

// ---- Time ----------------------------------------------------------------------------------------------------

void Client::note_changed() noexcept {
  changed_ = true;
  // Whoever tells of changes may hold this longer than the endpoint, and its messenger, exist.
  if (sleeping_until_ != 0 && !is_closed_) messenger_.wake();
}

void Client::changed() noexcept {
  const Lock lock(mutex_);
  note_changed();
}

Nanoseconds Client::sleep_until() noexcept {
  const Lock lock(mutex_);
  sleeping_until_ = changed_ || !ended_.empty() ? 0 : timers_.next_due();
  return sleeping_until_;
}

std::size_t Client::progress(Nanoseconds now) {
  Lock lock(mutex_);
  sleeping_until_ = 0;
  if (std::exchange(changed_, false)) {
    for (const auto& [to, status] : std::exchange(found_, {})) {
      if (const auto found = sessions_.find(to); found != sessions_.end()) path_found(*found->second, status, now);
    }
    // Sending lets go of the lock, and others add sessions meanwhile: so these are noted first.
    changed_sessions_.clear();
    for (const auto& [to, session] : sessions_) {
      check_path(*session, now);
      session->needs_room = false;
      if (session->takes_calls() && !session->queue.empty()) changed_sessions_.push_back(session.get());
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
  return tell_ended(lock);
}

void Client::set_timer(Call& call) noexcept {
  Nanoseconds due = call.deadline;
  if (call.state == Call::State::queued) {
    const ClientSession& session = *call.session;
    if (session.state == ClientSession::State::finding)
      due = std::min(due, std::max(call.begun, session.finding_since) + messenger_.resolve_timeout());
  } else {
    due = std::min(due, call.repeat_at);
  }
  timers_.set(call, due);
}

void Client::call_due(Call& call, Nanoseconds now) noexcept {
  if (call.is_in_send) return timers_.set(call, now + TimerWheel::kTick);
  const ClientSession& session = *call.session;
  if (now >= call.deadline) return give_up(call, RIPC_TIMEOUT);
  if (call.state == Call::State::queued) {
    const bool has_no_path = session.state == ClientSession::State::finding;
    if (has_no_path && now >= std::max(call.begun, session.finding_since) + messenger_.resolve_timeout())
      return finish(call, RIPC_CALL_DID_NOT_RUN, session.failure);
  } else if (now >= call.repeat_at) {
    repeat(call, now);
    if (call.state == Call::State::ended) return;
  }
  set_timer(call);
}

void Client::repeat(Call& call, Nanoseconds now) noexcept {
  const ClientSession& session = *call.session;
  call.repeat_at = now + call.repeat_pause;
  call.repeat_pause = std::min(2 * call.repeat_pause, RoundTrip::kLongest);
  if (call.ticket) {
    const ripc_status status = call.ticket->poll();
    if (status == RIPC_PENDING) return;  // core repeats it
    call.ticket.reset();
    if (is_undelivered(status)) return finish(call, RIPC_CALL_DID_NOT_RUN, status);
  }
  if (session.state != ClientSession::State::open) return;
  // A question that is not lost is asked once.
  if (!session.may_lose) call.repeat_at = UINT64_MAX;
  if (!session.may_lose && !call.is_with_server) return;
  ++call.repeats;
  ++counters_.repeats;
  if (call.is_kept && call.returns.empty() && !call.is_with_server) {
    (void)messenger_.send_short(session.to, RequestMessage(call, call.arguments.items(), now).items());
  } else {
    (void)send_header(
        session,
        {.kind = Kind::ask, .number = call.number, .session = session.name, .incarnation = session.incarnation});
  }
}

// The server has not seen it.
void Client::send_again(Lock& lock, Call& call) {
  ++call.repeats;
  ++counters_.repeats;
  call.is_with_server = false;
  const RequestMessage message(call, call.arguments.items(), messenger_.now());
  if (call.returns.empty()) {
    (void)messenger_.send_short(call.session->to, message.items());
    return;
  }
  // Without room or path, the next question leads here again.
  (void)send_any(lock, call, message.items());
  if (call.state == Call::State::sending) call.state = Call::State::sent;
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
  const bool is_used = !session.is_idle() || !session.queue.empty();
  if (is_used || now - session.used_at < wire::call::kSessionTime) {
    timers_.set(session, std::max(now, session.used_at) + wire::call::kSessionTime);
    return true;
  }
  sessions_.erase(session.to);
  return false;
}

std::size_t Client::end_all(ripc_status why) {
  Lock lock(mutex_);
  is_closed_ = true;
  for (const auto& call : calls_) {
    while (call->is_in_send) sent_.wait(lock);
    if (call->state == Call::State::queued || call->state == Call::State::sent) give_up(*call, why);
  }
  for (const auto& [to, session] : sessions_) session->search.reset();
  return tell_ended(lock);
}

void Client::add_to(ripc_rpc_statistics& statistics) const noexcept {
  const Lock lock(mutex_);
  statistics.calls += counters_.calls;
  statistics.answered += counters_.answered;
  statistics.did_not_run += counters_.did_not_run;
  statistics.may_have_run += counters_.may_have_run;
  statistics.repeats += counters_.repeats;
  statistics.sessions_opened += counters_.sessions_opened;
  statistics.dropped += counters_.dropped;
}

}  // namespace ripc::internal::rpc
