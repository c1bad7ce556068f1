// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_transport.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "base/loop_wait.hpp"
#include "base/parse_number.hpp"
#include "base/peer_policy.hpp"
#include "base/plain_text.hpp"
#include "base/process_barrier.hpp"

namespace ripc::internal::shm {

namespace {

constexpr int kMostPerEvent = 64;  // messages or connections: then others have their turn
// A full accept queue or control socket is retried at this pace.
constexpr Nanoseconds kEndpointRetry = 1'000'000;
// Connections over the limit, each kept just long enough for the answer.
constexpr std::size_t kRefusals = 64;
// How long the responder waits for a greeting. A peer greets as soon as it is connected; one that does not is not
// waited for.
constexpr int kGreetingMilliseconds = 20;
constexpr Nanoseconds kAcceptPause = 10'000'000;

UniqueFd open_reserve() noexcept { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// "[DIRECTORY]#CONTEXT", the context in hexadecimal.
bool parse_locator(const std::string& locator, std::string& directory, std::uint64_t& context) {
  const std::size_t hash = locator.rfind('#');
  if (hash == std::string::npos) return false;
  directory = locator.substr(0, hash);
  return parse_number(std::string_view(locator).substr(hash + 1), context, 16) && context != 0;
}

}  // namespace

std::string context_locator(std::uint64_t context) { return '#' + id_text(context).substr(2); }

ShmTransport::ShmTransport(std::shared_ptr<RuntimeDirectory> directory, const TransportOptions& options,
                           memory::Pool& pool)
    : Transport("shm", directory->path()),
      directory_(std::move(directory)),
      options_(options),
      pool_(pool),
      peer_table_(options.credentials) {
  // Peers need not keep it mapped.
  pool_.set_arena_observer(this, [this](std::uint32_t arena) {
    const std::lock_guard lock(mutex_);
    for (const PeerPointer& peer : peers_) peer->connection->retract(arena);
  });
}

ShmTransport::~ShmTransport() { pool_.set_arena_observer(this, {}); }

Status ShmTransport::start(spi::Host& host, EventLoop& loop) {
  host_ = &host;
  loop_ = &loop;
  must_fence_ = !register_process_barrier();
  received_.bytes.resize(kMaxControlMessage);
  if (Status status = directory_->listen(options_.context, &listener_guard_).move_to(listener_); !status.ok())
    return status;
  reserve_ = open_reserve();
  if (!reserve_) return system_error(errno, "open", "raise `ulimit -n`");
  accept_timer_.make(loop, [this] {
    if (listener_) (void)loop_->modify(listener_.get(), EPOLLIN);
  });
  if (options_.credentials.trust) {
    trust_timer_.make(loop, [this] { look_at_trust(); });
    trust_timer_.set(monotonic_now() + spi::kTrustPause);
  }
  return loop.add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
}

void ShmTransport::stop() noexcept {
  decltype(peers_) peers;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    peers.swap(peers_);
  }
  trust_timer_.cancel();
  accept_timer_.cancel();
  for (const PeerPointer& peer : peers) {
    (void)send_message(*peer->connection, wire::shm_control::Bye{});
    lose(peer, Status(RIPC_CLOSED));
  }
  if (listener_) {
    loop_->remove(listener_.get());
    directory_->remove_context(options_.context);
    listener_guard_.close(listener_);
  }
}

spi::Address ShmTransport::address() const { return {"shm", context_locator(options_.context)}; }

// An address of a context on another host looks like one of this host.
bool ShmTransport::may_lead(const spi::Address& address) const noexcept {
  std::uint64_t context = 0;
  const bool is_here =
      address.locator.starts_with('#') && parse_number(std::string_view(address.locator).substr(1), context, 16);
  return !is_here || directory_->probe(context) != Liveness::dead;
}

bool ShmTransport::wait(const std::function<bool()>& done, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return wait_in(*loop_, lock, changed_, deadline, [&] { return stopped_ || done(); });
}

// ---- Peers ---------------------------------------------------------------------------------------------------

bool ShmTransport::admits(const Credentials& credentials) const noexcept {
  return PeerPolicy(options_.peer_policy).admits(credentials.uid, credentials.gid);
}

Status ShmTransport::adopt(const PeerPointer& peer) {
  peer->connection->attach(*loop_);
  EventLoop::Handler handler = [this, peer](std::uint32_t events) { on_event(peer, events); };
  {
    const std::lock_guard lock(mutex_);
    // Under the mutex: a peer that enters by an older trust file is then judged by the next one.
    peer->entry = peer_table_.enter({.identity = {}, .user = peer->connection->credentials().uid});
    const std::size_t limit = options_.max_peers + (peer->incoming ? kRefusals : 0);
    if (peers_.size() >= limit)
      return Status(RIPC_LIMIT, "This context is connected to " + std::to_string(peers_.size()) +
                                    " processes, its limit: raise max_peers or close services no longer needed.");
    peer->refused = peers_.size() >= options_.max_peers;
    peers_.push_back(peer);
  }
  Status status = RIPC_NO_MEMORY;
  try {
    status = loop_->add(peer->connection->fd(), EPOLLIN, std::move(handler));
  } catch (const std::bad_alloc&) {
    // This is handled as any other reason why the message cannot be received.
  }
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    std::erase(peers_, peer);
    return status;
  }
  peer->connection->added();
  return {};
}

