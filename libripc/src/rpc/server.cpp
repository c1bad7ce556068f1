// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.hpp"

#include <new>

#include "base/random.hpp"
#include "rpc/timer_wheel.hpp"

namespace ripc::internal::rpc {

using wire::call::Header;
using wire::call::Kind;
using wire::call::State;

namespace {

// The most messages that wait for one client, besides answers. A client that reads needs fewer: it asks for each call
// once per repeat.
constexpr std::size_t kMostWaiting = std::size_t{2} * wire::call::kMaxSlots;

}  // namespace

Server::~Server() {
  while (free_ != nullptr) delete std::exchange(free_, free_->next);
}

Status Server::handle(std::uint32_t method, const Handler& handler) {
  if (handler.is_for_workers && workers_ == nullptr)
    return Status(RIPC_INVALID_ARGUMENT, "The endpoint has no workers: set ripc_rpc_options.workers.");
  const std::lock_guard lock(mutex_);
  if (!handlers_.emplace(method, handler).second)
    return Status(RIPC_INVALID_ARGUMENT, "The method has a handler already: give each method one number.");
  return {};
}

// ---- Messages ------------------------------------------------------------------------------------------------

std::size_t Server::received(core::Message* message, const Header& header, Arrival& arrival) {
  ripc_request* request = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (header.kind == Kind::open) {
      try {
        open(*message, header, arrival.about());
      } catch (const std::bad_alloc&) {
        refuse(*message, header, RIPC_NO_MEMORY);
      }
    } else if (ServerSession* session = session_of(*message, header); session == nullptr) {
      const bool is_other = header.incarnation != messenger_.incarnation();
      refuse_without_session(*message, header, is_other ? RIPC_FENCED : RIPC_CLOSED);
    } else if (session->slots.empty() && !session->make_slots()) {
      // Nothing remembers this number, so its session must end, or a copy could still run.
      forget(*session);
      refuse_without_session(*message, header, RIPC_NO_MEMORY);
    } else {
      session->used_at = arrival.about();
      request = take(*session, *message, header, arrival);
    }
  }
  if (request == nullptr) {
    core::MessagePool::release(message);
    return 0;
  }
  if (!request->handler->is_for_workers) {
    ready_.push(*request);
    return 0;
  }
  if (!workers_->push(*request)) drop(*request, RIPC_AGAIN, State::not_run);
  return 1;
}

void Server::refuse_version(const core::Message& message, const Header& header) noexcept {
  if (header.kind != Kind::open || message.item_count != 1 || message.items[0].size != wire::call::kHeaderSize) return;
  const std::lock_guard lock(mutex_);
  refuse(message, header, RIPC_VERSION_MISMATCH);
}

void Server::run_next(Nanoseconds now) noexcept {
  ripc_request& request = ready_.pop();
  handler_began_at_.store(now, std::memory_order_relaxed);
  in_handler_.store(&request, std::memory_order_relaxed);
  run(request, now);
  in_handler_.store(nullptr, std::memory_order_relaxed);
}

ServerSession* Server::session_of(std::uint64_t name) noexcept {
  const auto index = static_cast<std::uint32_t>(name);
  if (index >= sessions_.size() || sessions_[index]->name != name) return nullptr;
  return sessions_[index].get();
}

ServerSession* Server::session_of(const core::Message& message, const Header& header) noexcept {
  if (header.incarnation != messenger_.incarnation()) return nullptr;
  ServerSession* const session = session_of(header.session);
  return session != nullptr && session->client == message.source ? session : nullptr;
}

void Server::refuse(const core::Message& message, const Header& header, ripc_status why) noexcept {
  ++counters_.requests_refused;
  notify(message.source, {.version = header.version,
                          .kind = Kind::state,
                          .state = State::not_run,
                          .number = header.number,
                          .code = static_cast<std::uint32_t>(why)});
}

void Server::refuse_without_session(const core::Message& message, const Header& header, ripc_status why) noexcept {
  ++counters_.requests_refused;
  notify(message.source, {.kind = Kind::state,
                          .state = State::no_session,
                          .number = header.number,
                          .session = header.session,
                          .code = static_cast<std::uint32_t>(why)});
}

