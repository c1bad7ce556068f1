// SPDX-License-Identifier: Apache-2.0
// What the socket transport does with each control frame. All of it runs in the responder.
#include <type_traits>
#include <variant>

#include "remote/link/udp_receiver.hpp"
#include "remote/link/udp_source.hpp"
#include "remote/session/session_transport.hpp"

namespace ripc::internal::remote {

namespace {

using wire::session_control::GroupJoined;
using wire::session_control::JoinGroup;
using wire::session_control::LeaveGroup;
using wire::session_control::Prove;
using wire::session_control::Proved;

template <typename Frame, typename... Frames>
constexpr bool is_any_of = (std::is_same_v<std::remove_cvref_t<Frame>, Frames> || ...);

// How long packets may still be on their way when the sender's last frame has come by the control connection.
constexpr Nanoseconds kPacketPatience = 1'000'000'000;
}  // namespace

bool SessionTransport::handle(const SessionPointer& session, std::span<const std::byte> frame) {
  const Result<wire::session_control::Frame> decoded = wire::session_control::decode(frame);
  if (!decoded.ok()) return false;
  return std::visit(
      [&](const auto& message) -> bool {
        return wire::fields::accepts([&] {
          if constexpr (requires { on(session, message); }) {
            return on(session, message);
          } else if constexpr (is_any_of<decltype(message), Proved, GroupJoined>) {
            to_channel(session, message);
          } else if constexpr (is_any_of<decltype(message), Prove, JoinGroup, LeaveGroup>) {
            to_source(session, message);
          } else {
            return session->links->handle(session, *decoded);
          }
        });
      },
      *decoded);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Bye& frame) {
  lose(session,
       frame.status == RIPC_REFUSED
           ? Status(RIPC_REFUSED,
                    "The peer is there, but its trust file does not list this context's identity: add its public key "
                    "there (`ripc key show` prints it, `ripc trust add` adds it).")
           : Status(RIPC_PEER_DEAD, "The process that held the service has ended."));
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Heartbeat& frame) {
  session->stream.acknowledged(frame.received);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Open& frame) {
  Result<wire::session_control::Opened> opened = RIPC_NO_MEMORY;
  try {
    opened = accept_link(session, frame);
  } catch (const std::bad_alloc&) {
    // The asker is told, and may ask again.
  }
  if (opened.ok()) {
    session->stream.tell(*opened);
    return;
  }
  wire::session_control::Opened refusal;
  refusal.request = frame.request;
  refusal.link = frame.link;
  refusal.status = opened.status().code();
  session->stream.tell(refusal);
}

Status SessionTransport::accept(const SessionPointer& session, std::uint32_t link, ripc_service_id service,
                                const MakeSource& make) {
  const std::lock_guard lock(mutex_);
  LinkPort* const port = ports_.find(service);
  if (port == nullptr || port->closed()) return RIPC_NO_SERVICE;
  if (session->incoming_links.contains(link)) return RIPC_CORRUPT;
  if (port->statistics().sources >= port->options().max_senders) return RIPC_REFUSED;
  if (!peers_.may_call(*session->peer_entry, port->options().name, service)) return RIPC_REFUSED;
  // The entry is made first: a source that the port has must be found in the session.
  const auto place = session->incoming_links.try_emplace(link).first;
  Result<std::shared_ptr<LinkSource>> source = RIPC_NO_MEMORY;
  try {
    source = make(*port);
  } catch (const std::bad_alloc&) {
    // As it says.
  }
  if (!source.ok()) {
    session->incoming_links.erase(place);
    return source.status();
  }
  place->second = {.source = std::move(*source), .port = port};
  return {};
}

Status SessionTransport::move(const SessionPointer& session, std::uint32_t link, ripc_service_id service,
                              const MoveSource& move) {
  const std::lock_guard lock(mutex_);
  const auto found = session->incoming_links.find(link);
  if (found == session->incoming_links.end() || found->second.port->closed() ||
      found->second.port->options().id != service)
    return RIPC_NO_SERVICE;
  return move(*found->second.port, *found->second.source);
}

Result<wire::session_control::Opened> SessionTransport::accept_link(const SessionPointer& session,
                                                                    const wire::session_control::Open& frame) {
  wire::session_control::Opened opened{.request = frame.request, .status = RIPC_OK, .link = frame.link};
  Status status =
      accept(session, frame.link, frame.service, [&](LinkPort& port) -> Result<std::shared_ptr<LinkSource>> {
        Result<LinkSocket> socket = LinkSocket::open(session->local(), options_.ports);
        if (!socket.ok()) return socket.status();
        UdpReceiver& receiver = port.udp();
        const std::uint32_t budget = receiver.budget(socket->set_receive_buffer(receiver.wanted_buffer()));
        // If there is no path for UDP, its sender finds that out.
        (void)socket->connect(session->remote().with_port(static_cast<std::uint16_t>(frame.port)));
        protect(*socket, *session, false, frame.link, frame.token);
        opened.incarnation = port.incarnation();
        opened.port = socket->port();
        opened.packet_limit = static_cast<std::uint32_t>(wire::datagram::kMaxRecordPacket);
        opened.credit = ReceiverCredit::first_credit(budget);
        auto source = std::make_shared<UdpSource>(LinkSource::Parts{.session = session,
                                                                    .link = frame.link,
                                                                    .token = frame.token,
                                                                    .budget = budget,
                                                                    .events = &port.events(),
                                                                    .peer_timeout = options_.peer_timeout},
                                                  std::move(*socket), receiver, *loop_);
        if (Status added = receiver.add_source(source); !added.ok()) return added;
        return std::shared_ptr<LinkSource>(std::move(source));
      });
  if (!status.ok()) return status;
  return opened;
}

bool SessionTransport::answered(const SessionPointer& session, std::uint64_t request, ripc_status status,
                                const wire::session_control::Frame& answer) {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return questions_.answer(request, session, status, [&](wire::session_control::Frame& kept) { kept = answer; });
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::Opened& frame) {
  return answered(session, frame);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::CloseLink& frame) {
  const std::lock_guard lock(mutex_);
  const auto found = session->incoming_links.find(frame.link);
  if (found == session->incoming_links.end()) return;
  const Nanoseconds until = monotonic_now() + kPacketPatience;
  const ripc_service_id service = found->second.port->options().id;
  loop_->add_timer(until, [this, service] {
    const std::lock_guard later(mutex_);
    wake_port(service);
  });
  found->second.source->mark_closed(frame.sequence, until);
  wake_port(service);
  session->incoming_links.erase(found);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::LinkClosed& frame) {
  const auto closed = session->channel(frame.link);
  if (!closed) {
    if (session->remove_channel(frame.link)) session->stream.tell(wire::session_control::CloseLink{.link = frame.link});
    return;
  }
  // The other side waits for the answer.
  close_link(*closed, RIPC_CLOSED);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Control& frame) {
  std::shared_ptr<LinkSource> source;
  {
    const std::lock_guard lock(mutex_);
    const auto found = session->incoming_links.find(frame.link);
    if (found == session->incoming_links.end() || found->second.port->options().id != frame.destination) return;
    source = found->second.source;
  }
  host_->control_packet(*source, frame.destination, frame.packet);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Fence& frame) {
  const ripc_status status = host_->fenced(frame.service, frame.incarnation);
  session->stream.tell(wire::session_control::Fenced{.request = frame.request, .status = status});
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::Fenced& frame) {
  return answered(session, frame.request, frame.status, frame);
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::WantBulk&) const {
  if (session->incoming) return false;
  session->bulk_wanted_until = monotonic_now() + options_.peer_timeout;
  session->links->connect_bulk(session);
  return true;
}

// For a link that this side opened: its channel may be gone.
template <typename Frame>
void SessionTransport::to_channel(const SessionPointer& session, const Frame& frame) {
  if (const auto channel = session->channel(frame.link)) channel->handle(frame);
}

// For a link that the peer opened: its source may be gone. Its port stays while the mutex is held.
template <typename Frame>
void SessionTransport::to_source(const SessionPointer& session, const Frame& frame) {
  const std::lock_guard lock(mutex_);
  const auto found = session->incoming_links.find(frame.link);
  if (found != session->incoming_links.end() && !found->second.port->closed()) found->second.source->handle(frame);
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::WantStream& frame) {
  if (session->incoming) return false;
  {
    const std::lock_guard lock(mutex_);
    if (!session->incoming_links.contains(frame.link)) return true;
  }
  dial_stream(session, frame.link, wire::session_control::Role::peer_stream);
  return true;
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::Streamed& frame) {
  wire::datagram::Header header;
  if (wire::datagram::decode(frame.datagram, header) != RIPC_OK) return false;
  // Room is granted by the receiving end.
  if (header.kind == wire::datagram::Kind::credit) {
    to_channel(session, frame);
  } else {
    to_source(session, frame);
  }
  return true;
}

}  // namespace ripc::internal::remote
