// SPDX-License-Identifier: Apache-2.0
#include "remote/session/listener.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <new>

namespace ripc::internal::remote {

namespace {

constexpr int kBacklog = 1024;
// The limit of each list. When it is reached, the oldest handshake makes room, so peers that do not continue theirs
// cannot keep others out.
constexpr std::size_t kMaxHandshakes = 256;
constexpr int kMostPerEvent = 64;  // then others have their turn
constexpr Nanoseconds kAcceptPause = 10'000'000;
constexpr Nanoseconds kRefusalPatience = 100'000'000;

UniqueFd open_reserve() noexcept { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(EventLoop& loop, Authenticator& authenticator,
                                                 const std::string& bind_address, PortRange ports, Nanoseconds patience,
                                                 Handshake::Decide decide, Handshake::Done accepted) {
  std::unique_ptr<Listener> listener(
      new Listener(loop, authenticator, patience, std::move(decide), std::move(accepted)));
  Status status = listener->bind(bind_address, ports);
  if (!status.ok()) return status;
  if (::listen(listener->socket_.fd.get(), kBacklog) != 0) return system_error(errno, "listen");
  listener->port_ = Endpoint::local_of(listener->socket_.fd.get()).port();
  listener->reserve_ = open_reserve();
  if (!listener->reserve_) return system_error(errno, "open", "raise `ulimit -n`");
  listener->timer_.make(loop, [raw = listener.get()] { raw->look_for_descriptors(); });
  status = loop.add(listener->socket_.fd.get(), EPOLLIN, [raw = listener.get()](std::uint32_t) { raw->accept_all(); });
  if (!status.ok()) return status;
  return listener;
}

Listener::~Listener() {
  timer_.cancel();
  if (socket_.fd) loop_.remove(socket_.fd.get());
  for (const Guests* const guests : {&strangers_, &known_}) {
    for (const Guest& guest : *guests) guest.handshake->cancel();
  }
}

Status Listener::bind(const std::string& bind_address, PortRange ports) {
  const auto listen_on = [&](const Endpoint& where) -> Status {
    Result<GuardedSocket> socket = open_socket(where.family(), SOCK_STREAM);
    if (!socket.ok()) return socket.status();
    const int on = 1;
    const int off = 0;
    (void)setsockopt(socket->fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (where.family() == AF_INET6) (void)setsockopt(socket->fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    // The first context of a machine gets the port that a file of known services names.
    Status status = bind_in_range(socket->fd.get(), where, ports, PortOrder::lowest_first);
    if (status.ok()) socket_ = std::move(*socket);
    return status;
  };
  Endpoint where;
  if (!bind_address.empty()) {
    if (!Endpoint::parse(bind_address, 0, where))
      return Status(RIPC_INVALID_ARGUMENT, "'" + bind_address + "' is not an IP address: check RIPC_SOCKET_ADDRESS.");
    return listen_on(where);
  }
  (void)Endpoint::parse("::", 0, where);
  if (listen_on(where).ok()) {
    dual_stack_ = true;
    return {};
  }
  // A machine without IPv6.
  (void)Endpoint::parse("0.0.0.0", 0, where);
  return listen_on(where);
}

void Listener::accept_all() {
  for (int count = 0; count < kMostPerEvent; ++count) {
    GuardedSocket socket;
    socket.fd = ForkGuard::open(
        socket.guard, [&] { return accept4(socket_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
    if (socket.fd) {
      greet(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE) refuse_without_descriptors();
    return;
  }
}

void Listener::make_room(Guests& guests) noexcept {
  if (guests.size() < kMaxHandshakes) return;
  guests.front().handshake->cancel();
  guests.pop_front();
  authenticator_.count_refused();
}

void Listener::greet(GuardedSocket socket) {
  make_room(strangers_);
  const auto place = strangers_.insert(strangers_.end(), {nullptr, &strangers_});
  std::shared_ptr<Handshake> handshake;
  try {
    Handshake::Decide decide{.find = decide_.find,
                             .answer = [this, place](const wire::session_control::Hello& hello, int knocking) {
                               make_room(known_);
                               known_.splice(known_.end(), strangers_, place);
                               place->list = &known_;
                               return decide_.answer(hello, knocking);
                             }};
    handshake = Handshake::accept(loop_, authenticator_, std::move(socket), Deadline::after(patience_),
                                  std::move(decide), [this, place](Greeted greeted) {
                                    place->list->erase(place);
                                    // A peer that was turned away has been counted already.
                                    if (greeted.status == RIPC_TIMEOUT && !greeted.proven.session)
                                      authenticator_.count_refused();
                                    const bool is_told = greeted.reply.context != 0 && greeted.reply.status == RIPC_OK;
                                    if (greeted.status.ok() || (greeted.status == RIPC_NO_MEMORY && is_told))
                                      accepted_(std::move(greeted));
                                  });
  } catch (const std::bad_alloc&) {
    // The peer finds the connection closed.
    strangers_.erase(place);
    return;
  }
  if (handshake->over()) return;
  place->handshake = std::move(handshake);
}

// No descriptor is left for a new connection. Leaving it in the queue would keep the listener readable and the peer
// waiting, so the reserved descriptor is used to tell the peer.
void Listener::refuse_without_descriptors() {
  reserve_.reset();
  GuardedSocket socket;
  socket.fd = ForkGuard::open(
      socket.guard, [&] { return accept4(socket_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  (void)loop_.modify(socket_.fd.get(), 0);
  timer_.set(monotonic_now() + kAcceptPause);
  if (socket.fd) {
    // One at a time: the descriptor is free again when this connection is closed.
    Handshake::Decide decide = decide_;
    decide.answer = [answer = decide_.answer](const wire::session_control::Hello& hello, int knocking) {
      wire::session_control::HelloReply reply = answer(hello, knocking);
      reply.status = RIPC_NO_DESCRIPTORS;
      return reply;
    };
    auto handshake = Handshake::accept(loop_, authenticator_, std::move(socket), Deadline::after(kRefusalPatience),
                                       std::move(decide), [](const Greeted&) {});
    strangers_.push_back({std::move(handshake), &strangers_});
  }
}

void Listener::look_for_descriptors() noexcept {
  std::erase_if(strangers_, [](const Guest& guest) { return guest.handshake->over(); });
  if (!reserve_) reserve_ = open_reserve();
  (void)loop_.modify(socket_.fd.get(), EPOLLIN);
}

}  // namespace ripc::internal::remote
