// SPDX-License-Identifier: Apache-2.0
// What the transports between hosts have in common: sessions of two contexts, each with a TCP connection for control,
// and links over UDP. How long items travel is for those that derive from it, and they may have links of their own.
// Protocol: docs/wire.md.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/cluster_key.hpp"
#include "base/peer_policy.hpp"
#include "remote/link/udp_channel.hpp"
#include "remote/link/udp_port.hpp"
#include "remote/session/authenticator.hpp"
#include "remote/session/dialer.hpp"
#include "remote/session/listener.hpp"
#include "remote/session/locator.hpp"
#include "remote/session/session.hpp"
#include "spi/port_table.hpp"
#include "spi/transport.hpp"
#include "wire/session_control.hpp"

namespace ripc::remote {

struct SessionOptions {
  std::uint64_t context = 0;  // this context's id
  std::uint32_t max_peers = 4096;
  Nanoseconds peer_timeout = 5'000'000'000;             // a peer that cannot be reached for so long is dead
  PortRange ports;                                      // TCP and UDP
  std::string bind_address;                             // an IP; empty: all addresses of the machine
  std::string interface;                                // whose addresses are told to others; empty: all
  std::shared_ptr<const ClusterKeys> keys;              // null: whoever can reach the port has it
  PeerPolicy peers;                                     // which users of this host are admitted
  std::size_t receive_buffer = std::size_t{256} << 10;  // bytes that a link's socket buffer has at least
};

class SessionTransport : public spi::Transport {
 public:
  ~SessionTransport() override;

  // Those that derive from it begin before, and end after.
  Status start(spi::Host& host, EventLoop& loop) override;
  void stop() noexcept override;
  spi::Address address() const override;
  Result<std::unique_ptr<spi::Port>> open_port(const spi::PortOptions& options, EventSet& events) override;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                 Deadline deadline) override;
  Status fence(const spi::Address& address, ripc_service_id id, std::uint64_t incarnation, Deadline deadline) override;
  void arena_gone(std::uint32_t) noexcept override {}

  // Handshakes refused because of a missing or wrong key, or of a user that is not admitted.
  std::uint64_t handshakes_refused() const noexcept { return authenticator_.refused(); }

 protected:
  SessionTransport(std::string_view name, SessionOptions options);

  // ---- For those that derive from it; in the responder, without locks held ----
  // The long side of a session whose control connection has just been made: session->local and ->remote are known.
  virtual Result<std::shared_ptr<Bulk>> make_bulk(const SessionPointer& session, BulkHooks hooks) = 0;
  // This side began the session and a bulk connection is wanted: makes one, unless one is being made. In the end the
  // bulk has it, or Bulk::dial_failed() is called.
  virtual void connect_bulk(const SessionPointer& session) = 0;
  // The peer has made a bulk connection with a handshake like that of a control connection.
  virtual void bulk_accepted(const SessionPointer& session, GuardedSocket socket) = 0;
  // The peer has said where it accepts bulk connections. False: this transport has no use for it.
  virtual bool bulk_port_told(const SessionPointer&, const wire::session_control::BulkPort&) { return false; }
  // Any thread. The receive side of a service.
  virtual std::unique_ptr<UdpPort> make_port(const spi::PortOptions& options, EventSet& events,
                                             std::function<void(LinkPort&)> closed);
  // Any thread. A link to a service of the peer.
  virtual Result<std::shared_ptr<LinkChannel>> open_link(const SessionPointer& session, ripc_service_id id,
                                                         Deadline deadline);
  // The peer wants a link over datagrams of a device. What may take a moment is done here, without locks held. Not
  // RIPC_OK: it is refused.
  virtual Status prepare_datagrams(const SessionPointer&, const wire::session_control::OpenDatagram&) {
    return RIPC_UNSUPPORTED;
  }
  // Then, that takes one more: the end of the link, which is in the port afterwards, and what the peer is told but
  // for request, link and incarnation. With the transport's mutex held.
  // RIPC_UNSUPPORTED: it should ask for UDP.
  virtual Result<std::pair<std::shared_ptr<LinkSource>, wire::session_control::DatagramOpened>> accept_datagrams(
      const SessionPointer&, const wire::session_control::OpenDatagram&, UdpPort&) {
    return RIPC_UNSUPPORTED;
  }
  // The peer asks the service of one of its links to listen to a multicast group, or no more. With the transport's
  // mutex held.
  virtual void asked_to_hear(UdpPort&, const std::shared_ptr<LinkSource>&, const wire::session_control::Hear&) {}
  virtual void asked_to_hear_no_more(UdpPort&, const LinkSource&, const wire::session_control::HearNoMore&) {}
  // The other end of a channel of this side has heard a greeting.
  virtual void heard(LinkChannel&, const wire::session_control::Heard&) {}
  // Calls `visit` for each port, with the transport's mutex held.
  void for_each_port(const std::function<void(UdpPort&)>& visit);
  // Any thread. The addresses of this machine that others may dial, best first.
  virtual std::vector<std::string> own_ips() const = 0;

