// SPDX-License-Identifier: Apache-2.0
#include "remote/session/session_transport.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <iterator>

#include "base/interface_watch.hpp"
#include "base/loop_wait.hpp"
#include "remote/link/udp_channel.hpp"

namespace ripc::internal::remote {

namespace {

// How many heartbeats fit into the time after which a peer is dead.
constexpr Nanoseconds kHeartbeats = 8;
// Changes that happen together are reported together: an interface that goes down loses its addresses one by one.
constexpr Nanoseconds kSettle = 20'000'000;
// How long to wait for peers to read messages from connections; a peer that has not read them by then loses them.
constexpr Nanoseconds kStopTimeout = 1'000'000'000;

// The member reached at an address need not be the one that holds the service.
Status other_member(const Session& session, const std::string& expected) {
  std::string text = session.peer_entry->identity;
  text += " is at the address of the service, but ";
  text += expected;
  text += " holds it: the address is wrong, or has another host now.";
  return Status(RIPC_REFUSED, text);
}

}  // namespace

SessionTransport::SessionTransport(std::string_view name, SessionOptions options)
    : Transport(name),
      options_(std::move(options)),
      host_identity_(remote::host_identity()),
      authenticator_({options_.credentials, options_.encryption}, options_.peers),
      peers_(options_.credentials) {}

SessionTransport::~SessionTransport() = default;

Status SessionTransport::start(spi::Host& host, EventLoop& loop) {
  host_ = &host;
  loop_ = &loop;
  Result<std::unique_ptr<Listener>> listener = Listener::open(
      loop, authenticator_, options_.bind_address, options_.ports, options_.peer_timeout,
      {.find = [this](const wire::session_control::Hello& hello) { return find_secret(hello); },
       .answer = [this](const wire::session_control::Hello& hello, int socket) { return answer(hello, socket); }},
      [this](Greeted greeted) { accepted(std::move(greeted)); });
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  if (options_.bind_address.empty()) {
    // The watch begins before the first look, so that no change is missed.
    watch_ = watch_interfaces();
    if (watch_ && !loop.add(watch_.get(), EPOLLIN, [this](std::uint32_t) { interfaces_changed(); }).ok())
      watch_.reset();
  }
  address_ = present_address();
  address_timer_.make(loop, [this] { look_at_addresses(); });
  timer_.make(loop, [this] { tick(); });
  if (options_.credentials.trust) {
    trust_timer_.make(loop, [this] { look_at_trust(); });
    trust_timer_.set(monotonic_now() + trust_pause());
  }
  return {};
}

// Looks along with the heartbeats where these are frequent, so that the responder wakes once for both.
Nanoseconds SessionTransport::trust_pause() const noexcept {
  return std::min(options_.peer_timeout / kHeartbeats, spi::kTrustPause);
}

void SessionTransport::tick() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || sessions_.empty()) return;
    timer_.set(monotonic_now() + options_.peer_timeout / kHeartbeats);
  }
  for (const SessionPointer& session : sessions()) {
    if (!session->stream.attached()) continue;
    session->stream.acknowledge();
    for (const auto& channel : session->channels()) channel->check_path();
  }
}

void SessionTransport::look_at_trust() noexcept try {
  trust_timer_.set(monotonic_now() + trust_pause());
  const std::uint64_t changes = peers_.changes();
  if (changes == trust_changes_) return;
  for (const SessionPointer& session : sessions()) {
    if (!is_still_admitted(*session)) lose(session, spi::link_refused());
  }
  trust_changes_ = changes;
} catch (const std::bad_alloc&) {
  // Looks again the next time.
}

std::vector<SessionPointer> SessionTransport::sessions() const {
  std::vector<SessionPointer> greeted;
  const std::lock_guard lock(mutex_);
  std::copy_if(sessions_.begin(), sessions_.end(), std::back_inserter(greeted),
               [](const SessionPointer& session) { return session->greeted; });
  return greeted;
}

// A peer that is not admitted connects again, and is judged again.
bool SessionTransport::is_still_admitted(const Session& session) {
  const std::lock_guard lock(mutex_);
  const spi::Peer& peer = *session.peer_entry;
  return peers_.has_identity(peer, session.key ? &*session.key : nullptr) &&
         std::all_of(session.incoming_links.begin(), session.incoming_links.end(), [&](const auto& entry) {
           const spi::PortOptions& port = entry.second.port->options();
           return peers_.may_call(peer, port.name, port.id);
         });
}

void SessionTransport::stop() noexcept {
  if (loop_ == nullptr) return;  // it could not be started
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  say_goodbye();
  while (!sessions_.empty()) lose(SessionPointer(sessions_.front()), Status(RIPC_CLOSED));
  timer_.cancel();
  trust_timer_.cancel();
  if (watch_) loop_->remove(watch_.get());
  address_timer_.cancel();
  listener_.reset();
}

