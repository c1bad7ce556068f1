// SPDX-License-Identifier: Apache-2.0
// The RDMA connections of sessions: one over each rail.
#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/verbs/verbs_transport.hpp"

namespace ripc::internal::verbs {

using remote::SessionPointer;

namespace {

// librdmacm repeats lost messages of a handshake only after 4.3 s, so a new attempt is faster. Each attempt waits twice
// as long as the last.
constexpr Nanoseconds kFirstPatience = 1'000'000'000;
constexpr unsigned kMostDoublings = 8;
constexpr unsigned kMostRailDoublings = 1;
constexpr Nanoseconds kRedialPause = 200'000'000;
// After this many attempts that failed for no visible reason, RDMA counts as blocked.
constexpr unsigned kMaxTcpOnlyFailures = 3;
constexpr unsigned kMostRedials = 8;
// Within the peer time-out: how often a rail without a connection is tried again, while bytes move over others.
constexpr Nanoseconds kRailLooks = 16;
// Of one peer.
constexpr std::size_t kMostAddresses = 16;
// For this long, other transports are used instead.
constexpr Nanoseconds kAvoidance = 60'000'000'000;
constexpr std::size_t kMostAvoided = 1024;

void tell_port(remote::Session& session, const remote::Endpoint& address, std::uint16_t port,
               const wire::session_control::Nonce& nonce) {
  wire::session_control::BulkPort frame{.port = port, .nonce = nonce};
  std::memcpy(frame.address.data(), gid_of(address).raw, frame.address.size());
  session.stream.tell(frame);
}

}  // namespace

// A connection that is being made. Nobody else uses it before the other side has agreed.
struct VerbsTransport::ConnectionAttempt {
  std::shared_ptr<QueuePairConnection> connection;
  std::weak_ptr<QueuePairConnection> made;
  bool is_made = false;

