// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_transport.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/verbs/datagram/datagram_channel.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {

using remote::SessionPointer;

namespace {

// librdmacm repeats what is lost of a handshake after 4.3 s. A new attempt is sooner there; each waits twice as long.
constexpr Nanoseconds kFirstPatience = 1'000'000'000;
constexpr unsigned kMostDoublings = 8;
constexpr Nanoseconds kRedialPause = 200'000'000;
// After so many attempts that have failed for no visible reason RDMA does not get through.
constexpr unsigned kMostDoubts = 3;
constexpr unsigned kMostRedials = 8;
// Then other transports are used for so long.
constexpr Nanoseconds kAvoidance = 60'000'000'000;
constexpr std::size_t kMostAvoided = 1024;

}  // namespace

// A connection on its way: before the other side has agreed it is nobody else's.
struct VerbsTransport::Making {
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

VerbsTransport::VerbsTransport(TransportOptions options, std::shared_ptr<const DeviceList> devices, memory::Pool& pool)
    : SessionTransport("verbs", options),
      max_connections_(options.max_connections),
      devices_(std::move(devices)),
      ports_(devices_),
      pool_(pool),
      multicast_groups_(options.multicast_groups && !options.keys) {
  for (const DevicePointer& device : devices_->devices())
    registrars_.push_back(std::make_shared<Registrar>(device, pool));
  pool_.set_registration_observer([this](std::span<std::byte> range) {
    const std::lock_guard lock(registrars_mutex_);
    for (const auto& registrar : registrars_) registrar->registration_gone(range);
  });
}

VerbsTransport::~VerbsTransport() { pool_.set_registration_observer({}); }

Status VerbsTransport::start(spi::Host& host, EventLoop& loop) {
  std::vector<std::string> ips;
  for (const DevicePort& port : devices_->ports()) ips.push_back(port.ip);
  Result<std::unique_ptr<ConnectionManager>> manager =
      ConnectionManager::start(devices_->library(), loop, ips,
                               [this](const IdPointer& id, const PrivateData& words) { return requested(id, words); });
  if (!manager.ok()) return manager.status();
  manager_ = std::move(*manager);
  if (multicast_groups_) {
    Result<std::unique_ptr<GroupMemberships>> memberships =
        GroupMemberships::start(devices_->library(), loop, [this] { groups_joined(); });
    if (!memberships.ok()) return memberships.status();
    memberships_ = std::move(*memberships);
  }
  ports_.start(loop,
               {.changed = [this](const std::vector<std::string>& changed, bool up) { ports_changed(changed, up); },
                .queue_lost = [this](const DevicePointer& device) { queue_lost(device); },
                .gone = [this](const DevicePointer& device) { device_gone(device); },
                .come = [this] { ports_come(); },
                .join_again =
                    [this](const DevicePointer& device, std::uint8_t port) {
                      if (memberships_) memberships_->join_again(*device, port);
                    }});
  return SessionTransport::start(host, loop);
}

void VerbsTransport::stop() noexcept {
  ports_.stop();
  SessionTransport::stop();
  memberships_.reset();
  if (limit_timer_ != 0) loop().cancel_timer(limit_timer_);
  limit_timer_ = 0;
  manager_.reset();
}

void VerbsTransport::arena_gone(std::uint32_t arena) noexcept {
  const std::lock_guard lock(registrars_mutex_);
  for (const auto& registrar : registrars_) registrar->arena_gone(arena);
}

std::vector<std::string> VerbsTransport::own_ips() const {
  std::vector<std::string> ips;
  for (const DevicePort& port : devices_->ports()) {
    const bool v4 = port.ip.find(':') == std::string::npos;
    if ((options().bind_address.empty() || options().bind_address == port.ip) && (v4 || dual_stack()) &&
        ports_.is_up(port))
      ips.push_back(port.ip);
  }
  return ips;
}

// Peers that were reached by a port that is down are looked for by other paths at once, not after their timeout.
void VerbsTransport::ports_changed(const std::vector<std::string>& ips, bool up) {
  own_ips_changed();
  {
    const std::lock_guard lock(peers_mutex_);
    std::erase_if(avoided_,
                  [&](const Avoided& one) { return std::find(ips.begin(), ips.end(), one.local) != ips.end(); });
  }
  if (!up) lose_sessions_at(ips, Status(RIPC_PEER_DEAD, "The port of the RDMA device is down: check the cable."));
}

// Of those for datagrams; a connection ends by itself. Their numbers are what peers know: what used them begins anew.
void VerbsTransport::queue_lost(const DevicePointer& device) {
  std::vector<std::string> ips;
  {
    const std::lock_guard lock(senders_mutex_);
    std::erase_if(senders_, [&](const Senders& senders) {
      const bool is_lost = senders.datagrams->port().device == device && senders.datagrams->is_broken();
      if (is_lost) ips.push_back(senders.datagrams->port().ip);
      return is_lost;
    });
  }
  for_each_port([&](VerbsPort& port) {
    for (std::string& ip : port.give_up(*device, true)) ips.push_back(std::move(ip));
  });
  if (!ips.empty())
    lose_sessions_at(ips, Status(RIPC_PEER_DEAD, "A queue of the RDMA device " + device->name +
                                                     " has stopped with an error: it is recreated. See dmesg."));
}

// Its sessions have ended. Who still has something of it lets go when it notices that.
void VerbsTransport::device_gone(const DevicePointer& device) {
  manager_->forget(*device);
  if (memberships_) memberships_->forget(*device);
  {
    const std::lock_guard lock(senders_mutex_);
    std::erase_if(senders_, [&](const Senders& senders) { return senders.datagrams->port().device == device; });
  }
  for_each_port([&](VerbsPort& port) { (void)port.give_up(*device, false); });
  {
    const std::lock_guard lock(registrars_mutex_);
    std::erase_if(registrars_, [&](const auto& registrar) { return registrar->device() == device; });
  }
  {
    const std::lock_guard lock(peers_mutex_);
    std::erase_if(peers_, [&](const auto& entry) { return entry.second->rdma_bulk->registrar()->device() == device; });
  }
}

void VerbsTransport::ports_come() {
  for (const DevicePort& port : devices_->ports()) {
    {
      const std::lock_guard lock(registrars_mutex_);
      if (std::none_of(registrars_.begin(), registrars_.end(),
                       [&](const auto& registrar) { return registrar->device() == port.device; }))
        registrars_.push_back(std::make_shared<Registrar>(port.device, pool_));
    }
    // Where it cannot be listened, peers that want to connect are connected to.
    remote::Endpoint address;
    if (remote::Endpoint::parse(port.ip, 0, address) && manager_->port_at(address) == 0)
      (void)manager_->listen(port.ip);
  }
  own_ips_changed();
}

std::shared_ptr<Registrar> VerbsTransport::registrar_of(const std::string& ip) const {
  const std::optional<DevicePort> port = devices_->port_of(ip);
  if (!port) return nullptr;
  const std::lock_guard lock(registrars_mutex_);
  const auto found = std::find_if(registrars_.begin(), registrars_.end(),
                                  [&](const auto& registrar) { return registrar->device() == port->device; });
  return found == registrars_.end() ? nullptr : *found;
}

// ---- Sessions ------------------------------------------------------------------------------------------------

Result<std::shared_ptr<remote::SessionLinks>> VerbsTransport::make_links(const SessionPointer& session,
                                                                         remote::BulkHooks hooks) {
  const std::optional<DevicePort> port = devices_->port_of(session->local().ip());
  if (!port)
    return Status(RIPC_PEER_DEAD, "The way to " + session->remote().ip() + " leaves by " + session->local().ip() +
                                      ", which belongs to no RDMA device: check the routes (`ip route get`).");
  if (!ports_.is_up(*port))
    return Status(RIPC_PEER_DEAD, "Port " + std::to_string(port->number) + " of the RDMA device " + port->device->name +
                                      ", by which the way to " + session->remote().ip() +
                                      " leaves, is down: check the cable and `ip link`.");
  if (Status reason = avoided(*session); !reason.ok()) return reason;
  auto bulk = std::make_shared<RdmaBulk>(session->remote(), registrar_of(port->ip), pool_, loop(), std::move(hooks),
                                         options().peer_timeout);
  bulk->start();
  auto peer = std::make_shared<Peer>(*this, std::move(bulk));
  if (session->incoming) {
    peer->nonce = remote::random_nonce();
    session->stream.tell(
        wire::session_control::BulkPort{.port = manager_->port_at(session->local()), .nonce = peer->nonce});
  }
  const std::lock_guard lock(peers_mutex_);
  std::erase_if(peers_, [](const auto& entry) { return entry.first.expired(); });
  peers_.emplace_back(session, peer);
  return std::shared_ptr<remote::SessionLinks>(std::move(peer));
}

VerbsTransport::PeerPointer VerbsTransport::peer_of(const SessionPointer& session) {
  const std::lock_guard lock(peers_mutex_);
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& entry) { return entry.first.lock() == session; });
  return found == peers_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<RdmaBulk>> VerbsTransport::bulks() const {
  const std::lock_guard lock(peers_mutex_);
  std::vector<std::shared_ptr<RdmaBulk>> result;
  for (const auto& [session, peer] : peers_) result.push_back(peer->rdma_bulk);
  return result;
}

