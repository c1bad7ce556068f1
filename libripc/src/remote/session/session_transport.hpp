// SPDX-License-Identifier: Apache-2.0
// What the transports between hosts have in common: sessions of two contexts, each with a TCP connection for control,
// and links over UDP. For each session a transport hands over its SessionLinks, which carry long items and may have
// links of their own. Protocol: docs/wire.md.
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

#include "base/peer_policy.hpp"
#include "base/random.hpp"
#include "remote/link/link_channel.hpp"
#include "remote/link/link_port.hpp"
#include "remote/link/link_socket.hpp"
#include "remote/session/authenticator.hpp"
#include "remote/session/dialer.hpp"
#include "remote/session/listener.hpp"
#include "remote/session/locator.hpp"
#include "remote/session/session.hpp"
#include "remote/session/session_links.hpp"
#include "security/credentials.hpp"
#include "spi/peer.hpp"
#include "spi/port_table.hpp"
#include "spi/question_table.hpp"
#include "spi/transport.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

struct SessionOptions {
  std::uint64_t context = 0;  // this context's id
  std::uint32_t max_peers = 4096;
  Nanoseconds peer_timeout = 5'000'000'000;  // a peer that cannot be reached for so long is dead
  PortRange ports;                           // TCP and UDP
  std::string bind_address;                  // an IP; empty: all addresses of the machine
  std::string interface;                     // whose addresses are told to others; empty: all
  security::Credentials credentials;         // no keys: any process that reaches the port is a peer
  Encryption encryption = Encryption::automatic;
  PeerPolicy peers;                                     // which users of this host are admitted
  bool streams = true;                                  // links may have a connection of their own
  std::size_t receive_buffer = std::size_t{256} << 10;  // bytes that a link's socket buffer has at least
};

class SessionTransport : public spi::Transport {
 public:
  ~SessionTransport() override;

