// SPDX-License-Identifier: Apache-2.0
// The further TCP connections of a session: those of links, and those for bulk data. Runs in the responder.
#include <new>

#include "remote/link/udp_receiver.hpp"
#include "remote/session/session_transport.hpp"

namespace ripc::internal::remote {

namespace {

using wire::session_control::Role;

// How many are dialed at once, for one session and side.
constexpr std::size_t kMostStreamDialers = 32;

}  // namespace

// ---- Connections of links ------------------------------------------------------------------------------------

void SessionTransport::connect_stream(const SessionPointer& session, std::uint32_t link, StreamTaker taker) {
  if (session->lost) return;
  // A peer that has closed a link makes no connection for it.
  std::erase_if(session->stream_takers, [&](const auto& entry) { return !session->channel(entry.first); });
  session->stream_takers[link] = std::move(taker);
  // The side that began the session makes them, so only one side needs to be reachable.
  if (session->incoming) {
    session->stream.tell(wire::session_control::WantStream{.link = link});
  } else {
    dial_stream(session, link, Role::stream);
  }
}

void SessionTransport::dial_stream(const SessionPointer& session, std::uint32_t link, Role role) {
  auto& dialers = role == Role::stream ? session->own_stream_dialers : session->peer_stream_dialers;
  std::erase_if(dialers, [](const auto& entry) { return entry.second->over(); });
  if (dialers.size() >= kMostStreamDialers) {
    if (role == Role::stream) stream_made(session, link, true, {});
    return;
  }
  dialers[link] =
      Dialer::dial(*loop_, authenticator_, {session->remote()}, greeting(session, role, link), session->context,
                   Deadline::after(options_.peer_timeout), [this, session, link, role](Greeted greeted) {
                     if (!greeted.status.ok()) greeted.connection.close();
                     stream_made(session, link, role == Role::stream, std::move(greeted.connection));
                   });
}

// `is_own`: for a link that this side opened. `connection` without a descriptor: it could not be made.
void SessionTransport::stream_made(const SessionPointer& session, std::uint32_t link, bool is_own,
                                   SecureSocket connection) {
  if (is_own) {
    if (auto taker = session->stream_takers.extract(link)) taker.mapped()(std::move(connection));
    return;
  }
  if (!connection) return;
  const std::lock_guard lock(mutex_);
  const auto found = session->incoming_links.find(link);
  if (found == session->incoming_links.end() || found->second.port->closed()) return;
  try {
    found->second.port->udp().adopt_stream(*session, link, std::move(connection));
  } catch (const std::bad_alloc&) {
    // The sender finds the connection closed, and goes on as before.
  }
}

// ---- Bulk connections ----------------------------------------------------------------------------------------

// The side that began the session makes them, so only one side needs to be reachable.
void SessionTransport::dial_bulk(const SessionPointer& session) {
  if (session->lost) return;
  if (!session->incoming) {
    session->links->connect_bulk(session);
    return;
  }
  session->bulk_timer.set(monotonic_now() + options_.peer_timeout);
  if (session->stream.send(wire::session_control::WantBulk{}) != RIPC_OK) bulk_failed(session);
}

void SessionTransport::bulk_failed(const SessionPointer& session) noexcept {
  const Nanoseconds again = monotonic_now() + kReconnectPause;
  session->bulk_timer.set(again < session->bulk_wanted_until ? again : StandingTimer::kNever);
  session->bulk->dial_failed();
}

void SessionTransport::bulk_due(const SessionPointer& session) noexcept {
  if (session->lost) return;
  if (session->incoming) {
    session->bulk->dial_failed();
  } else {
    or_lose(session, [&] { session->links->connect_bulk(session); });
  }
}

}  // namespace ripc::internal::remote