std::size_t VerbsTransport::connection_count() const {
  const std::vector<std::shared_ptr<RdmaBulk>> all = bulks();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const auto& bulk) { return bulk->connection() != nullptr; }));
}

// ---- Connections ---------------------------------------------------------------------------------------------

bool VerbsTransport::told_port(const SessionPointer& session, const PeerPointer& peer,
                               const wire::session_control::BulkPort& frame) {
  if (session->incoming || peer->port != 0) return false;
  peer->port = static_cast<std::uint16_t>(frame.port);
  peer->nonce = frame.nonce;
  if (peer->wanted) dial(session, peer);
  return true;
}

void VerbsTransport::connect_bulk(const SessionPointer& session, const PeerPointer& peer) {
  if (peer->attempt != 0) return;
  // A connection that only the other side has lost so far is as good as lost.
  peer->wanted = true;
  if (peer->port != 0) dial(session, peer);
}

void VerbsTransport::dial(const SessionPointer& session, const PeerPointer& peer) {
  peer->wanted = false;
  const ClusterKeys* const keys = options().keys.get();
  const std::uint64_t number = ++peer->number;
  const Nanoseconds patience =
      std::min(options().peer_timeout, kFirstPatience << std::min(peer->failures / 2, kMostDoublings));
  if (peer->failures == 0) peer->heard = session->stream.received();
  auto making = std::make_shared<Making>();
  peer->attempt = manager_->dial(
      session->local(), session->remote().with_port(peer->port),
      make_private_data(keys, Side::dialing, peer->nonce, session->id, number, session->key),
      peer->rdma_bulk->registrar()->device()->read_depth, patience,
      {.prepare = [this, session, peer, making](const IdPointer& id) { return prepare(session, *peer, *making, id); },
       .accepted = [this, peer, making, number, keys](const IdPointer&, const PrivateData& words) -> Status {
         ConnectionPrivateData answer;
         if (!parse(words, answer) || answer.number != number ||
             !is_proven(keys, Side::accepting, peer->nonce, answer)) {
           authenticator().count_refused();
           return Status(RIPC_REFUSED, "Another process answers at the RDMA address of the peer.");
         }
         peer->attempt = 0;
         peer->failures = peer->doubts = 0;
         made(*peer, *making, true);
         return {};
       },
       .ended =
           [this, session, peer, making](Status reason) {
             making->end();
             if (!making->is_made) dial_failed(session, peer, reason);
           }});
}

