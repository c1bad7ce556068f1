// SPDX-License-Identifier: Apache-2.0
// What the socket transport does with each control frame. All of it runs in the responder.
#include <algorithm>

#include "remote/session/session_transport.hpp"

namespace ripc::remote {

namespace {

// How long packets may still be on their way when the sender's last word has come by the control connection.
constexpr Nanoseconds kPacketPatience = 1'000'000'000;
// How long a datagram may still be on its way when the question whether it has come is here; and between two looks.
constexpr Nanoseconds kProofPatience = 100'000'000;
constexpr Nanoseconds kFirstLook = 500'000;

// What a peer can honestly answer to the wish for a link. Anything else would be taken for a state of this process.
ripc_status believable_answer(ripc_status status) noexcept {
  switch (status) {
    case RIPC_OK:
    case RIPC_NO_SERVICE:
    case RIPC_REFUSED:
    case RIPC_NO_MEMORY:
    case RIPC_NO_DESCRIPTORS:
    case RIPC_LIMIT:
    case RIPC_UNSUPPORTED:
      return status;
    default:
      return RIPC_CORRUPT;
  }
}

}  // namespace

bool SessionTransport::handle(const SessionPointer& session, std::span<const std::byte> frame) {
  const Result<wire::session_control::Frame> decoded = wire::session_control::decode(frame);
  if (!decoded.ok()) return false;
  return std::visit(
      [&](const auto& message) -> bool {
        const auto handler = [&] {
          if constexpr (requires { on(session, message); }) {
            return on(session, message);
          } else {
            return false;  // part of a handshake
          }
        };
        if constexpr (std::is_void_v<decltype(handler())>) {
          handler();
          return true;
        } else {
          return handler();
        }
      },
      *decoded);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Bye&) {
  lose(session, Status(RIPC_PEER_DEAD, "The process that held the service has ended."));
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

// Under the mutex. The port that takes one more link.
Result<UdpPort*> SessionTransport::port_for(const SessionPointer& session, ripc_service_id service,
                                            std::uint32_t link) {
  UdpPort* const port = ports_.find(service);
  if (port == nullptr || port->closed()) return RIPC_NO_SERVICE;
  if (session->arrivals.contains(link)) return RIPC_CORRUPT;
  if (port->statistics().sources >= port->options().max_senders) return RIPC_REFUSED;
  return port;
}

// Under the mutex. Keeps the source that make() returns for this link, where it also becomes one of the port's: what
// the port has is found in the session. RIPC_NO_MEMORY: neither has it.
template <typename Make>
Status SessionTransport::arrive(Session& session, std::uint32_t link, ripc_service_id service, Make&& make) {
  const auto place = session.arrivals.try_emplace(link).first;
  Result<std::shared_ptr<LinkSource>> source = RIPC_NO_MEMORY;
  try {
    source = make();
  } catch (const std::bad_alloc&) {
    // As it says.
  }
  if (!source.ok()) {
    session.arrivals.erase(place);
    return source.status();
  }
  place->second = {std::move(*source), service};
  return {};
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::OpenDatagram& frame) {
  wire::session_control::DatagramOpened answer{.request = frame.request, .link = frame.link};
  try {
    answer.status = accept_datagram_link(session, frame, answer).code();
  } catch (const std::bad_alloc&) {
    answer.status = RIPC_NO_MEMORY;
  }
  session->stream.tell(answer);
}

Status SessionTransport::accept_datagram_link(const SessionPointer& session,
                                              const wire::session_control::OpenDatagram& frame,
                                              wire::session_control::DatagramOpened& answer) {
  Status status = prepare_datagrams(session, frame);
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const Result<UdpPort*> port = port_for(session, frame.service, frame.link);
  if (!port.ok()) return port.status();
  return arrive(*session, frame.link, frame.service, [&]() -> Result<std::shared_ptr<LinkSource>> {
    auto accepted = accept_datagrams(session, frame, **port);
    if (!accepted.ok()) return accepted.status();
    answer = accepted->second;
    answer.request = frame.request;
    answer.link = frame.link;
    answer.incarnation = (*port)->incarnation();
    return std::move(accepted->first);
  });
}

Result<wire::session_control::Opened> SessionTransport::accept_link(const SessionPointer& session,
                                                                    const wire::session_control::Open& frame) {
  const std::lock_guard lock(mutex_);
  const Result<UdpPort*> found = port_for(session, frame.service, frame.link);
  if (!found.ok()) return found.status();
  UdpPort& port = **found;

  Result<LinkSocket> socket = LinkSocket::open(session->local, options_.ports);
  if (!socket.ok()) return socket.status();
  const std::uint32_t budget = port.budget(socket->set_receive_buffer(port.wanted_buffer()));
  // Where there is no way for UDP, its sender finds that out.
  (void)socket->connect(session->remote.with_port(static_cast<std::uint16_t>(frame.port)));
  const wire::session_control::Opened opened{.request = frame.request,
                                             .status = RIPC_OK,
                                             .link = frame.link,
                                             .incarnation = port.incarnation(),
                                             .port = socket->port(),
                                             .packet_limit = static_cast<std::uint32_t>(port.packet_limit()),
                                             .credit = Granter::first_credit(budget)};
  Status status = arrive(*session, frame.link, frame.service, [&]() -> Result<std::shared_ptr<LinkSource>> {
    auto source = std::make_shared<UdpSource>(LinkSource::Parts{.session = session,
                                                                .link = frame.link,
                                                                .token = frame.token,
                                                                .budget = budget,
                                                                .events = &port.events(),
                                                                .peer_timeout = options_.peer_timeout},
                                              std::move(*socket));
    Status added = port.add_source(source);
    if (!added.ok()) return added;
    return std::shared_ptr<LinkSource>(std::move(source));
  });
  if (!status.ok()) return status;
  return opened;
}

// An answer to a question of this side. False: nobody can have given it.
template <typename Frame, typename Keep>
bool SessionTransport::answered(const SessionPointer& session, const Frame& frame, Keep&& keep) {
  const std::lock_guard lock(mutex_);
  const auto found = questions_.find(frame.request);
  // Nobody waits any more: the asker has closed the link already.
  if (found == questions_.end()) return true;
  Question& question = *found->second;
  if (question.session != session || question.answered) return false;
  keep(question);
  question.answered = true;
  changed_.notify_all();
  return true;
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::Opened& frame) {
  return answered(session, frame, [&](Question& question) {
    question.opened = frame;
    question.status = believable_answer(frame.status);
  });
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::DatagramOpened& frame) {
  return answered(session, frame, [&](Question& question) {
    question.datagram_opened = frame;
    question.status = believable_answer(frame.status);
  });
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::CloseLink& frame) {
  const std::lock_guard lock(mutex_);
  const auto found = session->arrivals.find(frame.link);
  if (found == session->arrivals.end()) return;
  const Nanoseconds until = monotonic_now() + kPacketPatience;
  const ripc_service_id service = found->second.service;
  loop_->add_timer(until, [this, service] {
    const std::lock_guard later(mutex_);
    nudge_port(service);
  });
  found->second.source->mark_closed(frame.sequence, until);
  nudge_port(service);
  session->arrivals.erase(found);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::LinkClosed& frame) {
  const auto closed = session->channel(frame.link);
  if (!closed || !closed->end(RIPC_CLOSED)) return;
  // The other side waits for this: from now on nothing more is sent.
  session->stream.tell(wire::session_control::CloseLink{.link = frame.link, .sequence = closed->last_sequence()});
  host_->channel_lost(*closed, RIPC_CLOSED);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Control& frame) {
  std::shared_ptr<LinkSource> source;
  {
    const std::lock_guard lock(mutex_);
    const auto found = session->arrivals.find(frame.link);
    if (found == session->arrivals.end() || found->second.service != frame.destination) return;
    source = found->second.source;
  }
  host_->control_packet(*source, frame.destination, frame.packet);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Fence& frame) {
  const ripc_status status = host_->fenced(frame.service, frame.incarnation);
  session->stream.tell(wire::session_control::Fenced{.request = frame.request, .status = status});
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::Fenced& frame) {
  return answered(session, frame, [&](Question& question) { question.status = frame.status; });
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::BulkPort& frame) {
  return !session->incoming && bulk_port_told(session, frame);
}

bool SessionTransport::on(const SessionPointer& session, const wire::session_control::WantBulk&) {
  if (session->incoming) return false;
  session->bulk_wanted_until = monotonic_now() + options_.peer_timeout;
  connect_bulk(session);
  return true;
}

// Calls use(port, source) with the receiving end of a link of the peer, under the mutex. It may be gone.
template <typename Use>
void SessionTransport::with_source(const SessionPointer& session, std::uint32_t link, Use&& use) {
  const std::lock_guard lock(mutex_);
  const auto found = session->arrivals.find(link);
  if (found == session->arrivals.end()) return;
  const auto& [source, service] = found->second;
  UdpPort* const port = ports_.find(service);
  if (port != nullptr && !port->closed() && port->has(*source)) use(*port, source);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Hear& frame) {
  with_source(session, frame.link, [&](UdpPort& port, const auto& source) { asked_to_hear(port, source, frame); });
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::HearNoMore& frame) {
  with_source(session, frame.link,
              [&](UdpPort& port, const auto& source) { asked_to_hear_no_more(port, *source, frame); });
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Heard& frame) {
  if (const auto channel = session->channel(frame.link)) heard(*channel, frame);
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Prove& frame) {
  std::shared_ptr<UdpSource> source;
  with_source(session, frame.link,
              [&](UdpPort&, const auto& found) { source = std::dynamic_pointer_cast<UdpSource>(found); });
  if (!source) return;
  source->greet();
  answer_proof(source, monotonic_now() + kProofPatience, Backoff(kFirstLook, kProofPatience));
}

void SessionTransport::answer_proof(const std::shared_ptr<UdpSource>& source, Nanoseconds until, Backoff pause) {
  const bool arrived = source->has_arrived();
  const Nanoseconds now = monotonic_now();
  if (arrived || now >= until) {
    source->session()->stream.tell(wire::session_control::Proved{.link = source->link(), .arrived = arrived ? 1u : 0u});
    return;
  }
  const Nanoseconds look_at = std::min(now + pause.next(), until);
  loop_->add_timer(look_at, [this, weak = std::weak_ptr<UdpSource>(source), until, pause] {
    if (const auto strong = weak.lock()) answer_proof(strong, until, pause);
  });
}

void SessionTransport::on(const SessionPointer& session, const wire::session_control::Proved& frame) {
  if (const auto channel = session->channel(frame.link)) channel->proved(frame.arrived != 0);
}

// Of a link of the peer's, or, if it grants room, of one of this side's.
bool SessionTransport::on(const SessionPointer& session, const wire::session_control::Streamed& frame) {
  wire::datagram::Header header;
  if (wire::datagram::decode(frame.datagram, header) != RIPC_OK) return false;
  if (header.kind == wire::datagram::Kind::credit) {
    if (const auto channel = session->channel(frame.link)) channel->streamed(header);
    return true;
  }
  with_source(session, frame.link, [&](UdpPort& port, const auto& source) {
    if (const auto udp = std::dynamic_pointer_cast<UdpSource>(source)) port.pass(*udp, frame.datagram);
  });
  return true;
}

void SessionTransport::for_each_port(const std::function<void(UdpPort&)>& visit) {
  const std::lock_guard lock(mutex_);
  ports_.for_each(visit);
}

}  // namespace ripc::remote