void Server::open(const core::Message& message, const Header& header, Nanoseconds now) {
  if (is_ending_) return refuse(message, header, RIPC_CLOSED);
  const auto notify_opened = [&](const ServerSession& session) {
    notify(message.source, {.kind = Kind::opened,
                            .number = header.number,
                            .session = session.name,
                            .incarnation = messenger_.incarnation(),
                            .code = header.code});
  };
  // The client repeats this question if it may be lost.
  const auto newest = newest_.find(message.source);
  ServerSession* const known = newest != newest_.end() ? session_of(newest->second) : nullptr;
  const bool is_repeated = known != nullptr && known->nonce == header.number;
  if (is_repeated && known->slot_count == header.code && known->is_unused()) {
    known->used_at = now;
    return notify_opened(*known);
  }
  if (sessions_.size() - free_sessions_.size() >= options_.max_sessions) {
    if (known == nullptr || is_repeated || known->running != 0) return refuse(message, header, RIPC_LIMIT);
    forget(*known);  // a client that asks for another session no longer uses its last one
  }
  if (free_sessions_.empty()) {
    free_sessions_.reserve(sessions_.size() + 1);
    sessions_.push_back(std::make_unique<ServerSession>());
    // A late answer of a former registration of this service must not fit a session of this one.
    sessions_.back()->generation = static_cast<std::uint32_t>(random_u64());
    free_sessions_.push_back(static_cast<std::uint32_t>(sessions_.size() - 1));
  }
  const std::uint32_t index = free_sessions_.back();
  ServerSession& session = *sessions_[index];
  std::uint64_t& name = newest_[message.source];
  session.slot_count = header.code;
  free_sessions_.pop_back();
  session.generation += session.generation == UINT32_MAX ? 2 : 1;  // never 0
  session.name = std::uint64_t{session.generation} << 32 | index;
  session.client = message.source;
  session.nonce = header.number;
  session.used_at = now;
  name = session.name;
  lower(look_at_, session.used_at + wire::call::kSessionTime);
  ++counters_.sessions_served;
  notify_opened(session);
}

Handler* Server::handler_of(std::uint32_t method) noexcept {
  if (last_handler_ == nullptr || last_handler_->first != method) {
    const auto found = handlers_.find(method);
    if (found == handlers_.end()) return nullptr;
    last_handler_ = &*found;
  }
  return &last_handler_->second;
}

ripc_request* Server::take(ServerSession& session, core::Message& message, const Header& header, Arrival& arrival) {
  Slot& slot = session.slot(header.number);
  const auto newer = static_cast<std::int32_t>(header.number - slot.number);
  if (newer < 0) return nullptr;  // the client no longer waits for it
  if (newer == 0) {
    if (header.kind == Kind::request) ++counters_.duplicates;
    if (header.kind != Kind::cancel) {
      notify_of_known(session, slot);
    } else if (slot.request != nullptr) {
      slot.request->is_abandoned = true;
    }
    return nullptr;
  }
  if (header.kind == Kind::ask && !is_ending_) {
    notify(session.client,
           {.kind = Kind::state, .state = State::unseen, .number = header.number, .session = header.session});
    return nullptr;
  }
  // From here on, this number does not run again.
  abandon(session, slot);
  forget(session, slot);
  slot.number = header.number;
  if (header.kind == Kind::cancel) {
    end(session, slot, State::not_run, RIPC_CANCELLED);
    return nullptr;
  }
  if (is_ending_) {
    ++counters_.requests_refused;
    end(session, slot, State::not_run, RIPC_CLOSED);
    notify_state(session, slot);
    return nullptr;
  }
  Handler* const handler = handler_of(header.code);
  if (handler == nullptr || header.time == 0) {
    ++(header.time == 0 ? counters_.requests_expired : counters_.requests_refused);
    if (handler != nullptr) ++handler->record.counters.requests_expired;
    end(session, slot, State::not_run, header.time == 0 ? RIPC_TIMEOUT : RIPC_UNSUPPORTED);
    notify_state(session, slot);
    return nullptr;
  }
  if (free_ == nullptr) free_ = new (std::nothrow) ripc_request;
  if (free_ == nullptr) {
    end(session, slot, State::not_run, RIPC_NO_MEMORY);
    notify_state(session, slot);
    return nullptr;
  }
  ripc_request& request = *std::exchange(free_, free_->next);
  request.server = this;
  ++held_;
  request.message = &message;
  request.items = call_items(message);
  request.session = session.name;
  request.number = header.number;
  request.method = header.code;
  request.is_measured = handler->is_for_workers || MethodRecord::is_measured(handler->record.counters.requests_run);
  request.came_at = request.is_measured ? arrival.exactly() : arrival.about();
  request.deadline = Deadline::after(wire::call::to_nanoseconds(header.time), request.came_at).at();
  request.is_abandoned.store(false, std::memory_order_relaxed);
  request.handler = handler;
  slot.state = Slot::State::running;
  slot.request = &request;
  ++session.running;
  ++counters_.requests_run;
  ++handler->record.counters.requests_run;
  return &request;
}

