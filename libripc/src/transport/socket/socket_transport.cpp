// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/socket_transport.hpp"

#include "transport/socket/stream_bulk.hpp"

namespace ripc::socket {

using remote::Greeted;
using remote::GuardedSocket;
using remote::SessionPointer;

namespace {

void adopt(const SessionPointer& session, GuardedSocket socket) {
  socket.guard.reset();
  static_cast<StreamBulk&>(*session->bulk).adopt(std::move(socket.fd));
}

}  // namespace

SocketTransport::SocketTransport(TransportOptions options)
    : SessionTransport("socket", options), bulk_connections_(options.bulk_connections) {}

Result<std::shared_ptr<remote::Bulk>> SocketTransport::make_bulk(const SessionPointer&, remote::BulkHooks hooks) {
  return std::shared_ptr<remote::Bulk>(StreamBulk::create(
      loop(), std::move(hooks), {.connections = bulk_connections_, .stall_timeout = options().peer_timeout}));
}

void SocketTransport::connect_bulk(const SessionPointer& session) {
  // One at a time: the one that is being made serves both sides.
  if (session->bulk_dialer && !session->bulk_dialer->over()) return;
  session->bulk_dialer = remote::Dialer::dial(
      loop(), authenticator(), {session->remote}, hello(session, wire::session_control::Role::bulk), session->context,
      Deadline::after(options().peer_timeout), [this, session](Greeted greeted) {
        if (greeted.status.ok()) {
          bulk_accepted(session, std::move(greeted.socket));
        } else {
          bulk_failed(session);
        }
      });
}

void SocketTransport::bulk_accepted(const SessionPointer& session, GuardedSocket socket) {
  bulk_arrived(session);
  adopt(session, std::move(socket));
}

std::vector<std::string> SocketTransport::own_ips() const {
  if (!options().bind_address.empty()) return {options().bind_address};
  std::vector<std::string> ips = remote::own_addresses(options().interface);
  if (!dual_stack()) std::erase_if(ips, [](const std::string& ip) { return ip.find(':') != std::string::npos; });
  return ips;
}

}  // namespace ripc::socket
