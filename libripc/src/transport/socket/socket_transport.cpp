// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/socket_transport.hpp"

#include "remote/link/udp_port.hpp"
#include "transport/socket/stream_bulk.hpp"

namespace ripc::internal::socket {

using remote::Greeted;
using remote::GuardedSocket;
using remote::SessionPointer;

// Links over UDP, long items over TCP.
class SocketTransport::Links final : public remote::SessionLinks {
 public:
  Links(SocketTransport& transport, remote::BulkHooks hooks)
      : transport_(transport),
        bulk_(StreamBulk::create(
            transport.loop(), std::move(hooks),
            {.connections = transport.bulk_connections_, .stall_timeout = transport.options().peer_timeout})) {}

  std::shared_ptr<remote::Bulk> bulk() const noexcept override { return bulk_; }
  Result<std::shared_ptr<remote::LinkChannel>> open(const SessionPointer& session, ripc_service_id id,
                                                    Deadline deadline) override {
    return transport_.open_udp_link(session, id, deadline);
  }
  void connect_bulk(const SessionPointer& session) override {
    // One at a time: the one that is being made serves both sides.
    if (session->bulk_dialer && !session->bulk_dialer->over()) return;
    session->bulk_dialer =
        remote::Dialer::dial(transport_.loop(), transport_.authenticator(), {session->remote},
                             transport_.hello(session, wire::session_control::Role::bulk), session->context,
                             Deadline::after(transport_.options().peer_timeout), [this, session](Greeted greeted) {
                               if (greeted.status.ok()) {
                                 adopt_bulk(session, std::move(greeted.socket));
                               } else {
                                 transport_.bulk_failed(session);
                               }
                             });
  }
  void adopt_bulk(const SessionPointer& session, GuardedSocket socket) override {
    transport_.bulk_arrived(session);
    socket.guard.reset();
    bulk_->adopt(std::move(socket.fd));
  }
  bool handle(const SessionPointer&, const wire::session_control::Frame&) override { return false; }  // there are none

 private:
  SocketTransport& transport_;
  const std::shared_ptr<StreamBulk> bulk_;
};

SocketTransport::SocketTransport(TransportOptions options)
    : SessionTransport("socket", options), bulk_connections_(options.bulk_connections) {}

Result<std::shared_ptr<remote::SessionLinks>> SocketTransport::make_links(const SessionPointer&,
                                                                          remote::BulkHooks hooks) {
  return std::shared_ptr<remote::SessionLinks>(std::make_shared<Links>(*this, std::move(hooks)));
}

std::unique_ptr<remote::LinkPort> SocketTransport::make_port(const spi::PortOptions& port_options, EventSet& events,
                                                             std::function<void(remote::LinkPort&)> closed) {
  return std::make_unique<remote::UdpPort>(port_options, events, loop(), options().receive_buffer, std::move(closed));
}

std::vector<std::string> SocketTransport::own_ips() const {
  if (!options().bind_address.empty()) return {options().bind_address};
  std::vector<std::string> ips = remote::own_addresses(options().interface);
  if (!dual_stack()) std::erase_if(ips, [](const std::string& ip) { return ip.find(':') != std::string::npos; });
  return ips;
}

}  // namespace ripc::internal::socket
