// SPDX-License-Identifier: Apache-2.0
// How the socket transport makes, keeps and loses its sessions. All but session_with() runs in the responder.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>

#include "base/random.hpp"
#include "remote/link/udp_receiver.hpp"
#include "remote/session/session_transport.hpp"

namespace ripc::internal::remote {

namespace {

using wire::session_control::Hello;
using wire::session_control::HelloReply;
using wire::session_control::Role;

constexpr int kFramesPerEvent = 64;

// Nobody has refused: what is sent there vanishes, or waits in the buffers of a process that does not run.
Status not_reached(const Session& session) {
  const std::string where = session.endpoints.empty() ? "the process" : session.endpoints.front().text();
  const std::size_t more = std::max<std::size_t>(session.endpoints.size(), 1) - 1;
  return Status(RIPC_TIMEOUT, "No answer over TCP from " + where +
                                  (more == 0 ? "" : " or " + std::to_string(more) + " other addresses") +
                                  ": is the process stopped, or does a firewall drop TCP? See RIPC_SOCKET_PORTS.");
}

// The connection ends when what it sends is not acknowledged for half of the peer time-out.
void end_when_cut(int fd, Nanoseconds peer_timeout) noexcept {
  const auto milliseconds = static_cast<unsigned>(peer_timeout / 2'000'000);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

void note_proven(Session& session, const Greeted& greeted) {
  session.secret = greeted.proven.session;
  session.peer.identity = greeted.proven.peer.identity;
  session.key = greeted.proven.key;
}

// The locator of a peer that was seen at this address.
std::string locator_of(const Session& session, const Endpoint& seen) {
  Locator locator;
  locator.context = session.context;
  locator.port = seen.port();
  locator.ips = {seen.ip()};
  return locator.text();
}

}  // namespace

Greeting SessionTransport::greeting(const SessionPointer& session, Role role, std::uint64_t number) const {
  return {.hello = {.context = options_.context,
                    .session = session->id,
                    .number = number,
                    .role = static_cast<std::uint32_t>(role),
                    .port = listener_->port(),
                    .abilities = 0,
                    .offers = {}},
          .session = session->secret};
}

// ---- Ours ----------------------------------------------------------------------------------------------------

Result<SessionPointer> SessionTransport::session_with(std::span<const Locator> locators, const std::string& member,
                                                      Deadline deadline, bool greeted) {
  std::string text;
  std::vector<Endpoint> endpoints;
  for (const Locator& locator : locators) {
    if (!text.empty()) text += ' ';
    text += locator.text();
    const std::vector<Endpoint> more = locator.endpoints(host_identity_);
    endpoints.insert(endpoints.end(), more.begin(), more.end());
  }
  SessionPointer session;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return RIPC_CLOSED;
      session = known_session(locators, member, text);
      if (!session) {
        Result<SessionPointer> begun = begin_session(locators, text, endpoints);
        if (!begun.ok()) return begun;
        session = std::move(*begun);
      }
    }
    if (!session->stream.is_broken()) break;
    // A thread found no memory for a frame that the peer waits for. The responder is about to lose the session.
    if (!wait([&] { return session->lost; }, deadline)) return spi::not_answering();
  }
  if (!greeted) return session;
  if (!wait([&] { return session->greeted || session->lost; }, deadline)) return not_reached(*session);
  const std::lock_guard lock(mutex_);
  if (session->lost) return session->failure;
  if (!session->greeted) return RIPC_CLOSED;
  return session;
}

// A peer states its context itself, so another one may have stated this context.
SessionPointer SessionTransport::known_session(std::span<const Locator> locators, const std::string& member,
                                               const std::string& text) const {
  const auto known = std::find_if(sessions_.begin(), sessions_.end(), [&](const SessionPointer& session) {
    return session->greeted && session->may_be(member) &&
           std::any_of(locators.begin(), locators.end(),
                       [&](const Locator& locator) { return locator.context == session->context; });
  });
  if (known != sessions_.end()) return *known;
  const auto under_way = outgoing_.find(text);
  return under_way == outgoing_.end() ? nullptr : under_way->second;
}

Result<SessionPointer> SessionTransport::begin_session(std::span<const Locator> locators, const std::string& text,
                                                       std::vector<Endpoint> endpoints) {
  if (sessions_.size() >= options_.max_peers)
    return Status(RIPC_LIMIT, "This context is connected to " + std::to_string(sessions_.size()) +
                                  " processes, its limit: raise max_peers or close services no longer needed.");
  const std::uint64_t context = locators.front().context;
  // If several contexts could be meant, take the first one that answers.
  const bool is_one =
      std::all_of(locators.begin(), locators.end(), [&](const Locator& locator) { return locator.context == context; });
  SessionPointer session = make_session();
  session->id = random_u64() | 1;
  session->context = is_one ? context : 0;
  session->dialed_by = text;
  if (locators.size() == 1) session->locator = text;
  session->endpoints = std::move(endpoints);
  EventLoop::Prepared dialing =
      EventLoop::prepare([this, session] { dial(session, Deadline::after(options_.peer_timeout)); });
  outgoing_.emplace(text, session);
  try {
    sessions_.push_back(session);
  } catch (const std::bad_alloc&) {
    outgoing_.erase(text);
    throw;
  }
  if (sessions_.size() == 1) timer_.set(StandingTimer::kNow);
  loop_->post(std::move(dialing));
  return session;
}