  // Responder. own_ips() says something else than before.
  void own_ips_changed() noexcept { address_timer_.set(StandingTimer::kNow); }
  // Responder. Ends the session; what is under way over it ends with RIPC_PEER_DEAD.
  void lose(const SessionPointer& session, Status reason) noexcept;
  // Responder. The same if there is no memory for what is done.
  template <typename Work>
  void or_lose(const SessionPointer& session, Work&& work) noexcept {
    try {
      work();
    } catch (const std::bad_alloc&) {
      lose(session, RIPC_NO_MEMORY);
    }
  }
  // Any thread. Waits until `done` (checked under the mutex), the end of the transport or the deadline; false then.
  bool wait(const std::function<bool()>& done, Deadline deadline);
  // Responder. Loses the sessions that leave by these addresses of this machine. After std::bad_alloc some of them.
  void lose_sessions_at(std::span<const std::string> ips, const Status& reason);
  // There is a bulk connection, whoever has wished for it.
  void bulk_arrived(const SessionPointer& session) noexcept {
    session->bulk_wanted_until = 0;
    session->bulk_timer.set(StandingTimer::kNever);
  }
  // There is none: tells the bulk. Where the peer has wished for it, who would hear of that much later only,
  // connect_bulk() is called again soon.
  void bulk_failed(const SessionPointer& session) noexcept;
  // The session that a peer began with this name; null: none.
  SessionPointer session_named(std::uint64_t id) const;
  wire::session_control::Hello hello(const SessionPointer& session, wire::session_control::Role role) const;
  const SessionOptions& options() const noexcept { return options_; }
  EventLoop& loop() const noexcept { return *loop_; }
  Authenticator& authenticator() noexcept { return authenticator_; }
  // Any thread. Asks the peer for a link over datagrams; link and token of the question are filled in. Its answer, or
  // why there is none.
  Result<wire::session_control::DatagramOpened> ask_for_datagrams(const SessionPointer& session,
                                                                  wire::session_control::OpenDatagram& question,
                                                                  Deadline deadline);
  // The parts of a channel that are the same for every kind of link.
  LinkChannel::Parts parts_of(const SessionPointer& session, ripc_service_id id, std::uint32_t link,
                              std::uint64_t token, std::uint64_t incarnation, std::uint32_t credit);
  bool dual_stack() const noexcept { return listener_->dual_stack(); }

 private:
  // A question to a peer and, later, its answer.
  struct Question {
    SessionPointer session;
    bool answered = false;
    ripc_status status = RIPC_PENDING;
    wire::session_control::Opened opened;
    wire::session_control::DatagramOpened datagram_opened;
  };
  using QuestionPointer = std::shared_ptr<Question>;

  Result<std::shared_ptr<spi::Channel>> connect_over(const SessionPointer& session, ripc_service_id id,
                                                     Deadline deadline);
  template <typename T>
  Result<QuestionPointer> ask(const SessionPointer& session, T frame, Deadline deadline);

  // ---- Own addresses: responder ----
  spi::Address present_address() const;
  void interfaces_changed();
  void look_at_addresses();
  void say_goodbye() noexcept;

