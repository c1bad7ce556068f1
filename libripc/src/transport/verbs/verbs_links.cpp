// SPDX-License-Identifier: Apache-2.0
// The links whose packets travel as datagrams, and the groups that several of them are in.
#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/verbs/datagram/verbs_port.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace ripc::internal::verbs {

using remote::SessionPointer;
using Purpose = LinkSignature::Purpose;

namespace {

// After this long without an answer to greetings, the peer is asked by TCP whether it answers at all.
constexpr Nanoseconds kGreetingPatience = 200'000'000;
// A look-up may fail for a passing reason, and may keep the responder waiting, so this is the pause before the next
// one.
constexpr Nanoseconds kLookUpPause = 1'000'000'000;
constexpr Nanoseconds kFirstLook = 100'000;
constexpr Nanoseconds kLastLook = 5'000'000;

}  // namespace

// ---- Datagrams -----------------------------------------------------------------------------------------------

std::unique_ptr<remote::LinkPort> VerbsTransport::make_port(const spi::PortOptions& port_options, EventSet& events,
                                                            std::function<void(remote::LinkPort&)> closed) {
  return std::make_unique<VerbsPort>(
      port_options, events, loop(), options().receive_buffer,
      [this](const std::string& local, ripc_service_id group) -> MembershipPointer {
        const std::optional<DevicePort> leaves_by = devices_->port_of(local);
        return memberships_ && leaves_by ? memberships_->join(*leaves_by, group) : nullptr;
      },
      std::move(closed));
}

bool VerbsTransport::Peer::handle(const SessionPointer& session, const wire::session_control::Frame& frame) {
  if (const auto* const opened = std::get_if<wire::session_control::DatagramOpened>(&frame))
    return opened->request == wire::session_control::kMove ? transport.link_moved(session, *this, *opened)
                                                           : transport.answered(session, *opened);
  if (const auto* const open = std::get_if<wire::session_control::OpenDatagram>(&frame)) {
    session->stream.tell(transport.accept_datagrams(session, *this, *open));
    return true;
  }
  const auto* const accepts_at = std::get_if<wire::session_control::BulkPort>(&frame);
  return accepts_at != nullptr && transport.port_received(session, shared_from_this(), *accepts_at);
}

Result<VerbsTransport::Senders> VerbsTransport::senders_of(const std::string& ip) {
  // Take the lock, so that no sender is made for a device whose senders have been dropped.
  const std::lock_guard lock(senders_mutex_);
  const std::optional<DevicePort> port = devices_->port_of(ip);
  if (!port || port->mtu < wire::session_control::kMinDatagramMtu) return Senders();
  for (const Senders& senders : senders_) {
    if (senders.datagrams->port().ip == ip) return senders;
  }
  const std::shared_ptr<Registrar> registrar = registrar_of(ip);
  if (!registrar) return RIPC_PEER_DEAD;  // the device is just coming or going
  Result<std::shared_ptr<DatagramSender>> made = DatagramSender::create(*port, registrar, loop());
  if (!made.ok()) return made.status();
  senders_.push_back({*made, multicast_groups_ ? make_group_sender(*made) : nullptr});
  return senders_.back();
}

Result<std::shared_ptr<remote::LinkChannel>> VerbsTransport::open_link(const SessionPointer& session, Peer& peer,
                                                                       ripc_service_id id, Deadline deadline) {
  for (;;) {
    const std::uint32_t moves = session->moves();
    auto opened = open_link_here(session, peer, id, moves, deadline);
    if (opened.ok() || moves == session->moves() || deadline.expired()) return opened;
  }
}

Result<std::shared_ptr<remote::LinkChannel>> VerbsTransport::open_link_here(const SessionPointer& session, Peer& peer,
                                                                            ripc_service_id id, std::uint32_t moves,
                                                                            Deadline deadline) {
  // A session that is being ended for that reason may still be found.
  if (Status reason = avoided(*session); !reason.ok()) return reason;
  Result<Senders> senders = senders_of(session->local().ip());
  if (!senders.ok()) return senders.status();
  const std::shared_ptr<DatagramSender>& sender = senders->datagrams;
  if (!sender) return open_udp_link(session, id, deadline);
  peer.uses_datagrams = true;
  const DatagramAddress own = sender->address();
  wire::session_control::OpenDatagram question{.service = id,
                                               .gid = own.gid,
                                               .lid = own.lid,
                                               .queue_pair = own.queue_pair,
                                               .queue_key = own.queue_key,
                                               .mtu = sender->port().mtu};
  NewLink made(session);
  const auto opened = ask_for_link<wire::session_control::DatagramOpened>(made, question, deadline);
  if (!opened.ok()) {
    if (opened.status().code() == RIPC_REFUSED) return spi::link_refused();
    // The peer's device has none.
    if (opened.status().code() == RIPC_UNSUPPORTED && moves == session->moves())
      return open_udp_link(session, id, deadline);
    return opened.status();
  }
  Result<DatagramChannel::AttachmentPointer> attachment =
      attachment_of(session, peer, {sender, question.token}, moves, *opened);
  if (!attachment.ok()) {
    made.give_up();
    if (attachment.status().code() == RIPC_UNSUPPORTED && moves == session->moves())
      return open_udp_link(session, id, deadline);
    return attachment.status();
  }
  auto channel = remote::LinkChannel::make<DatagramChannel>(
      parts_of(session, id, question.link, question.token, opened->incarnation, opened->credit), peer.rdma_bulk,
      std::move(*attachment), senders->groups, moves,
      DatagramChannel::Hooks{.move = [this, session](DatagramChannel& moved) { move_link(session, moved); },
                             .unreachable =
                                 [this, session] {
                                   or_lose(session,
                                           [&] { (void)avoid(session, "Datagrams do not get through any more"); });
                                 }});
  made.has_channel();
  if (Status status = try_datagrams(session, *channel, question, moves, deadline); !status.ok()) return status;
  return std::shared_ptr<remote::LinkChannel>(std::move(channel));
}