UniqueFd ShmTransport::accept(ForkGuard& guard) {
  return ForkGuard::open(guard,
                         [this] { return accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
}

void ShmTransport::accept_all() {
  for (int count = 0; count < kMostPerEvent; ++count) {
    ForkGuard guard;
    UniqueFd socket = accept(guard);
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE) refuse_without_descriptors();
      return;
    }
    auto peer = std::make_shared<Peer>(std::move(socket), std::move(guard));
    peer->incoming = true;
    (void)adopt(peer);  // a peer over the limit sees its connection closed
  }
}

// No descriptor is left for a new connection. Leaving it in the queue would keep the listener readable and the peer
// waiting, so the reserved descriptor is used to tell the peer. The pause gives others their turn, and is there if even
// that descriptor is not.
void ShmTransport::refuse_without_descriptors() {
  reserve_.reset();
  ForkGuard guard;
  if (UniqueFd socket = accept(guard)) {
    // If this closed the socket before the greeting was read, the peer would see a reset instead of the answer.
    pollfd greeting{socket.get(), POLLIN, 0};
    (void)poll(&greeting, 1, kGreetingMilliseconds);
    std::array<std::byte, 64> bytes;
    (void)recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
    std::vector<std::byte> reply;
    (void)wire::shm_control::encode(wire::shm_control::HelloReply{.context = options_.context,
                                                                  .pid = static_cast<std::uint32_t>(getpid()),
                                                                  .flags = 0,
                                                                  .status = RIPC_NO_DESCRIPTORS},
                                    reply);
    (void)::send(socket.get(), reply.data(), reply.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    guard.close(socket);
  }
  reserve_ = open_reserve();
  (void)loop_->modify(listener_.get(), 0);
  accept_timer_.set(monotonic_now() + kAcceptPause);
}

Result<ShmTransport::PeerPointer> ShmTransport::connect_peer(const std::string& locator, Deadline deadline,
                                                             bool greeted) {
  std::string directory_path;
  std::uint64_t context = 0;
  if (!parse_locator(locator, directory_path, context))
    return Status(
        RIPC_INVALID_ARGUMENT,
        "'" + locator + "' is not a shared-memory address: write [DIRECTORY]#CONTEXT, context in hexadecimal.");
  PeerPointer peer;
  bool ours = false;
  ripc_status sent = RIPC_OK;
  while (!peer) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return RIPC_CLOSED;
      if (PeerPointer known = greeted_peer(context, IdentityCheck::proven)) return known;
      if (const auto found = outgoing_.find(locator); found != outgoing_.end()) {
        peer = found->second;
        break;
      }
    }
    const Result<std::shared_ptr<RuntimeDirectory>> directory = directory_at(directory_path);
    if (!directory.ok()) return directory.status();
    ForkGuard guard;
    Result<UniqueFd> socket = (*directory)->connect(context, &guard);
    if (!socket.ok()) {
      if (socket.status().code() == RIPC_PEER_DEAD) {
        // The peer may have come from another runtime directory: this is the only way back to it.
        const std::lock_guard lock(mutex_);
        if (PeerPointer known = greeted_peer(context, IdentityCheck::claimed)) return known;
      }
      if (socket.status().code() != RIPC_AGAIN || deadline.expired()) return socket.status();
      (void)wait([] { return false; }, Deadline::after(kEndpointRetry));
      continue;
    }
    peer = std::make_shared<Peer>(std::move(*socket), std::move(guard));
    peer->context = context;
    peer->locator = locator;
    {
      const std::lock_guard lock(mutex_);
      const auto [position, inserted] = outgoing_.emplace(locator, peer);
      ours = inserted;
      // A thread that finds the peer may send to it at once, and nothing may be sent before the greeting.
      if (ours) {
        sent = greet(*peer);
      } else {
        peer = position->second;
      }
    }
  }
  if (ours) {
    Status status(sent);
    try {
      if (status.ok()) status = adopt(peer);
    } catch (const std::bad_alloc&) {
      status = RIPC_NO_MEMORY;
    }
    if (!status.ok()) {
      lose(peer, status);
      return status;
    }
  }
  if (!greeted) return peer;
  if (!wait([&] { return peer->greeted || peer->lost; }, deadline)) return spi::not_answering();
  const std::lock_guard lock(mutex_);
  if (peer->lost) return peer->failure;
  if (!peer->greeted) return RIPC_CLOSED;
  return peer;
}