  // ---- Sessions (session_keeping.cpp) ----
  // The session with the context that the locators lead to, greeted; all their addresses are tried side by side.
  // Without `greeted`, perhaps not yet: what is sent to it follows the greeting.
  Result<SessionPointer> session_with(std::span<const Locator> locators, Deadline deadline, bool greeted = true);
  // Under the mutex. `text`: the locators, as they are written.
  SessionPointer known_session(std::span<const Locator> locators, const std::string& text) const;
  Result<SessionPointer> begin_session(std::span<const Locator> locators, const std::string& text,
                                       std::vector<Endpoint> endpoints);
  void dial(const SessionPointer& session, Deadline deadline);
  wire::session_control::HelloReply answer(const wire::session_control::Hello& hello, int socket);
  bool knows(const wire::session_control::Hello& hello);
  void accepted(Greeted greeted);
  void accept_session(Greeted greeted);
  SessionPointer make_session();
  Status begin(const SessionPointer& session, GuardedSocket socket, std::uint64_t acknowledged);
  SessionPointer incoming_session(std::uint64_t context, std::uint64_t id);
  void on_event(const SessionPointer& session, std::uint32_t events) noexcept;
  void read_frames(const SessionPointer& session, std::uint32_t events);
  void control_lost(const SessionPointer& session) noexcept;
  void try_again(const SessionPointer& session) noexcept;
  void try_again_soon(const SessionPointer& session) noexcept;
  void resumed(const SessionPointer& session, Greeted greeted) noexcept;
  void tick();
  void dial_bulk(const SessionPointer& session);
  void bulk_due(const SessionPointer& session) noexcept;

  // ---- Frames (session_messages.cpp). False: the peer broke the protocol. ----
  bool handle(const SessionPointer& session, std::span<const std::byte> frame);
  void on(const SessionPointer& session, const wire::session_control::Open& frame);
  bool on(const SessionPointer& session, const wire::session_control::Opened& frame);
  void on(const SessionPointer& session, const wire::session_control::CloseLink& frame);
  void on(const SessionPointer& session, const wire::session_control::LinkClosed& frame);
  void on(const SessionPointer& session, const wire::session_control::Control& frame);
  void on(const SessionPointer& session, const wire::session_control::Fence& frame);
  bool on(const SessionPointer& session, const wire::session_control::Fenced& frame);
  void on(const SessionPointer& session, const wire::session_control::Heartbeat& frame);
  bool on(const SessionPointer& session, const wire::session_control::WantBulk& frame);
  void on(const SessionPointer& session, const wire::session_control::Bye& frame);
  bool on(const SessionPointer& session, const wire::session_control::BulkPort& frame);
  void on(const SessionPointer& session, const wire::session_control::OpenDatagram& frame);
  bool on(const SessionPointer& session, const wire::session_control::DatagramOpened& frame);
  void on(const SessionPointer& session, const wire::session_control::Hear& frame);
  void on(const SessionPointer& session, const wire::session_control::HearNoMore& frame);
  void on(const SessionPointer& session, const wire::session_control::Heard& frame);
  void on(const SessionPointer& session, const wire::session_control::Prove& frame);
  void on(const SessionPointer& session, const wire::session_control::Proved& frame);
  bool on(const SessionPointer& session, const wire::session_control::Streamed& frame);
  void answer_proof(const std::shared_ptr<UdpSource>& source, Nanoseconds until, Backoff pause);
  template <typename Use>
  void with_source(const SessionPointer& session, std::uint32_t link, Use&& use);
  Result<UdpPort*> port_for(const SessionPointer& session, ripc_service_id service, std::uint32_t link);
  template <typename Frame, typename Keep>
  bool answered(const SessionPointer& session, const Frame& frame, Keep&& keep);
  std::uint32_t next_link();
  Status accept_datagram_link(const SessionPointer& session, const wire::session_control::OpenDatagram& frame,
                              wire::session_control::DatagramOpened& answer);
  Result<wire::session_control::Opened> accept_link(const SessionPointer& session,
                                                    const wire::session_control::Open& frame);
  template <typename Make>
  static Status arrive(Session& session, std::uint32_t link, ripc_service_id service, Make&& make);
  void nudge_port(ripc_service_id service) noexcept;  // under the mutex
  void link_failed(LinkChannel& channel) noexcept;

  SessionOptions options_;
  std::string host_identity_;
  Authenticator authenticator_;
  spi::Host* host_ = nullptr;
  EventLoop* loop_ = nullptr;
  std::unique_ptr<Listener> listener_;
  StandingTimer timer_;
  UniqueFd watch_;  // of the interfaces; invalid: the addresses are looked up each time
  StandingTimer address_timer_;
  bool settling_ = false;  // the responder's: the addresses are looked at in a moment

  mutable std::mutex mutex_;
  spi::Address address_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::uint64_t next_request_ = 1;
  std::uint32_t next_link_ = 1;
  std::vector<SessionPointer> sessions_;
  std::unordered_map<std::string, SessionPointer> outgoing_;  // by what they were dialed by
  std::unordered_map<std::uint64_t, QuestionPointer> questions_;
  spi::PortTable<UdpPort> ports_;
};

}  // namespace ripc::remote