SessionPointer SessionTransport::make_session() {
  auto session = std::make_shared<Session>(*loop_, name());
  session->timer.make(*loop_, [this, weak = std::weak_ptr<Session>(session)] {
    if (const SessionPointer strong = weak.lock()) retry(strong);
  });
  session->bulk_timer.make(*loop_, [this, weak = std::weak_ptr<Session>(session)] {
    if (const SessionPointer strong = weak.lock()) bulk_due(strong);
  });
  return session;
}

void SessionTransport::dial(const SessionPointer& session, Deadline deadline) {
  if (session->lost) return;
  const auto done = [this, session](Greeted greeted) {
    or_lose(session, [&] {
      Status status = std::move(greeted.status);
      if (status.ok()) {
        session->context = greeted.reply.context;
        note_proven(*session, greeted);
        if (session->locator.empty())
          session->locator = locator_of(*session, Endpoint::remote_of(greeted.connection.fd()));
        status = begin(session, std::move(greeted.connection), 0);
      }
      if (!status.ok()) lose(session, status);
    });
  };
  session->dialer = Dialer::dial(*loop_, authenticator_, session->endpoints, greeting(session, Role::control),
                                 session->context, deadline, done);
}

// The control connection of a new session is there.
Status SessionTransport::begin(const SessionPointer& session, SecureSocket connection, std::uint64_t acknowledged) {
  const int fd = connection.fd();
  const Endpoint local = Endpoint::local_of(fd);
  const Endpoint remote = Endpoint::remote_of(fd);
  const bool first = !session->local();
  if (!local || !remote) {
    // The connection is lost again already.
    if (first) return RIPC_PEER_DEAD;
    retry_later(session);
    return {};
  }
  const bool has_moved = !first && (!local.same_ip(session->local()) || !remote.same_ip(session->remote()));
  if (!first && !session->links->can_move_to(local))
    return Status(RIPC_PEER_DEAD, "The peer has a new address; its links are reopened.");
  end_when_cut(fd, options_.peer_timeout);
  if (first || has_moved) session->set_ends(local, remote);
  if (first) {
    session->peer.user = authenticator_.user_of(fd);
    session->peers = &peers_;
    session->peer_entry = peers_.enter(session->peer);
    // The trust file may have changed since the proof, and the check of open sessions did not know this one.
    if (!peers_.has_identity(*session->peer_entry, session->key ? &*session->key : nullptr)) return spi::link_refused();
    const std::weak_ptr<Session> weak = session;
    Result<std::shared_ptr<SessionLinks>> links =
        make_links(session, {.finished =
                                 [weak](std::uint64_t owner, std::uint64_t transfer, ripc_status status) {
                                   const SessionPointer strong = weak.lock();
                                   if (!strong) return;
                                   if (const auto channel = strong->channel(static_cast<std::uint32_t>(owner)))
                                     channel->transfer_finished(transfer, status);
                                 },
                             .dial =
                                 [this, weak] {
                                   if (const SessionPointer strong = weak.lock()) dial_bulk(strong);
                                 },
                             .repeat =
                                 [weak](std::uint64_t owner, spi::Bytes packet) {
                                   const SessionPointer strong = weak.lock();
                                   if (!strong) return;
                                   // If there is no room, or the packet limit has shrunk, the repetition is tried again
                                   // later.
                                   if (const auto channel = strong->channel(static_cast<std::uint32_t>(owner)))
                                     (void)channel->send({.kind = spi::Outgoing::Kind::packet, .packet = {&packet, 1}});
                                 }});
    if (!links.ok()) return links.status();
    session->links = std::move(*links);
    session->bulk = session->links->bulk();
  }
  session->down_since = 0;
  session->dialer.reset();
  session->timer.set(StandingTimer::kNever);
  Status status = session->stream.attach(std::move(connection), acknowledged,
                                         [this, session](std::uint32_t events) { on_event(session, events); });
  if (has_moved) {
    session->links->moved(session);
    for (const auto& channel : session->channels()) channel->check_path();
  }
  if (!status.ok() || !first) return status;
  const std::lock_guard lock(mutex_);
  session->greeted = true;
  changed_.notify_all();
  return {};
}