// The attachment for a link of this side, from what the peer has answered.
Result<DatagramChannel::AttachmentPointer> VerbsTransport::attachment_of(
    const SessionPointer& session, Peer& peer, DatagramChannel::Question question, std::uint32_t moves,
    const wire::session_control::DatagramOpened& opened) {
  const Result<AddressHandle> handle = handle_to(session, peer, *question.sender, opened.gid, opened.lid, moves);
  if (!handle.ok()) return handle.status();
  const LinkSignature signature(*session, true, opened.link, question.token);
  const std::size_t limit = std::min<std::size_t>(
      question.sender->port().mtu - wire::datagram::kHeaderSize - signature_size(*session), opened.packet_limit);
  return std::make_unique<DatagramChannel::Attachment>(
      std::move(question.sender),
      DatagramChannel::Routes{.packets = {.handle = *handle,
                                          .queue_pair = opened.queue_pair,
                                          .queue_key = opened.queue_key,
                                          .sealer = signature.sealer(Purpose::packets)},
                              .greetings = {.handle = *handle,
                                            .queue_pair = opened.greeted_pair,
                                            .queue_key = opened.greeted_key,
                                            .sealer = signature.sealer(Purpose::greetings)},
                              .answers = signature.verifier(Purpose::answers, authenticator().counters())},
      opened.link, question.token, limit);
}

// Called before a link is used, because datagrams vanish without notice if nothing gets through. `question`: the frame
// that opened the link.
Status VerbsTransport::try_datagrams(const SessionPointer& session, DatagramChannel& channel,
                                     wire::session_control::OpenDatagram question, std::uint32_t moves,
                                     Deadline deadline) {
  const auto is_over = [&] { return channel.was_greeted() || session->lost || session->moves() != moves; };
  Nanoseconds now = monotonic_now();
  const Nanoseconds began = now;
  Nanoseconds next = now;
  Backoff pause(kFirstGreeting, kLongestGreeting);
  Nanoseconds give_up = 0;
  for (; !channel.was_greeted(); now = monotonic_now()) {
    if (session->moves() != moves) return RIPC_PEER_DEAD;
    if (give_up != 0 && now >= give_up) return avoid(session, "Datagrams do not get through");
    if (deadline.expired())
      return Status(RIPC_TIMEOUT, "Datagrams of the RDMA device were not answered by " + session->remote().ip() +
                                      ": a firewall or a switch may stop RoCE (UDP port 4791).");
    if (now >= next) {
      channel.greet();
      next = now + pause.next();
    }
    if (give_up == 0 && now - began >= kGreetingPatience) {
      // A peer that answers this could have answered the greetings.
      NewLink made(session);
      const auto sign = ask_for_link<wire::session_control::DatagramOpened>(made, question, deadline);
      if (!sign.ok()) return sign.status();
      give_up = monotonic_now() + kGreetingPatience / 2;
    }
    const Nanoseconds look = std::clamp((now - began) / 8, kFirstLook, kLastLook);
    if (wait(is_over, Deadline::after(look)) && !channel.was_greeted()) return RIPC_PEER_DEAD;
  }
  return {};
}

// A session uses one port of the peer at a time, and has one route to it, which is looked up once. So no peer can make
// this side look up other machines' addresses, or more than one address. The route ends with the session, because the
// address may move to another machine.
Result<AddressHandle> VerbsTransport::handle_to(const SessionPointer& session, Peer& peer, DatagramSender& sender,
                                                const wire::session_control::Gid& gid, std::uint32_t lid,
                                                std::uint32_t moves) {
  if (moves != session->moves()) return RIPC_PEER_DEAD;
  {
    const std::lock_guard lock(peers_mutex_);
    if (const auto& route = peer.route; route && route->moves == moves) {
      if (route->gid != gid || route->lid != lid) return RIPC_UNSUPPORTED;
      if (route->handle.ok() || monotonic_now() - route->found_at < kLookUpPause) return route->handle;
    }
  }
  const union ibv_gid expected = gid_of(session->remote());
  if (sender.port().ethernet && std::memcmp(expected.raw, gid.data(), gid.size()) != 0)
    return Status(RIPC_UNSUPPORTED,
                  "The peer tells of an address for datagrams that is not " + session->remote().ip() + ".");
  Result<AddressHandle> found = sender.find_handle(gid, lid);
  const std::lock_guard lock(peers_mutex_);
  // Two links may have been opened at the same time.
  if (!peer.route || peer.route->moves != moves || !peer.route->handle.ok())
    peer.route =
        Peer::Route{.moves = moves, .gid = gid, .lid = lid, .handle = std::move(found), .found_at = monotonic_now()};
  return peer.route->gid == gid && peer.route->lid == lid ? peer.route->handle : RIPC_UNSUPPORTED;
}

