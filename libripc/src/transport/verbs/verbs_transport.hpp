// SPDX-License-Identifier: Apache-2.0
// The RDMA transport. Sessions work as for sockets, but between addresses of RDMA devices. Long items go by RDMA, over
// connections that are made when they are first needed. Protocol: docs/wire.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/standing_timer.hpp"
#include "memory/pool.hpp"
#include "remote/session/rails.hpp"
#include "remote/session/session_transport.hpp"
#include "transport/verbs/bulk/connection_private_data.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"
#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/device/connection_manager.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/port_monitor.hpp"
#include "transport/verbs/device/registrar.hpp"
#include "transport/verbs/groups/group_memberships.hpp"
#include "transport/verbs/groups/group_sender.hpp"

namespace ripc::internal::verbs {

struct TransportOptions : remote::SessionOptions {
  std::size_t max_connections = 256;  // RDMA connections; one more closes the idle one used longest ago
  remote::RailOptions rails = {};
  bool multicast_groups = true;  // sends messages to groups by the network's multicast, unless there is a cluster key
};

class VerbsTransport final : public remote::SessionTransport {
 public:
  // `pool`: the context's, which outlives the transport.
  VerbsTransport(TransportOptions options, std::shared_ptr<const DeviceList> devices, memory::Pool& pool);
  ~VerbsTransport() override;

  Status start(spi::Host& host, EventLoop& loop) override;
  void stop() noexcept override;

  // Any. RDMA connections open now; for people and tests.
  std::size_t connection_count() const;
  // The objects that send datagrams from one address of this machine.
  struct Senders {
    std::shared_ptr<DatagramSender> datagrams;  // null: the address's device has no datagrams
    std::shared_ptr<GroupSender> groups;        // null: not used
  };
  // Any. The senders of an address; made when they are first needed.
  Result<Senders> senders_of(const std::string& ip);
  // Any. The port that accepts RDMA connections to this address of this machine; 0: none. For tests.
  std::uint16_t connection_port(const remote::Endpoint& address) const { return manager_->port_at(address); }
  // Any. The bulk sides of all sessions.
  std::vector<std::shared_ptr<RdmaBulk>> bulks() const;

 protected:
  Result<std::shared_ptr<remote::SessionLinks>> make_links(const remote::SessionPointer& session,
                                                           remote::BulkHooks hooks) override;
  std::unique_ptr<remote::LinkPort> make_port(const spi::PortOptions& port_options, EventSet& events,
                                              std::function<void(remote::LinkPort&)> closed) override;
  std::vector<std::string> own_ips() const override;

 private:
  // An address of the accepting side, and the attempts to connect to it.
  struct Rail {
    remote::Endpoint address;
    wire::session_control::Nonce nonce{};
    std::uint16_t port = 0;              // where the peer listens
    std::uint64_t number = 0;            // of the last attempt
    std::uint64_t attempt = 0;           // the name of the current one; 0: none
    unsigned failures = 0;               // attempts since one succeeded
    unsigned tcp_only_failures = 0;      // of these, those during which the control connection received something
    std::uint64_t control_received = 0;  // frames there when the last attempt ended or the first one began
  };
  // What a session needs to make connections and links.
  struct Peer final : remote::SessionLinks, std::enable_shared_from_this<Peer> {
    Peer(VerbsTransport& of, std::shared_ptr<RdmaBulk> rdma) noexcept : transport(of), rdma_bulk(std::move(rdma)) {}
    std::shared_ptr<remote::Bulk> bulk() const noexcept override { return rdma_bulk; }
    bool can_move_to(const remote::Endpoint& local) const override { return transport.carries(local); }
    void moved(const remote::SessionPointer& session) override { transport.moved(*session, *this); }
    std::vector<remote::Endpoint> candidate_endpoints(const remote::SessionPointer& session) override {
      return transport.candidate_endpoints(*session, *this);
    }
    Result<std::shared_ptr<remote::LinkChannel>> open(const remote::SessionPointer& session, ripc_service_id id,
                                                      Deadline deadline) override {
      return transport.open_link(session, *this, id, deadline);
    }
    std::vector<spi::RailReport> possible_rails(const remote::Session& session) const override {
      return transport.possible_rails(session, *this);
    }
    void connect_bulk(const remote::SessionPointer& session) override {
      transport.connect_bulk(session, shared_from_this());
    }
    // Connections of sockets only; RDMA connections come by the connection manager.
    void adopt_bulk(const remote::SessionPointer&, remote::SecureSocket connection) override {
      transport.adopt_socket(*this, std::move(connection));
    }
    bool handle(const remote::SessionPointer& session, const wire::session_control::Frame& frame) override;

