// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_transport.hpp"

#include <algorithm>
#include <numeric>

#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {

using remote::SessionPointer;

VerbsTransport::VerbsTransport(TransportOptions options, std::shared_ptr<const DeviceList> devices, memory::Pool& pool)
    : SessionTransport("verbs", options),
      max_connections_(options.max_connections),
      devices_(std::move(devices)),
      ports_(devices_),
      pool_(pool),
      rails_(options.rails),
      socket_names_(find_socket_names(rails_, *devices_)),
      multicast_groups_(options.multicast_groups && !options.credentials.keys) {
  for (const DevicePointer& device : devices_->devices())
    registrars_.push_back(std::make_shared<Registrar>(device, pool));
  pool_.set_registration_observer([this](std::span<std::byte> range) {
    const std::lock_guard lock(registrars_mutex_);
    for (const auto& registrar : registrars_) registrar->registration_gone(range);
  });
  pool_.set_arena_observer(this, [this](std::uint32_t arena) {
    const std::lock_guard lock(registrars_mutex_);
    for (const auto& registrar : registrars_) registrar->arena_gone(arena);
  });
}

VerbsTransport::~VerbsTransport() {
  pool_.set_registration_observer({});
  pool_.set_arena_observer(this, {});
}

Status VerbsTransport::start(spi::Host& host, EventLoop& loop) {
  std::vector<std::string> ips;
  for (const DevicePort& port : devices_->ports()) ips.push_back(port.ip);
  Result<std::unique_ptr<ConnectionManager>> manager = ConnectionManager::start(
      devices_->library(), loop, ips,
      [this](const IdPointer& id, const PrivateData& private_data) { return requested(id, private_data); });
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

bool VerbsTransport::carries(const remote::Endpoint& local) const {
  if (const std::optional<DevicePort> port = devices_->port_of(local.ip())) return ports_.is_up(*port);
  const std::vector<std::string> ips = socket_rail_ips();
  return std::ranges::find(ips, local.ip()) != ips.end();
}

std::vector<std::pair<SessionPointer, VerbsTransport::PeerPointer>> VerbsTransport::sessions_that(
    const Which& are_wanted) const {
  std::vector<std::pair<SessionPointer, PeerPointer>> wanted;
  for (const SessionPointer& session : sessions()) {
    PeerPointer peer = std::static_pointer_cast<Peer>(session->links);
    if (are_wanted(*session, *peer)) wanted.emplace_back(session, std::move(peer));
  }
  return wanted;
}

// After std::bad_alloc, it has lost only some of them.
void VerbsTransport::lose_sessions(const Status& reason, const Which& are_lost) {
  for (const auto& [session, peer] : sessions_that(are_lost)) lose(session, reason);
}

// When a port goes down, its peers are looked for on other paths at once, not only after their timeout, unless their
// sessions may move. Long items of other sessions continue over the remaining rails.
void VerbsTransport::ports_changed(const std::vector<std::string>& ips, bool up) {
  own_ips_changed();
  {
    const std::lock_guard lock(peers_mutex_);
    std::erase_if(avoided_, [&](const Avoided& one) { return std::ranges::find(ips, one.local) != ips.end(); });
  }
  if (up) {
    tell_all_ports();
    return;
  }
  lose_sessions(
      Status(RIPC_PEER_DEAD, "The port of the RDMA device is down: check the cable."),
      [&](const remote::Session& session, Peer& peer) { return leaves_by(session, ips) && !may_move(session, peer); });
  move_sessions(ips);
  for (const auto& bulk : bulks()) bulk->cut_at(ips);
}

// Tells the peers of those sessions that the peer began.
void VerbsTransport::tell_all_ports() {
  const auto are_incoming = [](const remote::Session& session, const Peer&) { return session.incoming; };
  for (const auto& [session, peer] : sessions_that(are_incoming)) tell_ports(session, *peer);
}

// Handles the loss of queues for datagrams; a connection ends by itself. Peers know the queues by their numbers, so
// whatever used them starts anew.
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
  for_each_port([&](remote::LinkPort& port) {
    for (std::string& ip : static_cast<VerbsPort&>(port).give_up(*device, true)) ips.push_back(std::move(ip));
  });
  lose_sessions(
      Status(RIPC_PEER_DEAD,
             "A queue of the RDMA device " + device->name + " has stopped with an error: it is recreated. See dmesg."),
      [&](const remote::Session& session, const Peer& peer) { return peer.uses_datagrams && leaves_by(session, ips); });
}