  // A derived class starts its own parts before this call, and stops them after stop().
  Status start(spi::Host& host, EventLoop& loop) override;
  void stop() noexcept override;
  spi::Address address() const override;
  bool may_lead(const spi::Address&) const noexcept override { return true; }  // only the peer knows
  Result<std::unique_ptr<spi::Port>> open_port(const spi::PortOptions& options, EventSet& events) override;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                 Deadline deadline) override;
  Status fence(const spi::Address& address, ripc_service_id id, std::uint64_t incarnation, Deadline deadline) override;

  const security::Counters& counters() const noexcept { return *options_.credentials.counters; }

 protected:
  SessionTransport(std::string_view name, SessionOptions options);

  // ---- What a transport hands over ----
  // Responder, without locks held. For a session whose control connection has just been made: session->local() and
  // ->remote are known.
  virtual Result<std::shared_ptr<SessionLinks>> make_links(const SessionPointer& session, BulkHooks hooks) = 0;
  // Any thread. The receive side of a service.
  virtual std::unique_ptr<LinkPort> make_port(const spi::PortOptions& options, EventSet& events,
                                              std::function<void(LinkPort&)> closed) = 0;
  // Any thread. The addresses of this machine that others may dial, best first.
  virtual std::vector<std::string> own_ips() const = 0;

  // ---- What a transport and its links use ----
  // Any thread. Opens a link over UDP.
  Result<std::shared_ptr<LinkChannel>> open_udp_link(const SessionPointer& session, ripc_service_id id,
                                                     Deadline deadline);
  // Any thread. Sends a question and waits for the answer, which the peer gives with the frame that handle() passes to
  // answered(). Any status but RIPC_OK: there is no answer, or the answer has that status.
  template <typename Answer, typename Ask>
  Result<Answer> ask(const SessionPointer& session, Ask frame, Deadline deadline) {
    const auto question = std::make_shared<Questions::Question>(session);
    {
      const std::lock_guard lock(mutex_);
      if (session->lost) return RIPC_PEER_DEAD;
      frame.request = questions_.add(question);
    }
    // No memory is needed to wait.
    const ripc_status sent = session->stream.send(frame);
    const bool is_over = sent == RIPC_OK && wait([&] { return question->answered; }, deadline);
    const std::lock_guard lock(mutex_);
    Status status = questions_.take_out(frame.request, *question, sent, is_over);
    if (status == RIPC_TIMEOUT) return spi::not_answering();
    if (!status.ok()) return status;
    if (const auto* const expected = std::get_if<Answer>(&question->answer)) return *expected;
    return RIPC_CORRUPT;
  }
  // A link of this side that has no channel yet. The peer may have opened it, so it is closed unless it gets one.
  class NewLink {
   public:
    explicit NewLink(const SessionPointer& session) noexcept : session_(session) {}
    ~NewLink() { give_up(); }
    NewLink(const NewLink&) = delete;
    NewLink& operator=(const NewLink&) = delete;
    const SessionPointer& session() const noexcept { return session_; }
    // It is going to be asked for. False: there are too many. Throws std::bad_alloc.
    bool expect(std::uint32_t link) {
      if (!session_->expect_channel(link, spi::most_links())) return false;
      link_ = link;
      return true;
    }
    void was_refused() noexcept { (void)session_->remove_channel(std::exchange(link_, 0)); }
    void has_channel() noexcept { link_ = 0; }
    void give_up() noexcept {
      if (link_ == 0) return;
      (void)session_->remove_channel(link_);
      session_->stream.tell(wire::session_control::CloseLink{.link = std::exchange(link_, 0)});
    }

   private:
    const SessionPointer& session_;
    std::uint32_t link_ = 0;
  };
  // The same for a link, whose number and token are filled in.
  template <typename Answer, typename Open>
  Result<Answer> ask_for_link(NewLink& link, Open& open, Deadline deadline) {
    open.token = random_u64();
    open.link = next_link();
    // The peer may close the link before the answer is looked at.
    if (!link.expect(open.link)) return spi::too_many_links();
    Result<Answer> opened = ask<Answer>(link.session(), open, deadline);
    if (!opened.ok() && opened.status().code() != RIPC_TIMEOUT) link.was_refused();
    return opened;
  }
  // Responder. An answer of the peer. False: no honest peer can have sent it.
  template <typename Answer>
  bool answered(const SessionPointer& session, const Answer& answer) {
    return answered(session, answer.request, spi::checked_answer(answer.status, RIPC_UNSUPPORTED), answer);
  }
  // Responder. A port takes one more link of the peer's: make(port) puts its source into the port and returns it, with
  // the transport's mutex held. RIPC_NO_MEMORY: neither the port nor the session has it.
  using MakeSource = std::function<Result<std::shared_ptr<LinkSource>>(LinkPort&)>;
  Status accept(const SessionPointer& session, std::uint32_t link, ripc_service_id service, const MakeSource& make);
  // Responder. Calls move(port, source) for an open link of the peer, with the transport's mutex held, and returns its
  // result. RIPC_NO_SERVICE: it is not open, or leads elsewhere.
  using MoveSource = std::function<Status(LinkPort&, LinkSource&)>;
  Status move(const SessionPointer& session, std::uint32_t link, ripc_service_id service, const MoveSource& move);

  // Responder. The result of own_ips() has changed.
  void own_ips_changed() noexcept { address_timer_.set(StandingTimer::kNow); }
  // Responder. Ends the session; what is under way over it ends with RIPC_PEER_DEAD.
  void lose(const SessionPointer& session, Status reason) noexcept;
  // Responder. Ends its control connection, which is to be made again within half of the peer timeout, or `patience`.
  void control_lost(const SessionPointer& session) noexcept { control_lost(session, options_.peer_timeout / 2); }
  void control_lost(const SessionPointer& session, Nanoseconds patience) noexcept;
  // Responder. Does the work, and loses the session if there is no memory for it.
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
  // There is a bulk connection, whichever side has asked for it.
  void bulk_arrived(const SessionPointer& session) noexcept {
    session->bulk_wanted_until = 0;
    session->bulk_timer.set(StandingTimer::kNever);
  }
  // There is no bulk connection: tells the bulk. A peer that has asked for one would learn of that much later, so
  // connect_bulk() is called again soon.
  void bulk_failed(const SessionPointer& session) noexcept;
  // The session that a peer began with this name; null: none.
  SessionPointer session_named(std::uint64_t id) const;
  // Any thread. The sessions that are greeted. Throws std::bad_alloc.
  std::vector<SessionPointer> sessions() const;
  // Any thread. Calls visit() for each port that make_port() has made, with the transport's mutex held.
  template <typename Visit>
  void for_each_port(Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    ports_.for_each(visit);
  }
  Greeting greeting(const SessionPointer& session, wire::session_control::Role role, std::uint64_t number = 0) const;
  const SessionOptions& options() const noexcept { return options_; }
  EventLoop& loop() const noexcept { return *loop_; }
  Authenticator& authenticator() noexcept { return authenticator_; }
  // The parts of a channel that are the same for every kind of link.
  LinkChannel::Parts parts_of(const SessionPointer& session, ripc_service_id id, std::uint32_t link,
                              std::uint64_t token, std::uint64_t incarnation, std::uint32_t credit);
  bool dual_stack() const noexcept { return listener_->dual_stack(); }

 private:
  using Questions = spi::QuestionTable<SessionPointer, wire::session_control::Frame>;

  bool answered(const SessionPointer& session, std::uint64_t request, ripc_status status,
                const wire::session_control::Frame& answer);
  Result<std::shared_ptr<spi::Channel>> connect_over(const SessionPointer& session, ripc_service_id id,
                                                     Deadline deadline);

  // ---- Own addresses: responder ----
  spi::Address present_address() const;
  void interfaces_changed();
  void look_at_addresses();
  void say_goodbye() noexcept;

  // ---- Sessions (session_keeping.cpp) ----
  // The session with the context that the locators lead to, greeted; all their addresses are tried concurrently. It is
  // with that member, unless another one is there. Without `greeted`, perhaps before the greeting: what is sent then
  // follows it.
  Result<SessionPointer> session_with(std::span<const Locator> locators, const std::string& member, Deadline deadline,
                                      bool greeted = true);
  // Under the mutex. `text`: the locators, as they are written.
  SessionPointer known_session(std::span<const Locator> locators, const std::string& member,
                               const std::string& text) const;
  Result<SessionPointer> begin_session(std::span<const Locator> locators, const std::string& text,
                                       std::vector<Endpoint> endpoints);
  void dial(const SessionPointer& session, Deadline deadline);
  Result<std::optional<SessionSecret>> find_secret(const wire::session_control::Hello& hello) const;
  wire::session_control::HelloReply answer(const wire::session_control::Hello& hello, int socket);
  void accepted(Greeted greeted);
  void accept_session(Greeted greeted);
  SessionPointer make_session();
  Status begin(const SessionPointer& session, SecureSocket connection, std::uint64_t acknowledged);
  SessionPointer find_session(const wire::session_control::Hello& hello) const;
  void on_event(const SessionPointer& session, std::uint32_t events) noexcept;
  void read_frames(const SessionPointer& session, std::uint32_t events);
  void retry(const SessionPointer& session) noexcept;
  void retry_later(const SessionPointer& session) noexcept;
  void resumed(const SessionPointer& session, Greeted greeted) noexcept;
  void tick();
  Nanoseconds trust_pause() const noexcept;
  void look_at_trust() noexcept;
  bool is_still_admitted(const Session& session);

  // ---- Further connections (session_connections.cpp); responder ----
  void connect_stream(const SessionPointer& session, std::uint32_t link, StreamTaker taker);
  void dial_stream(const SessionPointer& session, std::uint32_t link, wire::session_control::Role role);
  void stream_made(const SessionPointer& session, std::uint32_t link, bool is_own, SecureSocket connection);
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
  bool on(const SessionPointer& session, const wire::session_control::WantBulk& frame) const;
  void on(const SessionPointer& session, const wire::session_control::Bye& frame);
  bool on(const SessionPointer& session, const wire::session_control::Streamed& frame);
  bool on(const SessionPointer& session, const wire::session_control::WantStream& frame);
  template <typename Frame>
  void to_channel(const SessionPointer& session, const Frame& frame);
  template <typename Frame>
  void to_source(const SessionPointer& session, const Frame& frame);
  std::uint32_t next_link();
  // Protects the socket if the session has a secret. `own`: it belongs to a link that this side opens. Throws
  // std::bad_alloc.
  void protect(LinkSocket& socket, const Session& session, bool own, std::uint32_t link, std::uint64_t token) const;
  Result<wire::session_control::Opened> accept_link(const SessionPointer& session,
                                                    const wire::session_control::Open& frame);
  void wake_port(ripc_service_id service) noexcept;  // under the mutex
  // Responder. Ends a link of this side; the peer learns how much it may still expect.
  void close_link(LinkChannel& channel, ripc_status why) noexcept;
  void link_failed(LinkChannel& channel) noexcept;

  // Between two attempts to reach a peer again.
  static constexpr Nanoseconds kReconnectPause = 50'000'000;

  SessionOptions options_;
  std::string host_identity_;
  Authenticator authenticator_;
  spi::PeerTable peers_;
  std::uint64_t trust_changes_ = 0;  // that the sessions have been judged by
  spi::Host* host_ = nullptr;
  EventLoop* loop_ = nullptr;
  std::unique_ptr<Listener> listener_;
  StandingTimer timer_, trust_timer_;
  UniqueFd watch_;  // of the interfaces; invalid: the addresses are looked up each time
  StandingTimer address_timer_;
  bool settling_ = false;  // the responder's: the addresses are looked at in a moment

  mutable std::mutex mutex_;
  spi::Address address_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::uint32_t next_link_ = 1;
  std::vector<SessionPointer> sessions_;
  std::unordered_map<std::string, SessionPointer> outgoing_;  // by the locators that led to them
  Questions questions_;
  spi::PortTable<LinkPort> ports_;
};

}  // namespace ripc::internal::remote