// Slow steps come first, without locks held. A refusal has only request, link and status; RIPC_UNSUPPORTED: the peer
// should ask for UDP.
wire::session_control::DatagramOpened VerbsTransport::accept_datagrams(
    const SessionPointer& session, Peer& peer, const wire::session_control::OpenDatagram& frame) {
  wire::session_control::DatagramOpened answer{.request = frame.request, .link = frame.link};
  try {
    const Result<Senders> senders = senders_of(session->local().ip());
    if (!senders.ok()) {
      answer.status = senders.status().code();
      return answer;
    }
    const std::shared_ptr<DatagramSender>& sender = senders->datagrams;
    const std::shared_ptr<Registrar> registrar = registrar_of(session->local().ip());
    if (sender) peer.uses_datagrams = true;
    const Result<AddressHandle> handle = sender
                                             ? handle_to(session, peer, *sender, frame.gid, frame.lid, session->moves())
                                             : Result<AddressHandle>(RIPC_UNSUPPORTED);
    if (!handle.ok()) {
      answer.status = RIPC_UNSUPPORTED;
      return answer;
    }
    const LinkSignature signature(*session, false, frame.link, frame.token);
    const auto attachment = std::make_shared<const DatagramSource::Attachment>(
        sender,
        DatagramRoute{.handle = *handle,
                      .queue_pair = frame.queue_pair,
                      .queue_key = frame.queue_key,
                      .sealer = signature.sealer(Purpose::answers)},
        DatagramSource::Origin{.token = frame.token,
                               .queue_pair = frame.queue_pair,
                               .gid = frame.gid,
                               .verifier = signature.verifier(Purpose::packets, authenticator().counters())},
        frame.link, signature.verifier(Purpose::greetings, authenticator().counters()));
    const auto take = [&](remote::LinkPort& at,
                          const remote::LinkSource* known) -> Result<std::shared_ptr<remote::LinkSource>> {
      auto& port = static_cast<VerbsPort&>(at);
      Result<VerbsPort::Accepted> accepted = known != nullptr ? port.move(*known, registrar, attachment)
                                                              : port.accept({.session = session,
                                                                             .link = frame.link,
                                                                             .token = frame.token,
                                                                             .budget = 0,
                                                                             .events = &port.events(),
                                                                             .peer_timeout = options().peer_timeout},
                                                                            peer.rdma_bulk, registrar, attachment);
      if (!accepted.ok()) return accepted.status();
      answer.gid = accepted->address.gid;
      answer.lid = accepted->address.lid;
      answer.queue_pair = accepted->address.queue_pair;
      answer.queue_key = accepted->address.queue_key;
      answer.incarnation = port.incarnation();
      const auto around = static_cast<std::uint32_t>(wire::datagram::kHeaderSize + attachment->back.overhead());
      answer.packet_limit = std::min(accepted->packet_limit, frame.mtu - around);
      answer.credit = remote::ReceiverCredit::first_credit(accepted->source->budget());
      answer.greeted_pair = sender->address().queue_pair;
      answer.greeted_key = sender->address().queue_key;
      return std::shared_ptr<remote::LinkSource>(std::move(accepted->source));
    };
    if (frame.request == wire::session_control::kMove) {
      answer.status = move(session, frame.link, frame.service, [&](remote::LinkPort& port, remote::LinkSource& source) {
                        return take(port, &source).status();
                      }).code();
    } else {
      answer.status = accept(session, frame.link, frame.service, [&](remote::LinkPort& port) {
                        return take(port, nullptr);
                      }).code();
    }
  } catch (const std::bad_alloc&) {
    answer.status = RIPC_NO_MEMORY;
  }
  return answer;
}

// ---- Groups --------------------------------------------------------------------------------------------------

std::shared_ptr<GroupSender> VerbsTransport::make_group_sender(const std::shared_ptr<DatagramSender>& datagrams) {
  return std::make_shared<GroupSender>(
      datagrams,
      [this, port = datagrams->port()](ripc_service_id group, std::function<void(MembershipPointer)> joined) {
        loop().post([this, port, group, joined = std::move(joined)] {
          if (memberships_) joined(memberships_->join(port, group));
        });
      });
}

void VerbsTransport::groups_joined() {
  for_each_port([](remote::LinkPort& port) { static_cast<VerbsPort&>(port).attach_joined(); });
}

}  // namespace ripc::internal::verbs