// ---- Theirs --------------------------------------------------------------------------------------------------

// The session of a connection that does not begin one. The end that did not begin the session only checks whether the
// context is still there.
SessionPointer SessionTransport::find_session(const Hello& hello) const {
  const bool incoming = hello.role != static_cast<std::uint32_t>(Role::check);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const SessionPointer& session) {
    return session->incoming == incoming && session->context == hello.context && session->id == hello.session;
  });
  return found == sessions_.end() ? nullptr : *found;
}

Result<std::optional<SessionSecret>> SessionTransport::find_secret(const Hello& hello) const {
  if (hello.role == static_cast<std::uint32_t>(Role::control)) return std::optional<SessionSecret>();
  const SessionPointer session = find_session(hello);
  if (!session) return RIPC_PEER_DEAD;
  return session->secret;
}

SessionPointer SessionTransport::session_named(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const SessionPointer& session) {
    return session->incoming && session->id == id;
  });
  return found == sessions_.end() ? nullptr : *found;
}

HelloReply SessionTransport::answer(const Hello& hello, int socket) {
  HelloReply reply{.context = options_.context};
  // The peer is authorized before anything is done for it.
  if (const Status admitted = authenticator_.authorize(socket); !admitted.ok()) {
    reply.status = admitted.code();
    return reply;
  }
  const SessionPointer session = find_session(hello);
  switch (static_cast<Role>(hello.role)) {
    case Role::control: {
      const std::lock_guard lock(mutex_);
      if (session || sessions_.size() >= options_.max_peers) reply.status = RIPC_REFUSED;
      break;
    }
    case Role::resume:
      if (!session) {
        reply.status = RIPC_PEER_DEAD;
        break;
      }
      // Another attempt of the peer may arrive at an address that the links can use.
      if (const Endpoint local = Endpoint::local_of(socket); session->links && !session->links->can_move_to(local)) {
        reply.status = RIPC_PEER_DEAD;
        break;
      }
      // A recorded greeting that is sent again must not cut the connection that came after it.
      if (hello.time <= std::exchange(session->resumed_at, std::max(session->resumed_at, hello.time))) {
        reply.status = RIPC_PEER_DEAD;
        break;
      }
      // Nothing more may arrive over the old connection once the peer is told the number of received frames.
      if (session->stream.attached()) control_lost(session);
      // A session that was lost for want of memory cannot be resumed.
      if (session->lost) reply.status = RIPC_PEER_DEAD;
      reply.received = session->stream.received();
      break;
    case Role::bulk:
    case Role::stream:
    case Role::peer_stream:
    case Role::check:
      if (!session) reply.status = RIPC_PEER_DEAD;
      break;
  }
  return reply;
}

void SessionTransport::accepted(Greeted greeted) {
  const auto role = static_cast<Role>(greeted.hello.role);
  if (role == Role::check) return;
  if (role == Role::control) {
    if (greeted.status.ok()) accept_session(std::move(greeted));
    return;
  }
  const SessionPointer session = find_session(greeted.hello);
  if (!session) return;
  if (!greeted.status.ok()) {
    // Nobody would make the connection again: each end waits for the other.
    lose(session, std::move(greeted.status));
    return;
  }
  if (role == Role::bulk) {
    session->links->adopt_bulk(session, std::move(greeted.connection));
    return;
  }
  if (role != Role::resume) {
    stream_made(session, static_cast<std::uint32_t>(greeted.hello.number), role == Role::peer_stream,
                std::move(greeted.connection));
    return;
  }
  or_lose(session, [&] {
    Status status = begin(session, std::move(greeted.connection), greeted.hello.number);
    if (!status.ok()) lose(session, status);
  });
}

void SessionTransport::accept_session(Greeted greeted) {
  const Endpoint remote = Endpoint::remote_of(greeted.connection.fd());
  if (!remote) return;
  const SessionPointer session = make_session();
  session->incoming = true;
  session->id = greeted.hello.session;
  session->context = greeted.hello.context;
  note_proven(*session, greeted);
  // The port on which the peer says that it listens, at the address from which it connects.
  session->endpoints = {remote.with_port(static_cast<std::uint16_t>(greeted.hello.port))};
  session->locator = locator_of(*session, session->endpoints.front());
  {
    const std::lock_guard lock(mutex_);
    // Other handshakes may have come to their end since this one was answered.
    if (stopped_ || sessions_.size() >= options_.max_peers) return;
    sessions_.push_back(session);
    if (sessions_.size() == 1) timer_.set(StandingTimer::kNow);
  }
  or_lose(session, [&] {
    Status status = begin(session, std::move(greeted.connection), 0);
    if (!status.ok()) lose(session, status);
  });
}

// ---- Loss and resumption -------------------------------------------------------------------------------------