// Whoever waits for the connection may be the peer, who would ask again much later only.
void VerbsTransport::dial_failed(const SessionPointer& session, const PeerPointer& peer, const Status& reason) {
  peer->attempt = 0;
  ++peer->failures;
  const std::uint64_t before = std::exchange(peer->heard, session->stream.received());
  if (peer->heard != before) ++peer->doubts;
  if (peer->doubts >= kMostDoubts) {
    (void)avoid(session, "No connection for long items can be made (" + std::string(reason.text()) + ")");
    return;
  }
  peer->rdma_bulk->dial_failed();
  loop().add_timer(monotonic_now() + kRedialPause, [this, session, peer] {
    if (!session->lost && !peer->rdma_bulk->connection() && peer->failures < kMostRedials) connect_bulk(session, peer);
  });
}

// Any. RDMA does not get through, though TCP does: others are to be used for a while.
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
  const auto found = std::find_if(avoided_.begin(), avoided_.end(), [&](const Avoided& one) {
    return one.local == session.local().ip() && one.remote == session.remote().ip() && monotonic_now() < one.until;
  });
  return found == avoided_.end() ? Status() : found->reason;
}

Result<ibv_qp*> VerbsTransport::prepare(const SessionPointer& session, const Peer& peer, Making& making,
                                        const IdPointer& id) {
  if (!peer.rdma_bulk->registrar()->device()->is_of(*id->get()))
    return Status(RIPC_PEER_DEAD, "The way to " + session->remote().ip() + " has changed to another RDMA device.");
  Result<std::shared_ptr<QueuePairConnection>> made =
      QueuePairConnection::create(peer.rdma_bulk->registrar(), id, loop(), peer.rdma_bulk->tally());
  if (!made.ok()) return made.status();
  making.connection = std::move(*made);
  return making.connection->pair();
}