// Handles a call that has come before.
void Server::notify_of_known(ServerSession& session, Slot& slot) noexcept {
  const Header running{.kind = Kind::state, .state = State::running, .number = slot.number, .session = session.name};
  switch (slot.state) {
    case Slot::State::unused:
      return;
    case Slot::State::running:
    case Slot::State::waiting:
      return notify(session.client, running);
    case Slot::State::ended:
      return notify_state(session, slot);
    case Slot::State::answered:
      break;
  }
  if (slot.is_kept) {
    ++counters_.answers_repeated;
    (void)send_kept(session, slot);
    return;
  }
  const ripc_status status = slot.answer && slot.answer->ticket ? slot.answer->ticket->poll() : RIPC_TIMEOUT;
  if (status == RIPC_PENDING || status == RIPC_OK) return notify(session.client, running);
  notify(session.client, {.kind = Kind::state,
                          .state = State::may_have_run,
                          .number = slot.number,
                          .session = session.name,
                          .code = static_cast<std::uint32_t>(status)});
}

void Server::notify(ripc_service_id client, const Header& header) noexcept {
  if (send_header(client, header) != RIPC_AGAIN) return;
  wait(client, header);
  ask_for_room(client);
}

ripc_status Server::send_header(ripc_service_id client, const Header& header) noexcept {
  try {
    return send(client, CallMessage(header)).code();
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
}

// RIPC_PENDING: the path is not yet wide enough.
Status Server::send(ripc_service_id client, const CallMessage& message, std::shared_ptr<core::Ticket>* ticket) {
  if (const ripc_status status = messenger_.send_short(client, message.items()); status != RIPC_PENDING) return status;
  if (!messenger_.path(client).is_known) return find_path(client);
  // It does not fit.
  core::SendArguments arguments;
  arguments.to = client;
  arguments.items = message.items();
  arguments.auto_limit = kMostRepeated;
  arguments.never_waits = true;
  return messenger_.send(arguments, ticket);
}

// Called for the first message to a client, or when its path was lost. The client may be dead, so nobody waits for the
// path. The source of a message is only its sender's claim, so there is a limit to these searches.
ripc_status Server::find_path(ripc_service_id client) noexcept {
  if (lost_paths_.size() >= options_.max_sessions && !lost_paths_.contains(client)) return RIPC_AGAIN;
  const Nanoseconds now = messenger_.now();
  try {
    const auto [found, is_new] = lost_paths_.try_emplace(client);
    LostPath& lost = found->second;
    if (is_new) lost.since = now;
    if (now - lost.since >= messenger_.resolve_timeout()) {
      lost_paths_.erase(found);
      return RIPC_NO_SERVICE;
    }
    if (!lost.search) {
      lost.search = messenger_.find_path(client, [weak = weak_from_this()](ripc_status) {
        if (const auto self = weak.lock()) self->changed();
      });
    }
  } catch (const std::bad_alloc&) {
    // The next attempt tries again.
  }
  return RIPC_AGAIN;
}

void Server::ask_for_room(ripc_service_id client) noexcept {
  if (messenger_.path(client).is_known) messenger_.ask_for_room(client);
}

// The message is sent again in a millisecond, or when there is room.
void Server::wait(ripc_service_id client, const Header& header) noexcept {
  // Answers are limited by the slots. Anything else beyond these limits is as if it had been lost.
  const bool is_answer = header.kind == Kind::answer;
  if (!is_answer && waiting_.size() >= options_.max_sessions && !waiting_.contains(client)) return;
  try {
    std::vector<Header>& headers = waiting_[client];
    if (!is_answer && headers.size() >= kMostWaiting) return;
    headers.push_back(header);
  } catch (const std::bad_alloc&) {
    return;  // the time of the call ends it
  }
  lower(send_at_, messenger_.now() + TimerWheel::kTick);
  messenger_.wake();  // this may be another thread
}

Header Server::state_of(const ServerSession& session, const Slot& slot) noexcept {
  return {
      .kind = Kind::state, .state = slot.outcome, .number = slot.number, .session = session.name, .code = slot.code};
}

void Server::notify_state(const ServerSession& session, const Slot& slot) noexcept {
  notify(session.client, state_of(session, slot));
}

// ---- Time ----------------------------------------------------------------------------------------------------

void Server::changed() noexcept {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty() || is_closed_) return;
  send_at_ = 0;
  messenger_.wake();
}

void Server::progress(Nanoseconds now) noexcept {
  mutex_.adopt();
  if (now < next_due()) return;
  const std::lock_guard lock(mutex_);
  if (now >= send_at_) {
    for (auto& [client, headers] : waiting_) {
      auto left = headers.begin();
      for (Header& header : headers) {
        if (!send_waiting(client, header)) *left++ = header;
      }
      headers.erase(left, headers.end());
    }
    std::erase_if(waiting_, [](const auto& of_client) { return of_client.second.empty(); });
    send_at_ = waiting_.empty() ? UINT64_MAX : now + TimerWheel::kTick;
    std::erase_if(lost_paths_, [this](const auto& lost) {
      return !waiting_.contains(lost.first) || messenger_.path(lost.first).is_known;
    });
  }
  if (now >= look_at_) look_at_sessions(now);
}