// A frame that could not be handled for want of memory is lost, and the session with it.
void SessionTransport::on_event(const SessionPointer& session, std::uint32_t events) noexcept {
  or_lose(session, [&] { read_frames(session, events); });
}

void SessionTransport::read_frames(const SessionPointer& session, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) session->stream.flush();
  bool more = true;
  for (int count = 0; more && count < kFramesPerEvent; ++count) {
    std::span<const std::byte> frame;
    switch (session->stream.receive(frame)) {
      case ControlStream::Event::nothing:
        more = false;
        break;
      case ControlStream::Event::closed:
        control_lost(session);
        return;
      case ControlStream::Event::frame:
        session->slow.store(false, std::memory_order_relaxed);
        if (!handle(session, frame)) {
          lose(session, Status(RIPC_CORRUPT, "The peer broke the control protocol; its session was closed."));
          return;
        }
        if (session->lost) return;
    }
  }
  // Data that was read already makes no event.
  if (more) loop_->post([this, session] { on_event(session, 0); });
  if (session->stream.should_acknowledge()) session->stream.acknowledge();
}

void SessionTransport::control_lost(const SessionPointer& session, Nanoseconds patience) noexcept {
  if (session->lost) return;
  if (session->stream.is_broken()) {
    lose(session, RIPC_NO_MEMORY);
    return;
  }
  session->stream.detach();
  if (session->down_since == 0) {
    session->down_since = monotonic_now();
    session->resume_until = session->down_since + patience;
  }
  retry(session);
}

// The side that began the session dials again. The other side only asks whether that context still exists.
void SessionTransport::retry(const SessionPointer& session) noexcept try {
  if (session->lost || session->down_since == 0) return;
  const Nanoseconds now = monotonic_now();
  if (now >= session->resume_until) {
    lose(session, Status(RIPC_PEER_DEAD, "The peer could not be reached any more."));
    return;
  }
  // TCP repeats a lost packet of an attempt only after a second. Each attempt gets more time, so that one is long
  // enough for a long round trip.
  const Nanoseconds patience = std::max(options_.peer_timeout / 8, 2 * (now - session->down_since));
  const std::vector<Endpoint> endpoints =
      session->incoming || !session->links ? session->endpoints : session->links->candidate_endpoints(session);
  session->dialer = Dialer::dial(
      *loop_, authenticator_, endpoints,
      session->incoming ? greeting(session, Role::check) : greeting(session, Role::resume, session->stream.received()),
      session->context, Deadline::after(std::min(patience, session->resume_until - now)),
      [this, session](Greeted greeted) { resumed(session, std::move(greeted)); });
} catch (const std::bad_alloc&) {
  retry_later(session);
}

void SessionTransport::resumed(const SessionPointer& session, Greeted greeted) noexcept {
  if (session->lost || session->down_since == 0) return;
  Status status = std::move(greeted.status);
  if (status.ok() && !session->incoming) {
    or_lose(session, [&] {
      status = begin(session, std::move(greeted.connection), greeted.reply.received);
      if (!status.ok()) lose(session, status);
    });
    return;
  }
  if (!status.ok() && greeted.definite) {
    lose(session, Status(RIPC_PEER_DEAD, "The process that held the service has ended."));
    return;
  }
  retry_later(session);
}

void SessionTransport::retry_later(const SessionPointer& session) noexcept {
  session->timer.set(monotonic_now() + kReconnectPause);
}

void SessionTransport::lose(const SessionPointer& session, Status reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (session->lost) return;
    session->lost = true;
    session->failure = std::move(reason);
    std::erase(sessions_, session);
    if (const auto found = outgoing_.find(session->dialed_by); found != outgoing_.end() && found->second == session)
      outgoing_.erase(found);
    for (const auto& [link, incoming] : session->incoming_links) {
      incoming.source->mark_dead();
      incoming.port->wake();
    }
    session->incoming_links.clear();
    const ripc_status code = session->failure.code();
    questions_.end(session, code == RIPC_NO_MEMORY || code == RIPC_REFUSED ? code : RIPC_PEER_DEAD);
    changed_.notify_all();
  }
  session->stream.detach();
  session->dialer.reset();
  session->bulk_dialers.clear();
  session->own_stream_dialers.clear();
  session->peer_stream_dialers.clear();
  session->stream_takers.clear();
  session->timer.cancel();
  session->bulk_timer.cancel();
  if (session->bulk) session->bulk->died();
  for (const auto& [link, weak] : session->take_channels()) {
    const std::shared_ptr<LinkChannel> channel = weak.lock();
    if (channel && channel->end(RIPC_PEER_DEAD)) host_->channel_lost(*channel, RIPC_PEER_DEAD);
  }
}

}  // namespace ripc::internal::remote
