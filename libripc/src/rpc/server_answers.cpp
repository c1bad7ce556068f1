// SPDX-License-Identifier: Apache-2.0
// How requests end: with an answer, which may have to be kept, or without one.
#include <new>

#include "core/protocol/outgoing.hpp"
#include "rpc/server.hpp"

namespace ripc::internal::rpc {

using wire::call::Header;
using wire::call::Kind;
using wire::call::State;

namespace {

// The limit for the kept answers of one session that were sent. For answers beyond it, clients only learn that their
// calls ran. Answers that wait for room are limited only by the slots, because no other copy of them exists.
constexpr std::size_t kMaxKept = std::size_t{256} << 10;

// How long ago an endpoint that reads many messages has looked at the clock. Another look takes 25 ns, so only requests
// with little time left get one before they start.
constexpr Nanoseconds kOldestLook = 1'000'000;

// Whether items of this answer stay in the application's memory, so that the answer cannot wait.
bool is_borrowed(std::span<const ripc_item> items) noexcept {
  return core::has_kind(items, RIPC_ITEM_LONG) || core::has_kind(items, RIPC_ITEM_RETURN);
}

}  // namespace

Server::Slot* Server::slot_of(const ripc_request& request) noexcept {
  ServerSession* const session = session_of(request.session);
  if (session == nullptr) return nullptr;
  Slot& slot = session->slot(request.number);
  return slot.request == &request ? &slot : nullptr;
}

// Called when the client has used the slot again, and so no longer waits for the call in it.
void Server::abandon(ServerSession& session, Slot& slot) noexcept {
  if (slot.request == nullptr) return;
  slot.request->is_abandoned = true;
  slot.request = nullptr;
  --session.running;
}

void Server::forget(ServerSession& session, Slot& slot) noexcept {
  if (slot.is_kept) {
    session.kept_bytes -= slot.answer->items.bytes();
    slot.answer->items.clear();
  }
  slot.is_kept = false;
  if (slot.answer) slot.answer->ticket.reset();
}

void Server::end(ServerSession& session, Slot& slot, State outcome, ripc_status status) noexcept {
  if (slot.request != nullptr) --session.running;
  slot.request = nullptr;
  slot.state = Slot::State::ended;
  slot.outcome = outcome;
  slot.code = static_cast<std::uint32_t>(status);
}

Status Server::reply(ripc_request& request, std::uint32_t code, std::span<const ripc_item> items,
                     std::shared_ptr<core::Ticket>* ticket) {
  if (items.size() > RIPC_RPC_MAX_ITEMS)
    return Status(RIPC_INVALID_ARGUMENT, "An answer has at most 63 items: join some of them.");
  const ripc_service_id client = request.message->source;
  if (std::size_t bytes = 0; !core::is_plain(items, bytes)) {
    if (Status valid = core::check({.to = client, .items = items, .reply_to = request.message}); !valid.ok())
      return valid;
  }

  std::shared_ptr<Server> self;  // keeps it until the lock is gone
  std::unique_lock lock(mutex_);
  if (is_closed_) return Status(RIPC_CLOSED, "The endpoint of this request is gone: drop the request.");
  const bool is_prompt = in_handler_.load(std::memory_order_relaxed) == &request;
  const CallMessage message({.kind = Kind::answer,
                             .number = request.number,
                             .session = request.session,
                             .code = code,
                             .time = is_prompt ? 0 : wire::call::kLate},
                            items);

  ripc_status status = RIPC_OK;
  std::shared_ptr<core::Ticket> own_ticket;
  bool may_be_lost = false;
  Slot* slot = slot_of(request);
  if (slot == nullptr) {
    messenger_.release_given(items);  // nobody waits
  } else {
    status = request.message->request == 0 ? messenger_.send_short(client, message.items(), may_be_lost) : RIPC_PENDING;
    if (status == RIPC_PENDING && !is_borrowed(items) && !messenger_.path(client).is_known) status = find_path(client);
    if (status == RIPC_PENDING) {
      // Once they are sent, the leases of GIVEN items may have other holders.
      const bool is_given = core::has_kind(items, RIPC_ITEM_GIVEN);
      if (!slot->answer) slot->answer = std::make_unique<ServerSession::Answer>();  // for the ticket
      if (is_given && messenger_.path(client).loses)
        (void)keep(*session_of(request.session), *slot, items, messenger_.now(), kMaxKept);
      ++sending_;
      lock.unlock();
      Status sent;
      try {
        sent = messenger_.send({.to = client,
                                .items = message.items(),
                                .reply_to = request.message,
                                .auto_limit = kMostRepeated,
                                .is_loan_secret = ticket == nullptr,
                                .never_waits = !is_borrowed(items)},
                               &own_ticket);
      } catch (const std::bad_alloc&) {
        sent = RIPC_NO_MEMORY;
      }
      lock.lock();
      if (--sending_ == 0) sent_.notify_all();
      status = sent.code();
      slot = slot_of(request);  // the client may have given it up meanwhile
      if (slot != nullptr && (!sent.ok() || own_ticket)) forget(*session_of(request.session), *slot);
      if (!sent.ok() && status != RIPC_AGAIN && status != RIPC_PENDING) return sent;
      may_be_lost = !own_ticket && !is_given && messenger_.path(client).loses;
    }
  }
  const bool waits = (status == RIPC_AGAIN || status == RIPC_PENDING) && !is_borrowed(items);
  if (status != RIPC_OK && !waits) return status;
  if (slot != nullptr) {
    ServerSession& session = *session_of(request.session);
    MethodRecord& record = request.handler->record;
    // An answer within the handler needs no clock: the time of its request is as good, except for calls that are
    // measured.
    const bool is_measured = !is_prompt || request.is_measured;
    const Nanoseconds now = is_measured ? messenger_.now() : handler_began_at_.load(std::memory_order_relaxed);
    if (is_measured) record.time.add(elapsed(request.came_at, now));
    slot->code = code;
    if (own_ticket) slot->answer->ticket = own_ticket;
    if (waits) {
      if (!keep(session, *slot, items, now, SIZE_MAX)) return RIPC_AGAIN;
      wait(session.client, {.kind = Kind::answer, .number = request.number, .session = request.session});
      if (status == RIPC_AGAIN) ask_for_room(session.client);
      messenger_.release_given(items);
    } else if (may_be_lost) {
      try {
        (void)keep(session, *slot, items, now, kMaxKept);
      } catch (const std::bad_alloc&) {
        // The answer was sent. If it is lost, the client learns that its call ran.
      }
    }
    slot->state = waits ? Slot::State::waiting : Slot::State::answered;
    slot->request = nullptr;
    --session.running;
    session.used_at = now;
  } else if (waits) {
    messenger_.release_given(items);  // nobody waits any more
  }
  if (ticket != nullptr) *ticket = std::move(own_ticket);
  self = free(request);
  return {};
}

bool Server::keep(ServerSession& session, Slot& slot, std::span<const ripc_item> items, Nanoseconds now,
                  std::size_t most) {
  if (session.kept_bytes + KeptItems::bytes_of(items) > most && session.kept_bytes != 0) return false;
  if (!slot.answer) slot.answer = std::make_unique<ServerSession::Answer>();
  ServerSession::Answer& answer = *slot.answer;
  answer.items.assign(items);
  answer.returned = 0;
  for (std::size_t index = 0; index < items.size(); ++index)
    answer.returned |= std::uint64_t{items[index].kind == RIPC_ITEM_RETURN} << index;
  answer.kept_at = now;
  slot.is_kept = true;
  session.kept_bytes += answer.items.bytes();
  lower(look_at_, now + kAnswerAge);
  return true;
}

// Items that do not fit travel from their own copy, so the kept one is not needed any more.
Status Server::send_kept(ServerSession& session, Slot& slot) noexcept {
  const Header header{.kind = Kind::answer,
                      .number = slot.number,
                      .session = session.name,
                      .incarnation = slot.answer->returned,
                      .code = slot.code};
  std::shared_ptr<core::Ticket> ticket;
  Status status;
  try {
    status = send(session.client, CallMessage(header, std::as_const(slot.answer->items).items()), &ticket);
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  if (!ticket) return status;
  forget(session, slot);
  slot.answer->ticket = std::move(ticket);
  return status;
}

void Server::drop(ripc_request& request, ripc_status status, State outcome) noexcept {
  std::shared_ptr<Server> self;  // keeps it until the lock is gone
  const std::lock_guard lock(mutex_);
  if (outcome == State::not_run) {
    const auto take_back = [&](auto& counters) {
      --counters.requests_run;
      ++(status == RIPC_TIMEOUT ? counters.requests_expired : counters.requests_refused);
    };
    take_back(counters_);
    take_back(request.handler->record.counters);
  }
  if (Slot* const slot = slot_of(request); slot != nullptr && !is_closed_) {
    ServerSession& session = *session_of(request.session);
    end(session, *slot, outcome, status);
    notify_state(session, *slot);
  }
  self = free(request);
}

void Server::run(ripc_request& request, Nanoseconds now) noexcept {
  if (elapsed(now, request.deadline) <= kOldestLook) now = messenger_.now();
  if (request.is_abandoned.load(std::memory_order_relaxed) || now >= request.deadline)
    return drop(request, RIPC_TIMEOUT, State::not_run);
  request.handler->run(request.handler->user, &request);
}

std::shared_ptr<Server> Server::free(ripc_request& request) noexcept {
  core::MessagePool::release(std::exchange(request.message, nullptr));
  request.next = std::exchange(free_, &request);
  --held_;
  return is_closed_ && held_ == 0 ? std::move(self_) : nullptr;
}

Nanoseconds Server::time_left(const ripc_request& request) const noexcept {
  if (request.is_abandoned.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard lock(mutex_);
  if (is_closed_) return 0;
  return Deadline(request.deadline).remaining(messenger_.now());
}

}  // namespace ripc::internal::rpc