// Owners of a part of the device release it when they notice that.
void VerbsTransport::device_gone(const DevicePointer& device) {
  lose_sessions(Status(RIPC_PEER_DEAD, "The RDMA device " + device->name + " was removed."),
                [&](const remote::Session& session, Peer& peer) {
                  const std::shared_ptr<Registrar> used = peer.rdma_bulk->registrar();
                  if (!used || used->device() != device) return false;
                  const std::shared_ptr<Registrar> present = registrar_of(session.local().ip());
                  if (present) peer.rdma_bulk->move_to(present);  // it has moved before
                  return !present && !may_move(session, peer);
                });
  manager_->forget(*device);
  if (memberships_) memberships_->forget(*device);
  std::vector<Senders> gone;
  {
    const std::lock_guard lock(senders_mutex_);
    const auto first = std::stable_partition(senders_.begin(), senders_.end(), [&](const Senders& senders) {
      return senders.datagrams->port().device != device;
    });
    gone.assign(first, senders_.end());
    senders_.erase(first, senders_.end());
  }
  for (const Senders& senders : gone) {
    if (senders.groups) senders.groups->give_up();
  }
  gone.clear();
  for_each_port([&](remote::LinkPort& port) { (void)static_cast<VerbsPort&>(port).give_up(*device, false); });
  const std::lock_guard lock(registrars_mutex_);
  std::erase_if(registrars_, [&](const auto& registrar) { return registrar->device() == device; });
}

void VerbsTransport::ports_come() {
  for (const DevicePort& port : devices_->ports()) {
    {
      const std::lock_guard lock(registrars_mutex_);
      if (std::ranges::none_of(registrars_, [&](const auto& registrar) { return registrar->device() == port.device; }))
        registrars_.push_back(std::make_shared<Registrar>(port.device, pool_));
    }
    // Where this side cannot listen, it connects to the peers that want a connection.
    remote::Endpoint address;
    if (remote::Endpoint::parse(port.ip, 0, address) && manager_->port_at(address) == 0)
      (void)manager_->listen(port.ip);
  }
  own_ips_changed();
  tell_all_ports();
}

std::shared_ptr<Registrar> VerbsTransport::registrar_of(const std::string& ip) const {
  const std::optional<DevicePort> port = devices_->port_of(ip);
  if (!port) return nullptr;
  const std::lock_guard lock(registrars_mutex_);
  const auto found =
      std::ranges::find_if(registrars_, [&](const auto& registrar) { return registrar->device() == port->device; });
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
  if (session->incoming) tell_ports(session, *peer);
  peer->rail_timer.make(loop(), [this, again = std::weak_ptr(session), timed = std::weak_ptr(peer)] {
    const SessionPointer alive = again.lock();
    const PeerPointer one = timed.lock();
    if (alive && one) look_at_rails(alive, one);
  });
  return std::shared_ptr<remote::SessionLinks>(std::move(peer));
}

std::vector<std::shared_ptr<RdmaBulk>> VerbsTransport::bulks() const {
  std::vector<std::shared_ptr<RdmaBulk>> result;
  for (const SessionPointer& session : sessions())
    result.push_back(std::static_pointer_cast<Peer>(session->links)->rdma_bulk);
  return result;
}

std::size_t VerbsTransport::connection_count() const {
  const std::vector<std::shared_ptr<RdmaBulk>> all = bulks();
  return std::accumulate(all.begin(), all.end(), std::size_t{0},
                         [](std::size_t sum, const auto& bulk) { return sum + bulk->connection_count(); });
}

}  // namespace ripc::internal::verbs