// The transport is stopped: no session is added any more, and only the responder removes sessions.
void SessionTransport::say_goodbye() noexcept {
  const Deadline deadline = Deadline::after(kStopTimeout);
  for (const SessionPointer& session : sessions_) {
    if (!session->stream.attached()) continue;
    try {
      for (const auto& channel : session->channels()) {
        channel->leave(deadline);
        // The peer waits for packets that are still on their way.
        close_link(*channel, RIPC_PEER_DEAD);
      }
    } catch (const std::bad_alloc&) {
      // Packets that went only by UDP may not arrive.
    }
    (void)session->stream.send(wire::session_control::Bye{});
  }
  // In a second loop, so that no peer has to wait for another.
  for (const SessionPointer& session : sessions_) {
    if (session->carries_messages.load(std::memory_order_relaxed)) session->stream.finish(deadline);
  }
}

spi::Address SessionTransport::address() const {
  if (!watch_ && options_.bind_address.empty()) return present_address();
  const std::lock_guard lock(mutex_);
  return address_;
}

void SessionTransport::interfaces_changed() {
  drain_watch(watch_.get());
  if (!std::exchange(settling_, true)) address_timer_.set(monotonic_now() + kSettle);
}

void SessionTransport::look_at_addresses() {
  settling_ = false;
  spi::Address present = present_address();
  {
    const std::lock_guard lock(mutex_);
    if (address_ == present) return;
    address_ = std::move(present);
  }
  host_->address_changed();
}

spi::Address SessionTransport::present_address() const {
  Locator locator;
  locator.context = options_.context;
  locator.host = host_identity_;
  locator.port = listener_->port();
  locator.ips = own_ips();
  if (locator.ips.empty()) return {std::string(name()), ""};
  if (locator.ips.size() > kMaxIps) locator.ips.resize(kMaxIps);
  return {std::string(name()), locator.text()};
}

bool SessionTransport::wait(const std::function<bool()>& done, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return wait_in(*loop_, lock, changed_, deadline, [&] { return stopped_ || done(); });
}

// ---- Links ---------------------------------------------------------------------------------------------------

Result<std::unique_ptr<spi::Port>> SessionTransport::open_port(const spi::PortOptions& options, EventSet& events) {
  auto port = make_port(options, events, [this](LinkPort& closing) {
    const ripc_service_id id = closing.options().id;
    const std::lock_guard lock(mutex_);
    ports_.remove(id, closing);
    for (const SessionPointer& session : sessions_)
      std::erase_if(session->incoming_links, [&](const auto& entry) { return entry.second.port == &closing; });
  });
  const std::lock_guard lock(mutex_);
  ports_.add(options.id, *port);
  return std::unique_ptr<spi::Port>(std::move(port));
}

std::uint32_t SessionTransport::next_link() {
  const std::lock_guard lock(mutex_);
  const std::uint32_t link = next_link_++;
  if (next_link_ == 0) next_link_ = 1;
  return link;
}

LinkChannel::Parts SessionTransport::parts_of(const SessionPointer& session, ripc_service_id id, std::uint32_t link,
                                              std::uint64_t token, std::uint64_t incarnation, std::uint32_t credit) {
  return {.session = session,
          .loop = loop_,
          .host = host_,
          .service = id,
          .link = link,
          .token = token,
          .incarnation = incarnation,
          .credit = std::min<std::uint32_t>(credit, INT32_MAX),
          .failed = [this](LinkChannel& failed) { link_failed(failed); }};
}