    VerbsTransport& transport;
    const std::shared_ptr<RdmaBulk> rdma_bulk;
    // Some links have used datagrams of the devices at both ends of the session.
    std::atomic<bool> uses_datagrams{false};
    std::list<Rail> rails;                       // as the accepting side has listed them; the first is the session's
    std::vector<remote::Endpoint> socket_rails;  // the same, for addresses without RDMA
    bool wanted = false;                         // a connection is wanted as soon as `rails` is known
    bool comes_back = false;                     // the session comes back: try devices once before socket rails
    StandingTimer rail_timer;                    // when rails without a connection are tried again

    Rail* rail_to(const remote::Endpoint& address) noexcept;

    // The route to the peer's port that the session uses, or why there is none. Under peers_mutex_.
    struct Route {
      std::uint32_t moves = 0;  // of the session, so far
      wire::session_control::Gid gid{};
      std::uint32_t lid = 0;
      Result<AddressHandle> handle;
      Nanoseconds found_at = 0;
    };
    std::optional<Route> route;
  };
  // Two addresses between which TCP gets through but RDMA does not.
  struct Avoided {
    std::string local, remote;
    Status reason;
    Nanoseconds until = 0;
  };

  struct ConnectionAttempt;

  using PeerPointer = std::shared_ptr<Peer>;

  // ---- Links ----
  Result<std::shared_ptr<remote::LinkChannel>> open_link(const remote::SessionPointer& session, Peer& peer,
                                                         ripc_service_id id, Deadline deadline);
  Result<std::shared_ptr<remote::LinkChannel>> open_link_here(const remote::SessionPointer& session, Peer& peer,
                                                              ripc_service_id id, std::uint32_t moves,
                                                              Deadline deadline);
  Result<DatagramChannel::AttachmentPointer> attachment_of(const remote::SessionPointer& session, Peer& peer,
                                                           DatagramChannel::Question question, std::uint32_t moves,
                                                           const wire::session_control::DatagramOpened& opened);
  void move_link(const remote::SessionPointer& session, DatagramChannel& channel);
  bool link_moved(const remote::SessionPointer& session, Peer& peer,
                  const wire::session_control::DatagramOpened& opened);
  wire::session_control::DatagramOpened accept_datagrams(const remote::SessionPointer& session, Peer& peer,
                                                         const wire::session_control::OpenDatagram& frame);