// Opening takes system calls, so it happens outside the mutex, perhaps in two threads at once.
Result<std::shared_ptr<RuntimeDirectory>> ShmTransport::directory_at(const std::string& path) {
  if (path.empty()) return directory_;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = other_directories_.find(path); found != other_directories_.end()) return found->second;
  }
  Result<std::shared_ptr<RuntimeDirectory>> opened = RuntimeDirectory::open(path.c_str(), options_.peer_policy);
  if (!opened.ok()) return opened;
  const std::lock_guard lock(mutex_);
  return other_directories_.try_emplace(path, std::move(*opened)).first->second;
}

ripc_status ShmTransport::greet(const Peer& peer) const {
  return send_message(*peer.connection, wire::shm_control::Hello{
                                            .context = options_.context,
                                            .pid = static_cast<std::uint32_t>(getpid()),
                                            .flags = static_cast<std::uint32_t>(peer.connection->process().reach())});
}

// A peer states which context it is. One of another user may lie, to get what is meant for that context.
ShmTransport::PeerPointer ShmTransport::greeted_peer(std::uint64_t context, IdentityCheck check) const {
  const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const PeerPointer& peer) {
    const uid_t user = peer->connection->credentials().uid;
    const bool proven = !peer->incoming || user == geteuid() || user == 0;
    return !peer->lost && peer->greeted && peer->context == context && (proven || check == IdentityCheck::claimed);
  });
  return found == peers_.end() ? nullptr : *found;
}

// Allocates no memory: a lack of memory is one of the reasons for a loss.
void ShmTransport::lose(const PeerPointer& peer, Status reason) noexcept {
  decltype(peer->channels) channels;
  {
    const std::lock_guard lock(mutex_);
    if (peer->lost) return;
    peer->lost = true;
    peer->failure = std::move(reason);
    std::erase(peers_, peer);
    if (const auto found = outgoing_.find(peer->locator); found != outgoing_.end() && found->second == peer)
      outgoing_.erase(found);
    channels.swap(peer->channels);
    for (const auto& [link, source] : peer->sources) {
      source->mark_dead();
      look_at_sources(source->service());
    }
    peer->sources.clear();
    questions_.end(peer, RIPC_PEER_DEAD);
    changed_.notify_all();
  }
  loop_->remove(peer->connection->fd());
  peer->connection->detach();
  peer->connection->shut_down();
  for (const auto& [link, weak] : channels) {
    const std::shared_ptr<ShmChannel> channel = weak.lock();
    if (channel && channel->mark_dead()) host_->channel_lost(*channel, RIPC_PEER_DEAD);
  }
}

