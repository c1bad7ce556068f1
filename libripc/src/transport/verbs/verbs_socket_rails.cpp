// SPDX-License-Identifier: Apache-2.0
// Rails of sockets in addition to those of RDMA: which ones exist, and their connections.
#include <algorithm>

#include "transport/verbs/verbs_transport.hpp"

namespace ripc::internal::verbs {

using remote::SessionPointer;

namespace {

// Of one peer.
constexpr std::size_t kMostSocketRails = 16;

bool has(const std::vector<std::string>& ips, const remote::Endpoint& address) {
  return std::ranges::find(ips, address.ip()) != ips.end();
}

}  // namespace

// The interfaces without RDMA that RIPC_RAILS names along with some that have it. They stay rails of sockets when the
// others lose their devices.
std::vector<std::string> VerbsTransport::find_socket_names(const remote::RailOptions& rails,
                                                           const DeviceList& devices) {
  std::vector<std::string> names = rails.names;
  const std::vector<DevicePort> ports = devices.ports();
  std::erase_if(names, [&](const std::string& name) {
    const std::vector<std::string> own = remote::own_addresses(name);
    return std::ranges::any_of(ports, [&](const DevicePort& port) {
      return port.device->name == name || std::ranges::find(own, port.ip) != own.end();
    });
  });
  if (names.size() == rails.names.size()) names.clear();
  return names;
}

// The addresses of this machine for rails of sockets.
std::vector<std::string> VerbsTransport::socket_rail_ips() const {
  std::vector<std::string> ips;
  for (const std::string& name : socket_names_) {
    const std::vector<std::string> own = remote::own_addresses(name);
    ips.insert(ips.end(), own.begin(), own.end());
  }
  std::erase_if(ips, [&](const std::string& ip) { return devices_->port_of(ip).has_value(); });
  return ips;
}

bool VerbsTransport::socket_rail_received(const SessionPointer& session, const PeerPointer& peer,
                                          const remote::Endpoint& address) {
  auto& known = peer->socket_rails;
  if (std::ranges::any_of(known, [&](const remote::Endpoint& one) { return one.same_ip(address); })) return true;
  if (known.size() == kMostSocketRails) return false;
  // The peer accepts connections at the same port of all its addresses.
  known.push_back(address.with_port(session->remote().port()));
  tell_rails(*session, *peer);
  // If a transfer was faster than this frame, the RDMA connections have already been dialed.
  if (peer->rdma_bulk->connection() || is_dialing(*session, *peer)) dial_rails(session, peer);
  return true;
}

// Addresses that the peer names are reached only over this side's own rails of sockets.
std::vector<remote::Rail> VerbsTransport::socket_rails_of(const Peer& peer) const {
  if (peer.socket_rails.empty()) return {};
  const std::vector<std::string> own = socket_rail_ips();
  std::vector<remote::Rail> found =
      remote::find_rails(peer.socket_rails, rails_.most,
                         [&](const remote::Endpoint& local, const std::string&) { return has(own, local); });
  // A peer on this machine has none.
  std::erase_if(found,
                [&](const remote::Rail& rail) { return !has(own, rail.local) || rail.local.same_ip(rail.remote); });
  return found;
}

// Dials a connection over each rail that has none.
void VerbsTransport::dial_socket_rails(const SessionPointer& session, const PeerPointer& peer) {
  auto& dialers = session->bulk_dialers;
  std::erase_if(dialers, [](const auto& dialer) { return dialer->over(); });
  for (const remote::Rail& rail : socket_rails_of(*peer)) {
    const bool is_under_way =
        std::ranges::any_of(dialers, [&](const auto& dialer) { return dialer->dials(rail.remote); });
    if (is_under_way || peer->rdma_bulk->sockets().has(rail.remote)) continue;
    dialers.push_back(remote::Dialer::dial(
        loop(), authenticator(), {rail.remote}, greeting(session, wire::session_control::Role::bulk), session->context,
        Deadline::after(options().peer_timeout), [this, peer](remote::Greeted greeted) {
          if (greeted.status.ok()) adopt_socket(*peer, std::move(greeted.connection));
        }));
  }
}

// With iWARP, some connections only test whether TCP gets through; close them.
void VerbsTransport::adopt_socket(Peer& peer, remote::SecureSocket connection) {
  if (!has(socket_rail_ips(), remote::Endpoint::local_of(connection.fd()))) return;
  connection.unguard();
  peer.rdma_bulk->adopt_socket(std::move(connection));
}

}  // namespace ripc::internal::verbs