  // ---- Connections ----
  bool port_received(const remote::SessionPointer& session, const PeerPointer& peer,
                     const wire::session_control::BulkPort& frame);
  void connect_bulk(const remote::SessionPointer& session, const PeerPointer& peer);
  Result<ConnectionManager::Acceptance> requested(const IdPointer& id, const PrivateData& private_data);
  void tell_ports(const remote::SessionPointer& session, Peer& peer);
  void tell_all_ports();
  void tell_rails(const remote::Session& session, Peer& peer) const;
  std::vector<spi::RailReport> possible_rails(const remote::Session& session, const Peer& peer) const;
  std::vector<remote::Rail> rails_of(const remote::Session& session, Peer& peer) const;
  void dial_rails(const remote::SessionPointer& session, const PeerPointer& peer);
  void look_at_rails(const remote::SessionPointer& session, const PeerPointer& peer);
  void look_at_rails_later(Peer& peer) noexcept;
  static std::vector<std::string> find_socket_names(const remote::RailOptions& rails, const DeviceList& devices);
  std::vector<std::string> socket_rail_ips() const;
  bool socket_rail_received(const remote::SessionPointer& session, const PeerPointer& peer,
                            const remote::Endpoint& address);
  std::vector<remote::Rail> socket_rails_of(const Peer& peer) const;
  void dial_socket_rails(const remote::SessionPointer& session, const PeerPointer& peer);
  void adopt_socket(Peer& peer, remote::SecureSocket connection);
  static bool is_dialed(const remote::Session& session, const Rail& rail) noexcept;
  static bool is_dialing(const remote::Session& session, const Peer& peer) noexcept;
  void dial(const remote::SessionPointer& session, const PeerPointer& peer, Rail& rail, const remote::Endpoint& local);
  void ask_for_connection(const remote::SessionPointer& session, const PeerPointer& peer, Rail& rail,
                          const remote::Endpoint& local, Nanoseconds patience, std::uint8_t read_depth);
  Result<ibv_qp*> prepare(const Peer& peer, ConnectionAttempt& attempt, const IdPointer& id);
  void made(const Peer& peer, ConnectionAttempt& attempt, bool dialed);
  void limit_connections(const QueuePairConnection* newest = nullptr);
  static bool leaves_by(const remote::Session& session, const std::vector<std::string>& ips);
  // Whether a session can continue from this address.
  bool carries(const remote::Endpoint& local) const;
  bool may_move(const remote::Session& session, Peer& peer) const;
  std::vector<remote::Endpoint> candidate_endpoints(const remote::Session& session, Peer& peer) const;
  void move_sessions(const std::vector<std::string>& ips);
  void moved(const remote::Session& session, Peer& peer);
  using Which = std::function<bool(const remote::Session&, Peer&)>;
  std::vector<std::pair<remote::SessionPointer, PeerPointer>> sessions_that(const Which& are_wanted) const;
  void lose_sessions(const Status& reason, const Which& are_lost);
  void ports_changed(const std::vector<std::string>& ips, bool up);
  void queue_lost(const DevicePointer& device);
  void device_gone(const DevicePointer& device);
  void ports_come();
  void groups_joined();
  Result<AddressHandle> handle_to(const remote::SessionPointer& session, Peer& peer, DatagramSender& sender,
                                  const wire::session_control::Gid& gid, std::uint32_t lid, std::uint32_t moves);
  Status try_datagrams(const remote::SessionPointer& session, DatagramChannel& channel,
                       wire::session_control::OpenDatagram question, std::uint32_t moves, Deadline deadline);
  void dial_failed(const remote::SessionPointer& session, const PeerPointer& peer, Rail& rail, const Status& reason);
  Status avoid(const remote::SessionPointer& session, const std::string& what);
  Status avoided(const remote::Session& session);
  std::shared_ptr<Registrar> registrar_of(const std::string& ip) const;
  std::shared_ptr<GroupSender> make_group_sender(const std::shared_ptr<DatagramSender>& datagrams);

  const std::size_t max_connections_;
  const std::shared_ptr<const DeviceList> devices_;
  PortMonitor ports_;
  memory::Pool& pool_;
  mutable std::mutex registrars_mutex_;
  std::vector<std::shared_ptr<Registrar>> registrars_;  // one for each device; under the mutex
  std::unique_ptr<ConnectionManager> manager_;
  // The responder's: when to check whether one of too many connections has become idle.
  EventLoop::TimerId limit_timer_ = 0;
  Backoff limit_pause_{10'000'000, 1'000'000'000};
  std::mutex senders_mutex_;
  std::vector<Senders> senders_;
  const remote::RailOptions rails_;
  const std::vector<std::string> socket_names_;  // interfaces that RIPC_RAILS names besides RDMA
  const bool multicast_groups_;
  std::unique_ptr<GroupMemberships> memberships_;  // the responder's; null: not used
  std::mutex peers_mutex_;                         // for the routes of peers, and the next one
  std::vector<Avoided> avoided_;
};

}  // namespace ripc::internal::verbs
