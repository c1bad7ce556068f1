// SPDX-License-Identifier: Apache-2.0
#include "remote/session/handshake.hpp"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <new>
#include <string_view>

namespace ripc::internal::remote {

namespace {

using wire::session_control::Confirm;
using wire::session_control::Hello;
using wire::session_control::HelloReply;

Status other_version() {
  return Status(RIPC_VERSION_MISMATCH,
                "The peer speaks another version of the socket protocol: run the same libripc on both sides.");
}

Status connect_failure(int error, const Endpoint& remote) {
  return Status(RIPC_PEER_DEAD, "Nothing answers at " + remote.text() + " (" + std::strerror(error) +
                                    "): the process has ended, or a firewall is in the way.");
}

// Between two sockets of the same address, there is no network to protect. BBR, the default on many machines, paces
// there, too: long messages then reach two thirds of the speed, or half (docs/performance/sockets.md).
void leave_out_pacing(int fd) noexcept {
  constexpr std::string_view kUnpaced = "reno";  // in every kernel
  if (Endpoint::local_of(fd).same_ip(Endpoint::remote_of(fd)))
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
}

// Replaces a status that no honest peer answers to a greeting.
ripc_status believable_greeting(ripc_status status) noexcept {
  switch (status) {
    case RIPC_REFUSED:
    case RIPC_NO_MEMORY:
    case RIPC_NO_DESCRIPTORS:
    case RIPC_LIMIT:
    case RIPC_PEER_DEAD:
    case RIPC_VERSION_MISMATCH:
      return status;
    default:
      return RIPC_CORRUPT;
  }
}

}  // namespace

std::shared_ptr<Handshake> Handshake::dial(EventLoop& loop, Authenticator& authenticator, const Endpoint& remote,
                                           const Greeting& greeting, std::uint64_t context, Deadline deadline,
                                           Done done) {
  std::shared_ptr<Handshake> handshake(new Handshake(loop, authenticator, Step::connecting, std::move(done)));
  handshake->wanted_ = context;
  handshake->remote_ = remote;
  handshake->greeted_.hello = greeting.hello;
  handshake->session_ = greeting.session;
  Result<GuardedSocket> socket = open_socket(remote.family(), SOCK_STREAM);
  if (!socket.ok()) {
    handshake->finish(socket.status());
    return handshake;
  }
  handshake->greeted_.connection = std::move(*socket);
  const int fd = handshake->greeted_.connection.fd();
  if (::connect(fd, remote.address(), remote.size()) != 0 && errno != EINPROGRESS) {
    handshake->finish(connect_failure(errno, remote), errno == ECONNREFUSED);
    return handshake;
  }
  handshake->begin(EPOLLOUT, deadline);
  return handshake;
}

std::shared_ptr<Handshake> Handshake::accept(EventLoop& loop, Authenticator& authenticator, GuardedSocket socket,
                                             Deadline deadline, Decide decide, Done done) {
  std::shared_ptr<Handshake> handshake(new Handshake(loop, authenticator, Step::hello, std::move(done)));
  handshake->decide_ = std::move(decide);
  handshake->greeted_.connection = std::move(socket);
  handshake->begin(EPOLLIN, deadline);
  return handshake;
}

Handshake::~Handshake() { cancel(); }

void Handshake::begin(std::uint32_t events, Deadline deadline) {
  const int on = 1;
  (void)setsockopt(greeted_.connection.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::weak_ptr<Handshake> weak = weak_from_this();
  if (!deadline.is_never()) {
    timer_ = loop_.add_timer(deadline.at(), [weak] {
      if (const auto self = weak.lock())
        self->finish(Status(RIPC_TIMEOUT,
                            "The process that holds the service does not answer; is it stopped, or a "
                            "firewall in the way?"));
    });
  }
  // The loop keeps it alive until it is over.
  Status status =
      loop_.add(greeted_.connection.fd(), events, [self = shared_from_this()](std::uint32_t) { self->on_event(); });
  if (!status.ok()) finish(status);
}

void Handshake::leave_loop() noexcept {
  if (timer_ != 0) loop_.cancel_timer(timer_);
  timer_ = 0;
  if (greeted_.connection) loop_.remove(greeted_.connection.fd());
}

void Handshake::cancel() noexcept {
  if (step_ == Step::over) return;
  const auto self = weak_from_this().lock();  // the loop may hold the last reference
  step_ = Step::over;
  leave_loop();
  greeted_.connection.close();
}

void Handshake::finish(Status status, bool definite) noexcept {
  if (step_ == Step::over) return;
  const auto self = weak_from_this().lock();
  step_ = Step::over;
  leave_loop();
  greeted_.status = std::move(status);
  greeted_.definite = definite;
  if (!greeted_.status.ok() && greeted_.connection) {
    // The last frame sent should arrive.
    (void)::shutdown(greeted_.connection.fd(), SHUT_WR);
    greeted_.connection.close();
  }
  try {
    if (done_) done_(std::move(greeted_));
  } catch (const std::bad_alloc&) {
    // As `Done` says: it has ended what the handshake was for.
  }
}

void Handshake::on_event() noexcept {
  const auto self = weak_from_this().lock();
  try {
    go_on();
  } catch (const std::bad_alloc&) {
    finish(RIPC_NO_MEMORY);
  }
}

void Handshake::go_on() {
  if (step_ == Step::connecting) {
    on_connected();
    return;
  }
  if (step_ == Step::leaving) {
    drain();
    return;
  }
  while (step_ != Step::over && step_ != Step::leaving) {
    const ripc_status status = read_frame();
    if (status == RIPC_PENDING) return;
    if (status == RIPC_OK) {
      on_frame();
    } else if (status == RIPC_VERSION_MISMATCH) {
      if (step_ == Step::hello) (void)send(HelloReply{.context = 1, .status = RIPC_VERSION_MISMATCH});
      finish(other_version(), true);
    } else {
      finish(Status(status,
                    "The peer closed the connection during the handshake: it is ending, or it has another "
                    "cluster key: compare the key files of both hosts."));
    }
  }
}

void Handshake::on_connected() {
  int error = 0;
  socklen_t size = sizeof error;
  (void)getsockopt(greeted_.connection.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    finish(connect_failure(error, remote_), error == ECONNREFUSED);
    return;
  }
  Hello hello = greeted_.hello;
  hello.time = static_cast<std::uint64_t>(monotonic_now());
  proof_.emplace(authenticator_.proof(session_, greeted_.connection.fd()));
  proof_->offer(hello);
  if (!send(hello)) {
    finish(RIPC_PEER_DEAD);
    return;
  }
  step_ = Step::reply;
  (void)loop_.modify(greeted_.connection.fd(), EPOLLIN);
}

ripc_status Handshake::read_frame() {
  for (;;) {
    std::size_t size = wire::session_control::kPrefixSize;
    if (have_ >= size) {
      const Result<std::size_t> whole = wire::session_control::frame_size(std::span(frame_).first(have_));
      if (!whole.ok()) return whole.status().code();
      if (*whole > wire::session_control::kMaxHandshakeSize) return RIPC_CORRUPT;
      size = *whole;
      if (have_ == size) return RIPC_OK;
    }
    if (frame_.size() < size) frame_.resize(size);
    // Read no byte beyond the frame: what follows is for another reader.
    const ssize_t got = recv(greeted_.connection.fd(), frame_.data() + have_, size - have_, MSG_DONTWAIT);
    if (got > 0) {
      have_ += static_cast<std::size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return RIPC_PENDING;
    } else {
      return RIPC_PEER_DEAD;
    }
  }
}

template <typename T>
bool Handshake::send(const T& frame) {
  std::vector<std::byte> bytes;
  if (wire::session_control::encode(frame, bytes) != RIPC_OK) return false;
  // A new connection has room for such a short frame.
  const ssize_t sent = ::send(greeted_.connection.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size());
}

void Handshake::on_frame() {
  const Result<wire::session_control::Frame> frame = wire::session_control::decode(std::span(frame_).first(have_));
  have_ = 0;
  if (!frame.ok()) {
    finish(Status(RIPC_CORRUPT, "The process at this address is not a libripc socket transport: check the address."),
           true);
    return;
  }
  if (step_ == Step::hello && std::holds_alternative<Hello>(*frame)) {
    on_hello(std::get<Hello>(*frame));
  } else if (step_ == Step::reply && std::holds_alternative<HelloReply>(*frame)) {
    on_reply(std::get<HelloReply>(*frame));
  } else if (step_ == Step::confirm && std::holds_alternative<Confirm>(*frame)) {
    on_confirm(std::get<Confirm>(*frame));
  } else {
    finish(RIPC_CORRUPT, true);
  }
}

void Handshake::on_hello(const Hello& hello) {
  greeted_.hello = hello;
  greeted_.hello.offers = {};
  Result<std::optional<SessionSecret>> session = decide_.find(hello);
  if (!session.ok()) {
    (void)send(HelloReply{.context = 1, .status = RIPC_PEER_DEAD});
    finish(RIPC_PEER_DEAD);
    return;
  }
  proof_.emplace(authenticator_.proof(std::move(*session), greeted_.connection.fd()));
  if (proof_->examine(hello, authenticator_.seen_offers())) {
    greeted_.reply = decide_.answer(greeted_.hello, greeted_.connection.fd());
  } else {
    // No more work is done for a stranger.
    authenticator_.count_refused();
    greeted_.reply = {.context = 1, .status = RIPC_REFUSED};
  }
  HelloReply reply = greeted_.reply;
  const bool sent = proof_->answer(reply) && send(reply);
  if (reply.status != RIPC_OK || !sent) {
    finish(sent ? reply.status : RIPC_PEER_DEAD);
    return;
  }
  step_ = Step::confirm;
}

void Handshake::on_reply(const HelloReply& reply) {
  greeted_.reply = reply;
  greeted_.reply.message = {};
  if (reply.status == RIPC_VERSION_MISMATCH) {
    finish(other_version(), true);
    return;
  }
  if (Status proven = proof_->judge(reply); !proven.ok()) {
    if (proven == RIPC_REFUSED) authenticator_.count_refused();
    finish(std::move(proven), true);
  } else if (wanted_ != 0 && reply.context != wanted_) {
    // The connection ends before the other process takes this side for a peer.
    finish(Status(RIPC_PEER_DEAD, "Another process answers at the address of the service."), true);
  } else if (reply.status == RIPC_REFUSED) {
    finish(authenticator_.refused_by(greeted_.connection.fd()), true);
  } else if (reply.status != RIPC_OK) {
    const bool is_short = reply.status == RIPC_NO_DESCRIPTORS || reply.status == RIPC_NO_MEMORY;
    finish(believable_greeting(reply.status), !is_short);
  } else if (Status admitted = authenticator_.authorize(greeted_.connection.fd()); !admitted.ok()) {
    const bool is_definite = admitted == RIPC_REFUSED;
    finish(std::move(admitted), is_definite);
  } else {
    Confirm confirm;
    Status proven_back = proof_->confirm(confirm);
    if (!proven_back.ok() || !send(confirm)) {
      finish(proven_back.ok() ? Status(RIPC_PEER_DEAD) : std::move(proven_back));
    } else {
      succeed(true);
    }
  }
}

void Handshake::on_confirm(const Confirm& confirm) {
  Status proven = proof_->judge(confirm);
  if (proven.ok()) {
    succeed(false);
    return;
  }
  if (proven == RIPC_REFUSED) authenticator_.count_refused();
  greeted_.proven = proof_->take();
  if (greeted_.proven.session) {
    turn_away(std::move(proven));
  } else {
    finish(std::move(proven));
  }
}

// For the other end the handshake has succeeded, so it is told as in a session. Bytes that it has sent are read:
// otherwise the connection would be reset, and the message lost.
void Handshake::turn_away(Status reason) {
  protect(false);
  std::vector<std::byte> bytes;
  (void)wire::session_control::encode(wire::session_control::Bye{.status = RIPC_REFUSED}, bytes);
  (void)greeted_.connection.send(bytes.data(), bytes.size());
  (void)::shutdown(greeted_.connection.fd(), SHUT_WR);
  reason_ = std::move(reason);
  step_ = Step::leaving;
}

void Handshake::drain() {
  const ssize_t got =
      ::recv(greeted_.connection.fd(), nullptr, wire::session_control::kMaxSize, MSG_DONTWAIT | MSG_TRUNC);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) finish(std::move(reason_));
}

void Handshake::succeed(bool is_initiator) {
  greeted_.proven = proof_->take();
  if (greeted_.proven.session) protect(is_initiator);
  leave_out_pacing(greeted_.connection.fd());
  finish({});
}

void Handshake::protect(bool is_initiator) {
  const Proven& proven = greeted_.proven;
  greeted_.connection.protect(proven.session->protection, is_initiator ? proven.to_responder : proven.to_initiator,
                              is_initiator ? proven.to_initiator : proven.to_responder, authenticator_.counters());
}

}  // namespace ripc::internal::remote