bool Server::send_waiting(ripc_service_id client, Header& header) noexcept {
  if (header.kind != Kind::answer) {
    if (send_header(client, header) != RIPC_AGAIN) return true;
    ask_for_room(client);
    return false;
  }
  ServerSession* const session = session_of(header.session);
  if (session == nullptr) return true;
  Slot& slot = session->slot(header.number);
  if (slot.number != header.number || slot.state != Slot::State::waiting) return true;
  const Status status = send_kept(*session, slot);
  if (status == RIPC_AGAIN) ask_for_room(session->client);
  const ripc_status code = status.code();
  if (code == RIPC_AGAIN || code == RIPC_PENDING || code == RIPC_NO_MEMORY) return false;
  session->used_at = slot.answer->kept_at = messenger_.now();
  if (status.ok()) {
    slot.state = Slot::State::answered;
    if (slot.is_kept && !messenger_.path(session->client).loses) forget(*session, slot);
    return true;
  }
  forget(*session, slot);
  end(*session, slot, State::may_have_run, status.code());
  header = state_of(*session, slot);
  return send_waiting(client, header);
}

void Server::forget(ServerSession& session) noexcept {
  if (const auto newest = newest_.find(session.client); newest != newest_.end() && newest->second == session.name)
    newest_.erase(newest);
  free_sessions_.push_back(static_cast<std::uint32_t>(session.name));  // its index
  session.name = 0;
  session.slots = std::vector<Slot>();
  session.kept_bytes = 0;
}

void Server::look_at_sessions(Nanoseconds now) noexcept {
  look_at_ = UINT64_MAX;
  for (const auto& each : sessions_) {
    ServerSession& session = *each;
    if (session.name == 0) continue;
    const auto waits = [](const Slot& slot) { return slot.state == Slot::State::waiting; };
    if (session.running == 0 && elapsed(session.used_at, now) >= wire::call::kSessionTime &&
        std::ranges::none_of(session.slots, waits)) {
      forget(session);
      continue;
    }
    if (session.kept_bytes != 0) {
      for (Slot& slot : session.slots) {
        if (!slot.is_kept || slot.request != nullptr || slot.state == Slot::State::waiting) continue;
        if (elapsed(slot.answer->kept_at, now) < kAnswerAge) {
          lower(look_at_, now + kAnswerAge);
        } else {
          forget(session, slot);
          slot.answer.reset();
        }
      }
    }
    lower(look_at_, std::max(now + kAnswerAge, session.used_at + wire::call::kSessionTime));
  }
}

void Server::add_to(ripc_rpc_statistics& statistics) const noexcept {
  const std::lock_guard lock(mutex_);
  statistics.requests_run += counters_.requests_run;
  statistics.requests_refused += counters_.requests_refused;
  statistics.requests_expired += counters_.requests_expired;
  statistics.duplicates += counters_.duplicates;
  statistics.answers_repeated += counters_.answers_repeated;
  statistics.sessions_served += counters_.sessions_served;
}

void Server::add_to(std::map<std::uint32_t, ripc_rpc_method_statistics>& methods) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [method, handler] : handlers_) {
    ripc_rpc_method_statistics& to = methods[method];
    const ripc_rpc_method_statistics& from = handler.record.counters;
    to.requests_run = from.requests_run;
    to.requests_refused = from.requests_refused;
    to.requests_expired = from.requests_expired;
    to.request_time = handler.record.latency();
  }
}

void Server::refuse_all() noexcept {
  while (!ready_.empty()) drop(ready_.pop(), RIPC_CLOSED, State::not_run);
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  // Done before the calls in progress are refused, so that no new ones take their place.
  for (const auto& [client, name] : newest_) {
    const ServerSession* const session = session_of(name);
    if (session == nullptr || !messenger_.path(client).is_known) continue;
    (void)send_header(client, {.kind = Kind::state,
                               .state = State::not_run,
                               .number = session->nonce,
                               .code = static_cast<std::uint32_t>(RIPC_CLOSED)});
  }
}

void Server::close() noexcept {
  std::unique_lock lock(mutex_);
  sent_.wait(lock, [this] { return sending_ == 0; });
  // The requests that handlers still hold, and the answers that found no room.
  for (const auto& session : sessions_) {
    for (Slot& slot : session->slots) {
      if (slot.request == nullptr && slot.state != Slot::State::waiting) continue;
      forget(*session, slot);
      end(*session, slot, State::may_have_run, RIPC_CLOSED);
      notify_state(*session, slot);
    }
  }
  is_closed_ = true;
  if (held_ != 0) self_ = shared_from_this();
  lost_paths_.clear();
}

}  // namespace ripc::internal::rpc