  std::shared_ptr<QueuePairConnection> finish() {
    is_made = true;
    made = connection;
    return std::move(connection);
  }
  // librdmacm says that it has ended.
  void end() {
    if (connection) connection->close();
    connection.reset();
    if (const auto alive = made.lock()) alive->cut();
  }
};

// ---- Rails ---------------------------------------------------------------------------------------------------

VerbsTransport::Rail* VerbsTransport::Peer::rail_to(const remote::Endpoint& address) noexcept {
  const auto found = std::ranges::find_if(rails, [&](const Rail& rail) { return rail.address.same_ip(address); });
  return found == rails.end() ? nullptr : &*found;
}

bool VerbsTransport::is_dialed(const remote::Session& session, const Rail& rail) noexcept {
  const auto& dialers = session.bulk_dialers;
  return rail.attempt != 0 ||
         std::ranges::any_of(dialers, [&](const auto& dialer) { return dialer->dials(rail.address); });
}

bool VerbsTransport::is_dialing(const remote::Session& session, const Peer& peer) noexcept {
  return std::ranges::any_of(peer.rails, [&](const Rail& rail) { return is_dialed(session, rail); });
}

// The accepting side does this at the beginning and when new ports have come. The session's own address comes first.
void VerbsTransport::tell_ports(const SessionPointer& session, Peer& peer) {
  std::vector<std::string> ips = own_ips();
  ips.insert(ips.begin(), session->local().ip());
  for (const std::string& ip : ips) {
    remote::Endpoint address;
    if (!remote::Endpoint::parse(ip, 0, address)) continue;
    const std::uint16_t port = manager_->port_at(address);
    Rail* rail = peer.rail_to(address);
    if (port == 0 || (rail != nullptr && rail->port == port) ||
        (rail == nullptr && peer.rails.size() == kMostAddresses))
      continue;
    if (rail == nullptr) rail = &peer.rails.emplace_back(Rail{.address = address});
    rail->port = port;
    rail->nonce = remote::random_nonce();
    tell_port(*session, address, port, rail->nonce);
  }
  for (const std::string& ip : socket_rail_ips()) {
    remote::Endpoint address;
    if (remote::Endpoint::parse(ip, 0, address)) tell_port(*session, address, 0, {});
  }
}

bool VerbsTransport::port_received(const SessionPointer& session, const PeerPointer& peer,
                                   const wire::session_control::BulkPort& frame) {
  if (session->incoming) return false;
  sockaddr_in6 ip{};
  ip.sin6_family = AF_INET6;
  std::memcpy(&ip.sin6_addr, frame.address.data(), frame.address.size());
  const remote::Endpoint address = remote::Endpoint::of(reinterpret_cast<const sockaddr&>(ip));
  if (frame.port == 0) return socket_rail_received(session, peer, address);
  const bool is_in_use = peer->rdma_bulk->connection() || is_dialing(*session, *peer);
  Rail* rail = peer->rail_to(address);
  if (rail == nullptr) {
    if (peer->rails.size() == kMostAddresses) return false;
    rail = &peer->rails.emplace_back(Rail{.address = address});
  }
  rail->port = static_cast<std::uint16_t>(frame.port);
  rail->nonce = frame.nonce;
  if (peer->rails.size() > 1) tell_rails(*session, *peer);
  if (peer->wanted) {
    connect_bulk(session, peer);
  } else if (is_in_use) {
    dial_rails(session, peer);  // earlier ones are connected, or being dialed
  }
  return true;
}

// For people: what there may be connections over.
void VerbsTransport::tell_rails(const remote::Session& session, Peer& peer) const {
  std::vector<spi::RailReport> rails;
  const auto add = [&](const std::string& device, const remote::Rail& found) {
    rails.push_back({.device = device, .local = found.local.ip(), .peer = found.remote.ip()});
  };
  for (const remote::Rail& found : rails_of(session, peer)) {
    if (const std::optional<DevicePort> port = devices_->port_of(found.local.ip())) add(port->device->name, found);
  }
  for (const remote::Rail& found : socket_rails_of(peer)) add(interface_of(found.local), found);
  peer.rdma_bulk->set_possible_rails(std::move(rails));
}

// There is one rail in any case; do not look for it at the start of each session.
std::vector<spi::RailReport> VerbsTransport::possible_rails(const remote::Session& session, const Peer& peer) const {
  std::vector<spi::RailReport> rails = peer.rdma_bulk->possible_rails();
  const std::string local = session.local().ip();
  if (const auto port = devices_->port_of(local); rails.empty() && port)
    rails.push_back({.device = port->device->name, .local = local, .peer = session.remote().ip()});
  return rails;
}

void VerbsTransport::connect_bulk(const SessionPointer& session, const PeerPointer& peer) {
  if (is_dialing(*session, *peer)) return;
  peer->wanted = peer->rails.empty();
  if (peer->wanted) return;
  dial_rails(session, peer);
  // A connection that only the other side has lost so far counts as lost.
  Rail* const own = peer->rail_to(session->remote());
  if (own != nullptr && !is_dialing(*session, *peer)) dial(session, peer, *own, session->local());
  if (!is_dialing(*session, *peer)) peer->rdma_bulk->dial_failed();
}

// The first address is the session's. Others count only if the peer's record has them, whatever the peer says.
std::vector<remote::Rail> VerbsTransport::rails_of(const remote::Session& session, Peer& peer) const {
  std::vector<remote::Endpoint> remotes = session.remotes();
  std::erase_if(remotes, [&](const remote::Endpoint& remote) { return peer.rail_to(remote) == nullptr; });
  const auto can_be = [&](const remote::Endpoint& local, const std::string& interface) {
    const std::optional<DevicePort> port = devices_->port_of(local.ip());
    return port && ports_.is_up(*port) && (rails_.allows(interface) || rails_.allows(port->device->name));
  };
  return remote::find_rails(remotes, rails_.most, can_be);
}

// One connection over each rail that has none.
void VerbsTransport::dial_rails(const SessionPointer& session, const PeerPointer& peer) {
  for (const remote::Rail& found : rails_of(*session, *peer)) {
    Rail& rail = *peer->rail_to(found.remote);
    const bool is_first = found.remote.same_ip(session->remote());
    if (!is_dialed(*session, rail) && peer->rdma_bulk->connections_to(found.remote) == 0)
      dial(session, peer, rail, is_first ? session->local() : found.local);
  }
  dial_socket_rails(session, peer);
  // A rail whose port is down does not count now.
  if (peer->rails.size() + peer->socket_rails.size() > 1 && rails_.most > 1) look_at_rails_later(*peer);
}

void VerbsTransport::look_at_rails(const SessionPointer& session, const PeerPointer& peer) {
  if (session->lost) return;
  if (peer->rdma_bulk->probe()) {
    or_lose(session, [&] { dial_rails(session, peer); });
  } else {
    look_at_rails_later(*peer);
  }
}

void VerbsTransport::look_at_rails_later(Peer& peer) noexcept {
  peer.rail_timer.set(monotonic_now() + options().peer_timeout / kRailLooks);
}

// ---- Connections ---------------------------------------------------------------------------------------------

void VerbsTransport::dial(const SessionPointer& session, const PeerPointer& peer, Rail& rail,
                          const remote::Endpoint& local) {
  const std::shared_ptr<Registrar> registrar = registrar_of(local.ip());
  if (!registrar) return;  // the device is just coming or going
  const bool is_first = rail.address.same_ip(session->remote());
  const Nanoseconds patience =
      std::min(options().peer_timeout,
               kFirstPatience << std::min(rail.failures / 2, is_first ? kMostDoublings : kMostRailDoublings));
  if (rail.failures == 0) rail.control_received = session->stream.received();
  const auto ask = [this, session, peer, &rail, local, patience, read_depth = registrar->device()->read_depth] {
    ask_for_connection(session, peer, rail, local, patience, read_depth);
  };
  if (!registrar->device()->iwarp) {
    ask();
    return;
  }
  // siw makes its TCP connection within rdma_connect(): where nothing gets through, that blocks for two minutes.
  std::vector<remote::Endpoint> there = session->remotes();
  std::erase_if(there, [&](const remote::Endpoint& remote) { return !remote.same_ip(rail.address); });
  auto& dialers = session->bulk_dialers;
  std::erase_if(dialers, [](const auto& dialer) { return dialer->over(); });
  dialers.push_back(remote::Dialer::dial(
      loop(), authenticator(), std::move(there), greeting(session, wire::session_control::Role::bulk), session->context,
      Deadline::after(patience), [this, session, peer, &rail, ask](const remote::Greeted& greeted) {
        if (greeted.status.ok()) {
          ask();
        } else {
          dial_failed(session, peer, rail, greeted.status);
        }
      }));
}

void VerbsTransport::ask_for_connection(const SessionPointer& session, const PeerPointer& peer, Rail& rail,
                                        const remote::Endpoint& local, Nanoseconds patience, std::uint8_t read_depth) {
  const security::Secret* const secret = session->secret ? &session->secret->secret : nullptr;
  const std::uint64_t number = ++rail.number;
  auto attempt = std::make_shared<ConnectionAttempt>();
  rail.attempt =
      manager_->dial(local, rail.address.with_port(rail.port),
                     make_private_data(secret, Side::dialing, rail.nonce, session->id, number), read_depth, patience,
                     {.prepare = [this, peer, attempt](const IdPointer& id) { return prepare(*peer, *attempt, id); },
                      .accepted = [this, session, peer, attempt, number, secret, &rail](
                                      const IdPointer&, const PrivateData& private_data) -> Status {
                        ConnectionPrivateData answer;
                        if (!parse(private_data, answer) || answer.number != number ||
                            !is_proven(secret, Side::accepting, rail.nonce, answer)) {
                          authenticator().count_refused();
                          return Status(RIPC_REFUSED, "Another process answers at the RDMA address of the peer.");
                        }
                        rail.attempt = 0;
                        rail.failures = rail.tcp_only_failures = 0;
                        made(*peer, *attempt, true);
                        // The session and its links come back from a rail of sockets.
                        peer->comes_back = !devices_->port_of(session->local().ip());
                        if (peer->comes_back) control_lost(session, options().peer_timeout);
                        return {};
                      },
                      .ended =
                          [this, session, peer, attempt, &rail](Status reason) {
                            attempt->end();
                            if (attempt->is_made) return;
                            or_lose(session, [&] { dial_failed(session, peer, rail, reason); });
                          }});
}

// The peer may wait for the connection, and would ask again only much later.
void VerbsTransport::dial_failed(const SessionPointer& session, const PeerPointer& peer, Rail& rail,
                                 const Status& reason) {
  rail.attempt = 0;
  ++rail.failures;
  const std::uint64_t before = std::exchange(rail.control_received, session->stream.received());
  if (rail.control_received != before) ++rail.tcp_only_failures;
  // Another rail may well be down while TCP gets through over this one.
  if (rail.tcp_only_failures >= kMaxTcpOnlyFailures && rail.address.same_ip(session->remote())) {
    (void)avoid(session, "No connection for long items can be made (" + std::string(reason.text()) + ")");
    return;
  }
  if (is_dialing(*session, *peer)) return;
  peer->rdma_bulk->dial_failed();
  loop().add_timer(monotonic_now() + kRedialPause, [this, session, peer, failures = rail.failures] {
    if (!session->lost && !peer->rdma_bulk->connection() && failures < kMostRedials) connect_bulk(session, peer);
  });
}

// Any. RDMA does not get through, though TCP does, so other transports are used for a while.
Status VerbsTransport::avoid(const SessionPointer& session, const std::string& what) {
  const std::string local = session->local().ip();
  const std::string remote = session->remote().ip();
  const Status reason(RIPC_PEER_DEAD, what + " between " + local + " and " + remote +
                                          ", but TCP does: a firewall or a switch may stop RoCE (UDP port 4791). RDMA "
                                          "is not tried there again for a minute.");
  {
    const std::lock_guard lock(peers_mutex_);
    const Nanoseconds now = monotonic_now();
    std::erase_if(avoided_,
                  [&](const Avoided& one) { return one.until <= now || (one.local == local && one.remote == remote); });
    if (avoided_.size() >= kMostAvoided) avoided_.erase(avoided_.begin());
    avoided_.push_back({.local = local, .remote = remote, .reason = reason, .until = now + kAvoidance});
  }
  loop().post([this, session, reason] { lose(session, reason); });
  return reason;
}

Status VerbsTransport::avoided(const remote::Session& session) {
  const std::lock_guard lock(peers_mutex_);
  const auto found = std::ranges::find_if(avoided_, [&](const Avoided& one) {
    return one.local == session.local().ip() && one.remote == session.remote().ip() && monotonic_now() < one.until;
  });
  return found == avoided_.end() ? Status() : found->reason;
}

Result<ibv_qp*> VerbsTransport::prepare(const Peer& peer, ConnectionAttempt& attempt, const IdPointer& id) {
  const std::shared_ptr<Registrar> registrar = registrar_of(id->local().ip());
  if (!registrar || !registrar->device()->is_of(*id->get()))
    return Status(RIPC_PEER_DEAD, "The way to " + id->remote().ip() + " has changed to another RDMA device.");
  Result<std::shared_ptr<QueuePairConnection>> made =
      QueuePairConnection::create(registrar, id, loop(), peer.rdma_bulk->tally());
  if (!made.ok()) return made.status();
  attempt.connection = std::move(*made);
  return attempt.connection->pair();
}

Result<ConnectionManager::Acceptance> VerbsTransport::requested(const IdPointer& id, const PrivateData& private_data) {
  ConnectionPrivateData claim;
  if (!parse(private_data, claim)) {
    authenticator().count_refused();
    return RIPC_VERSION_MISMATCH;
  }
  const SessionPointer session = session_named(claim.session);
  const PeerPointer peer = session ? std::static_pointer_cast<Peer>(session->links) : nullptr;
  Rail* const rail = peer ? peer->rail_to(id->local()) : nullptr;
  // The origin of the control connection is known.
  const bool is_strange =
      rail != nullptr && rail->address.same_ip(session->local()) && !id->remote().same_ip(session->remote());
  if (rail == nullptr || is_strange) {
    authenticator().count_refused();
    return RIPC_REFUSED;
  }
  if (claim.number <= rail->number) return RIPC_REFUSED;  // the older one of two attempts
  const security::Secret* const secret = session->secret ? &session->secret->secret : nullptr;
  const std::shared_ptr<Registrar> registrar = registrar_of(id->local().ip());
  if (!is_proven(secret, Side::dialing, rail->nonce, claim) || !registrar) {
    authenticator().count_refused();
    return RIPC_REFUSED;
  }
  rail->number = claim.number;
  auto attempt = std::make_shared<ConnectionAttempt>();
  return ConnectionManager::Acceptance{
      .private_data = make_private_data(secret, Side::accepting, rail->nonce, session->id, claim.number),
      .read_depth = registrar->device()->read_depth,
      .from = rail,
      .hooks = {.prepare = [this, peer, attempt](const IdPointer& own) { return prepare(*peer, *attempt, own); },
                .accepted = [this, session, peer, attempt](const IdPointer&, const PrivateData&) -> Status {
                  bulk_arrived(session);
                  made(*peer, *attempt, false);
                  return {};
                },
                .ended = [attempt](Status) { attempt->end(); }}};
}

void VerbsTransport::made(const Peer& peer, ConnectionAttempt& attempt, bool dialed) {
  const std::shared_ptr<QueuePairConnection> connection = attempt.finish();
  peer.rdma_bulk->adopt(connection, dialed);
  limit_connections(connection.get());
}

// Closes the connections used longest ago if nothing goes over them; if there are too few of these now, it tries again
// later. The newest stays, because what it was made for is still to come.
void VerbsTransport::limit_connections(const QueuePairConnection* newest) {
  std::vector<std::pair<std::uint64_t, std::shared_ptr<QueuePairConnection>>> idle;
  std::size_t count = 0;
  for (const auto& bulk : bulks()) {
    const bool is_idle = bulk->idle();
    for (const auto& connection : bulk->connections()) {
      ++count;
      if (connection.get() != newest && is_idle) idle.emplace_back(connection->last_use(), connection);
    }
  }
  const std::size_t excess = count - std::min(count, max_connections_);
  std::ranges::sort(idle);
  if (idle.size() > excess) idle.resize(excess);
  for (const auto& [last_use, connection] : idle) connection->cut();
  if (idle.size() == excess) {
    limit_pause_.reset();
  } else if (limit_timer_ == 0) {
    limit_timer_ = loop().add_timer(monotonic_now() + limit_pause_.next(), [this] {
      limit_timer_ = 0;
      limit_connections();
    });
  }
}

}  // namespace ripc::internal::verbs
