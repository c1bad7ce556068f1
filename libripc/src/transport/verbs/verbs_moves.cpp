// SPDX-License-Identifier: Apache-2.0
// How a session and its links move to other RDMA devices when the rail of the control connection has failed.
#include <algorithm>
#include <utility>

#include "base/random.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace ripc::internal::verbs {

using remote::SessionPointer;

// ---- The session ---------------------------------------------------------------------------------------------

bool VerbsTransport::leaves_by(const remote::Session& session, const std::vector<std::string>& ips) {
  return std::find(ips.begin(), ips.end(), session.local().ip()) != ips.end();
}

// Whether a session may move now that its own port is down. If the peer began the session, the peer knows which way is
// left.
bool VerbsTransport::may_move(const remote::Session& session, Peer& peer) const {
  if (session.local().same_ip(session.remote())) return false;
  if (session.incoming) return !own_ips().empty() || !socket_rail_ips().empty();
  const std::vector<remote::Rail> rails = rails_of(session, peer);
  return !socket_rails_of(peer).empty() ||
         std::any_of(rails.begin(), rails.end(), [&](const remote::Rail& rail) { return carries(rail.local); });
}

// The peer learns of the move at once if TCP still gets through, else within half the peer timeout. It dials the
// sessions again if this side does not.
void VerbsTransport::move_sessions(const std::vector<std::string>& ips) {
  // The dialing side may learn of it late, and then needs some time.
  const auto patience_of = [&](const remote::Session& session) {
    return session.incoming ? options().peer_timeout : options().peer_timeout / 2;
  };
  const auto are_moving = [&](const remote::Session& session, const Peer&) { return leaves_by(session, ips); };
  for (const auto& [session, peer] : sessions_that(are_moving)) control_lost(session, patience_of(*session));
}

// Addresses of devices come first, then those of rails of sockets. Leaves out an address that the kernel reaches from a
// port that is down, even if TCP gets through. If there is no other address, the peer may come back.
std::vector<remote::Endpoint> VerbsTransport::candidate_endpoints(const remote::Session& session, Peer& peer) const {
  std::vector<remote::Endpoint> ways = session.remotes();
  std::erase_if(ways, [&](const remote::Endpoint& way) {
    return std::ranges::any_of(peer.socket_rails, [&](const remote::Endpoint& one) { return one.same_ip(way); });
  });
  if (!std::exchange(peer.comes_back, false))
    ways.insert(ways.end(), peer.socket_rails.begin(), peer.socket_rails.end());
  std::erase_if(ways, [&](const remote::Endpoint& way) {
    const std::vector<remote::Rail> rails =
        remote::find_rails({&way, 1}, 1, [](const auto&, const auto&) { return true; });
    return !carries(rails.front().local);
  });
  return ways.empty() ? session.remotes() : ways;
}

// The session must not keep a device that may be removed. On a rail of sockets it has none.
void VerbsTransport::moved(const remote::Session& session, Peer& peer) {
  peer.rdma_bulk->move_to(registrar_of(session.local().ip()));
  const std::lock_guard lock(peers_mutex_);
  peer.route.reset();
}

// ---- Its links -----------------------------------------------------------------------------------------------

// The session is at another pair of addresses, so the link is asked for there.
void VerbsTransport::move_link(const SessionPointer& session, DatagramChannel& channel) {
  or_lose(session, [&] {
    const Result<Senders> senders = senders_of(session->local().ip());
    if (!senders.ok() || !senders->datagrams) return channel.stream();
    const std::shared_ptr<DatagramSender>& sender = senders->datagrams;
    const DatagramAddress own = sender->address();
    const std::uint64_t token = random_u64();
    channel.asked({sender, token});
    session->stream.tell(wire::session_control::OpenDatagram{.request = wire::session_control::kMove,
                                                             .service = channel.service(),
                                                             .token = token,
                                                             .link = channel.link(),
                                                             .gid = own.gid,
                                                             .lid = own.lid,
                                                             .queue_pair = own.queue_pair,
                                                             .queue_key = own.queue_key,
                                                             .mtu = sender->port().mtu});
  });
}

// Handles the answer. Frames come in order, and each question has one answer.
bool VerbsTransport::link_moved(const SessionPointer& session, Peer& peer,
                                const wire::session_control::DatagramOpened& opened) {
  const auto channel = std::dynamic_pointer_cast<DatagramChannel>(session->channel(opened.link));
  if (!channel || !channel->alive()) return true;
  std::optional<DatagramChannel::Question> question;
  if (!channel->answered(question)) return false;
  if (!question) return true;
  Result<DatagramChannel::AttachmentPointer> attachment =
      opened.status == RIPC_OK ? attachment_of(session, peer, std::move(*question), session->moves(), opened)
                               : Result<DatagramChannel::AttachmentPointer>(opened.status);
  if (attachment.ok()) {
    channel->attach(std::move(*attachment));
  } else {
    channel->stream();  // the peer's devices have no datagrams or no room
  }
  return true;
}

}  // namespace ripc::internal::verbs