Result<ConnectionManager::Welcome> VerbsTransport::requested(const IdPointer& id, const PrivateData& words) {
  ConnectionPrivateData told;
  if (!parse(words, told)) {
    authenticator().count_refused();
    return RIPC_VERSION_MISMATCH;
  }
  const SessionPointer session = session_named(told.session);
  const PeerPointer peer = session ? peer_of(session) : nullptr;
  if (!peer || !id->remote().same_ip(session->remote())) {
    authenticator().count_refused();
    return RIPC_REFUSED;
  }
  if (told.number <= peer->number) return RIPC_REFUSED;  // the older one of two attempts
  const ClusterKeys* const keys = options().keys.get();
  if (!is_proven(keys, Side::dialing, peer->nonce, told)) {
    authenticator().count_refused();
    return RIPC_REFUSED;
  }
  peer->number = told.number;
  auto making = std::make_shared<Making>();
  return ConnectionManager::Welcome{
      .words = make_private_data(keys, Side::accepting, peer->nonce, session->id, told.number),
      .read_depth = peer->rdma_bulk->registrar()->device()->read_depth,
      .from = peer.get(),
      .hooks = {.prepare = [this, session, peer,
                            making](const IdPointer& own) { return prepare(session, *peer, *making, own); },
                .accepted = [this, session, peer, making](const IdPointer&, const PrivateData&) -> Status {
                  bulk_arrived(session);
                  made(*peer, *making, false);
                  return {};
                },
                .ended = [making](Status) { making->end(); }}};
}

void VerbsTransport::made(const Peer& peer, Making& making, bool dialed) {
  const std::shared_ptr<QueuePairConnection> connection = making.finish();
  peer.rdma_bulk->adopt(connection, dialed);
  limit_connections(connection.get());
}

// Those that were used longest ago make room, if nothing goes over them; if there are too few of those now, later.
// The newest stays, for what it was made for is only coming.
void VerbsTransport::limit_connections(const QueuePairConnection* newest) {
  std::vector<std::pair<std::uint64_t, std::shared_ptr<QueuePairConnection>>> idle;
  std::size_t count = 0;
  for (const auto& bulk : bulks()) {
    const std::shared_ptr<QueuePairConnection> connection = bulk->connection();
    if (!connection) continue;
    ++count;
    if (connection.get() != newest && bulk->idle()) idle.emplace_back(connection->last_use(), connection);
  }
  const std::size_t excess = count - std::min(count, max_connections_);
  std::sort(idle.begin(), idle.end());
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