Result<spi::Connected> SessionTransport::connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                                 Deadline deadline) {
  std::vector<Locator> locators;
  std::vector<std::size_t> indices;
  Status failure = RIPC_NO_SERVICE;
  for (std::size_t index = 0; index < addresses.size(); ++index) {
    Result<Locator> locator = Locator::parse(addresses[index].locator);
    if (!locator.ok()) {
      failure = locator.status();
      continue;
    }
    locators.push_back(std::move(*locator));
    indices.push_back(index);
  }
  while (!locators.empty()) {
    const std::string& member = addresses[indices.front()].member;
    Result<SessionPointer> session = session_with(locators, member, deadline);
    if (!session.ok()) return session.status();
    const auto leads_there = [&](const Locator& locator) {
      return locator.leads_to((*session)->context, (*session)->remote(), host_identity_);
    };
    const auto chosen = std::find_if(locators.begin(), locators.end(), leads_there);
    const bool is_known = chosen != locators.end();
    if (!(*session)->may_be(member)) return other_member(**session, member);
    Result<std::shared_ptr<spi::Channel>> channel = connect_over(*session, id, deadline);
    if (channel.ok()) {
      const spi::Address& address =
          addresses[is_known ? indices[static_cast<std::size_t>(chosen - locators.begin())] : 0];
      const bool is_here = is_known && !host_identity_.empty() && chosen->host == host_identity_;
      return spi::Connected{.channel = std::move(*channel), .address = address, .is_on_this_host = is_here};
    }
    failure = channel.status();
    if (failure == RIPC_REFUSED) {
      // If the session is lost, the peer itself has refused, not its service.
      const std::lock_guard lock(mutex_);
      if ((*session)->lost) return (*session)->failure;
    }
    if (!is_known || (failure.code() != RIPC_NO_SERVICE && failure.code() != RIPC_PEER_DEAD)) break;
    // The first context that answered does not have the service; one at another address may.
    for (std::size_t index = locators.size(); index-- != 0;) {
      if (!leads_there(locators[index])) continue;
      locators.erase(locators.begin() + static_cast<std::ptrdiff_t>(index));
      indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  return failure;
}

Result<std::shared_ptr<spi::Channel>> SessionTransport::connect_over(const SessionPointer& session, ripc_service_id id,
                                                                     Deadline deadline) {
  Result<std::shared_ptr<LinkChannel>> channel = session->links->open(session, id, deadline);
  if (!channel.ok()) return channel.status();
  {
    const std::lock_guard lock(mutex_);
    if (session->lost) {
      (void)(*channel)->end(RIPC_PEER_DEAD);
      return RIPC_PEER_DEAD;
    }
    if (!session->add_channel((*channel)->link(), *channel)) {
      (void)(*channel)->end(RIPC_CLOSED);
      return RIPC_NO_SERVICE;
    }
  }
  (*channel)->check_path();
  return std::shared_ptr<spi::Channel>(std::move(*channel));
}

Result<std::shared_ptr<LinkChannel>> SessionTransport::open_udp_link(const SessionPointer& session, ripc_service_id id,
                                                                     Deadline deadline) {
  Result<LinkSocket> socket = LinkSocket::open(session->local(), options_.ports);
  if (!socket.ok()) return socket.status();
  wire::session_control::Open open{.service = id, .port = socket->port()};
  NewLink made(session);
  const auto asked = ask_for_link<wire::session_control::Opened>(made, open, deadline);
  if (asked.status() == RIPC_REFUSED) return spi::link_refused();
  if (!asked.ok()) return asked.status();
  const wire::session_control::Opened& opened = *asked;
  const bool datagrams = socket->connect(session->remote().with_port(static_cast<std::uint16_t>(opened.port))).ok() &&
                         monotonic_now() >= session->no_datagrams_until.load(std::memory_order_relaxed);
  UdpChannel::ConnectStream connect;
  if (options_.streams) {
    connect = [this, weak = std::weak_ptr<Session>(session)](std::uint32_t link, StreamTaker taker) {
      if (const SessionPointer strong = weak.lock()) connect_stream(strong, link, std::move(taker));
    };
  }
  protect(*socket, *session, true, open.link, open.token);
  std::shared_ptr<LinkChannel> channel = LinkChannel::make<UdpChannel>(
      parts_of(session, id, open.link, open.token, opened.incarnation, opened.credit), std::move(*socket),
      opened.packet_limit, datagrams, std::move(connect), options_.peer_timeout);
  made.has_channel();
  return channel;
}

void SessionTransport::protect(LinkSocket& socket, const Session& session, bool own, std::uint32_t link,
                               std::uint64_t token) const {
  if (!session.secret) return;
  const auto key = [&](bool sends) { return session.secret->of_link(session.incoming, own, sends, link, token); };
  socket.protect(session.secret->protection, key(true), key(false), authenticator_.counters());
}

Status SessionTransport::fence(const spi::Address& address, ripc_service_id id, std::uint64_t incarnation,
                               Deadline deadline) {
  // Sent at once, so that a stopped holder finds it when it runs again.
  const Result<Locator> locator = Locator::parse(address.locator);
  if (!locator.ok()) return locator.status();
  Result<SessionPointer> session = session_with({&*locator, 1}, address.member, deadline, false);
  if (!session.ok()) return session.status();
  Status status = ask<wire::session_control::Fenced>(
                      *session, wire::session_control::Fence{.service = id, .incarnation = incarnation}, deadline)
                      .status();
  // An answer follows the greeting.
  if (status.ok() && !(*session)->may_be(address.member)) return other_member(**session, address.member);
  return status;
}

void SessionTransport::close_link(LinkChannel& channel, ripc_status why) noexcept {
  if (!channel.end(why)) return;
  // Nothing more is sent after it.
  channel.session()->stream.tell(
      wire::session_control::CloseLink{.link = channel.link(), .sequence = channel.last_sequence()});
  host_->channel_lost(channel, why);
}

void SessionTransport::link_failed(LinkChannel& channel) noexcept {
  if (!channel.end(RIPC_PEER_DEAD)) return;
  channel.session()->stream.tell(wire::session_control::CloseLink{.link = channel.link()});
  host_->channel_lost(channel, RIPC_PEER_DEAD);
}

void SessionTransport::wake_port(ripc_service_id service) noexcept {
  ports_.for_each_of(service, [](LinkPort& port) { port.wake(); });
}

}  // namespace ripc::internal::remote