void ShmTransport::look_at_trust() noexcept try {
  trust_timer_.set(monotonic_now() + spi::kTrustPause);
  const std::uint64_t changes = peer_table_.changes();
  if (changes == trust_changes_) return;
  std::vector<PeerPointer> refused;
  {
    const std::lock_guard lock(mutex_);
    refused.reserve(peers_.size());
    for (const PeerPointer& peer : peers_) {
      if (is_still_admitted(*peer)) continue;
      refused.push_back(peer);
      for (const auto& [link, source] : peer->sources) {
        source->cut_off();
        look_at_sources(source->service());
      }
    }
  }
  for (const PeerPointer& peer : refused) lose(peer, spi::link_refused());
  trust_changes_ = changes;
} catch (const std::bad_alloc&) {
  // Looks again the next time.
}

bool ShmTransport::is_still_admitted(const Peer& peer) const {
  if (!peer_table_.has_identity(*peer.entry)) return false;
  return std::all_of(peer.sources.begin(), peer.sources.end(), [&](const auto& entry) {
    const ripc_service_id service = entry.second->service();
    const ShmPort* const port = ports_.find(service);
    return port == nullptr || peer_table_.may_call(*peer.entry, port->options().name, service);
  });
}

void ShmTransport::on_event(const PeerPointer& peer, std::uint32_t events) noexcept {
  if ((events & EPOLLOUT) != 0) {
    peer->connection->flush();
    if (peer->connection->take_room()) tell_room(*peer);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  try {
    receive_all(peer);
  } catch (const std::bad_alloc&) {
    // The message is lost, perhaps half handled. Both sides start again, as after a death.
    lose(peer, RIPC_NO_MEMORY);
  }
}

// There is room again for what goes to the peer's responder.
void ShmTransport::tell_room(const Peer& peer) noexcept {
  std::uint64_t last = 0;
  for (;;) {
    std::shared_ptr<ShmChannel> channel;
    {
      const std::lock_guard lock(mutex_);
      const auto next = peer.channels.upper_bound(last);
      if (next == peer.channels.end()) return;
      last = next->first;
      channel = next->second.lock();
    }
    if (channel) host_->room(*channel);
  }
}

void ShmTransport::receive_all(const PeerPointer& peer) {
  Received& received = received_;
  for (int count = 0; count < kMostPerEvent; ++count) {
    switch (peer->connection->receive(received)) {
      case ControlConnection::Event::nothing:
        return;
      case ControlConnection::Event::closed:
        lose(peer, Status(RIPC_PEER_DEAD, "The process that held the service is gone."));
        return;
      case ControlConnection::Event::message:
        if (!handle(peer, received)) {
          lose(peer, Status(RIPC_CORRUPT, "The peer broke the control protocol; its connection was closed."));
          return;
        }
        if (peer->lost) return;
    }
  }
}

// ---- Ports ---------------------------------------------------------------------------------------------------

Result<std::unique_ptr<spi::Port>> ShmTransport::open_port(const spi::PortOptions& options, EventSet& events) {
  Result<ServiceStateTable::Slot> state = states_.allocate();
  if (!state.ok()) return state.status();
  auto port = std::make_unique<ShmPort>(options, events, std::move(*state), [this](ShmPort& closing) {
    const ripc_service_id id = closing.options().id;
    const std::lock_guard lock(mutex_);
    ports_.remove(id, closing);
    // A service that took the ID over has a port of its own, and sources of its own.
    for (const PeerPointer& peer : peers_) {
      std::erase_if(peer->sources,
                    [&](const auto& entry) { return entry.second->service() == id && closing.has(*entry.second); });
    }
  });
  const std::lock_guard lock(mutex_);
  ports_.add(options.id, *port);
  return std::unique_ptr<spi::Port>(std::move(port));
}

void ShmTransport::wake_port(ripc_service_id service) noexcept {
  ports_.for_each_of(service, [](ShmPort& port) { port.wake(); });
}

void ShmTransport::look_at_sources(ripc_service_id service) noexcept {
  ports_.for_each_of(service, [](ShmPort& port) { port.look_at_sources(); });
}

std::shared_ptr<ShmChannel> ShmTransport::channel(const PeerPointer& peer, std::uint64_t link) {
  const std::lock_guard lock(mutex_);
  const auto found = peer->channels.find(link);
  return found == peer->channels.end() ? nullptr : found->second.lock();
}

}  // namespace ripc::internal::shm
