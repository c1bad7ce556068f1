// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/socket_transport.hpp"

#include <algorithm>

#include "base/standing_timer.hpp"
#include "remote/link/udp_port.hpp"
#include "transport/socket/stream_bulk.hpp"

namespace ripc::internal::socket {

using remote::Greeted;
using remote::SessionPointer;

// Links over UDP, long items over TCP.
class SocketTransport::Links final : public remote::SessionLinks {
 public:
  Links(SocketTransport& transport, const SessionPointer& session, remote::BulkHooks hooks)
      : transport_(transport),
        bulk_(StreamBulk::create(
            transport.loop(), std::move(hooks),
            {.connections = transport.bulk_connections_, .stall_timeout = transport.options().peer_timeout})) {
    rail_timer_.make(transport.loop(), [this, weak = std::weak_ptr<remote::Session>(session)] {
      // The session owns this object.
      if (const SessionPointer strong = weak.lock()) look_at_rails(strong);
    });
  }

  std::shared_ptr<remote::Bulk> bulk() const noexcept override { return bulk_; }
  bool can_move_to(const remote::Endpoint&) const override { return true; }
  Result<std::shared_ptr<remote::LinkChannel>> open(const SessionPointer& session, ripc_service_id id,
                                                    Deadline deadline) override {
    return transport_.open_udp_link(session, id, deadline);
  }
  std::vector<spi::RailReport> possible_rails(const remote::Session& session) const override {
    std::vector<spi::RailReport> rails;
    for (const remote::Rail& rail : find_rails(session)) {
      rails.push_back({.device = remote::interface_of(rail.local), .local = rail.local.ip(), .peer = rail.remote.ip()});
    }
    return rails;
  }
  // Dials one connection over each rail that has too few.
  void connect_bulk(const SessionPointer& session) override {
    is_asked_ = true;
    dial_rails(session);
    if (session->bulk_dialers.empty()) none_made(session);
  }
  void dial_rails(const SessionPointer& session) {
    auto& dialers = session->bulk_dialers;
    std::erase_if(dialers, [](const auto& dialer) { return dialer->over(); });
    for (const remote::Rail& rail : find_rails(*session)) {
      const bool is_under_way =
          std::any_of(dialers.begin(), dialers.end(), [&](const auto& dialer) { return dialer->dials(rail.remote); });
      if (bulk_->connection_count() + dialers.size() >= kMaxBulkConnections) break;
      if (!is_under_way && bulk_->connections_to(rail.remote) < transport_.bulk_connections_)
        dialers.push_back(dial(session, rail.remote));
    }
    // A rail whose interface is down does not count now.
    if (session->remotes().size() > 1 && transport_.rails_.most > 1) look_again();
  }
  void adopt_bulk(const SessionPointer& session, remote::SecureSocket connection) override {
    is_asked_ = false;
    transport_.bulk_arrived(session);
    connection.unguard();
    bulk_->adopt(std::move(connection));
  }
  bool handle(const SessionPointer&, const wire::session_control::Frame&) override { return false; }  // there are none

 private:
  // How many times within the peer timeout a rail without a connection is tried again, while bytes move over others.
  static constexpr Nanoseconds kRailLooks = 16;

  std::vector<remote::Rail> find_rails(const remote::Session& session) const {
    const auto can_be = [&](const remote::Endpoint&, const std::string& interface) {
      return transport_.rails_.allows(interface);
    };
    return remote::find_rails(session.remotes(), transport_.rails_.most, can_be);
  }
  std::shared_ptr<remote::Dialer> dial(const SessionPointer& session, const remote::Endpoint& remote) {
    return remote::Dialer::dial(transport_.loop(), transport_.authenticator(), {remote},
                                transport_.greeting(session, wire::session_control::Role::bulk), session->context,
                                Deadline::after(transport_.options().peer_timeout), [this, session](Greeted greeted) {
                                  if (greeted.status.ok()) {
                                    adopt_bulk(session, std::move(greeted.connection));
                                  } else if (std::all_of(session->bulk_dialers.begin(), session->bulk_dialers.end(),
                                                         [](const auto& dialer) { return dialer->over(); })) {
                                    none_made(session);
                                  }
                                });
  }
  void none_made(const SessionPointer& session) {
    if (std::exchange(is_asked_, false)) transport_.bulk_failed(session);
  }
  void look_at_rails(const SessionPointer& session) {
    if (session->lost) return;
    const BulkCounters counters = bulk_->counters();
    const std::uint64_t moved = counters.bytes_sent + counters.bytes_received;
    if (moved != std::exchange(moved_, moved)) {
      transport_.or_lose(session, [&] { dial_rails(session); });
    } else {
      look_again();
    }
  }
  void look_again() noexcept { rail_timer_.set(monotonic_now() + transport_.options().peer_timeout / kRailLooks); }

  SocketTransport& transport_;
  const std::shared_ptr<StreamBulk> bulk_;
  StandingTimer rail_timer_;
  bool is_asked_ = false;    // the bulk waits for an answer
  std::uint64_t moved_ = 0;  // total when the rails were last looked at
};

SocketTransport::SocketTransport(TransportOptions options)
    : SessionTransport("socket", options), bulk_connections_(options.bulk_connections), rails_(options.rails) {}

Result<std::shared_ptr<remote::SessionLinks>> SocketTransport::make_links(const SessionPointer& session,
                                                                          remote::BulkHooks hooks) {
  return std::shared_ptr<remote::SessionLinks>(std::make_shared<Links>(*this, session, std::move(hooks)));
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
