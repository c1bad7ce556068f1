// SPDX-License-Identifier: Apache-2.0
#include "remote/session/handshake.hpp"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <new>

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

// The proof of whoever answers was not what this context's key demands.
const char* refused_for_key(bool has_keys, const HelloReply& reply) noexcept {
  if (!has_keys)
    return "The peer is there, but it has a cluster key, and this context runs without one: unset RIPC_NETWORK, and "
           "copy the peer's key file to ~/.config/ripc/cluster.key (mode 600).";
  if (reply.mac == wire::session_control::Mac{})
    return "The peer is there, but it runs without a cluster key (RIPC_NETWORK=open), and this context has one: copy "
           "this host's key file to the peer's ~/.config/ripc/cluster.key, and unset RIPC_NETWORK there.";
  return "The peer is there, but it has another cluster key than this context: copy the key file of one host to the "
         "other (~/.config/ripc/cluster.key, or RIPC_CLUSTER_KEY_FILE).";
}

// What a peer can honestly answer to a greeting.
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
                                           const Hello& hello, std::uint64_t context, Deadline deadline, Done done) {
  std::shared_ptr<Handshake> handshake(new Handshake(loop, authenticator, Step::connecting, std::move(done)));
  handshake->wanted_ = context;
  handshake->remote_ = remote;
  handshake->greeted_.hello = hello;
  handshake->greeted_.hello.nonce = random_nonce();
  Result<GuardedSocket> socket = open_socket(remote.family(), SOCK_STREAM);
  if (!socket.ok()) {
    handshake->finish(socket.status());
    return handshake;
  }
  handshake->greeted_.socket = std::move(*socket);
  const int fd = handshake->greeted_.socket.fd.get();
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
  handshake->greeted_.socket = std::move(socket);
  handshake->begin(EPOLLIN, deadline);
  return handshake;
}

Handshake::~Handshake() { cancel(); }

void Handshake::begin(std::uint32_t events, Deadline deadline) {
  const int on = 1;
  (void)setsockopt(greeted_.socket.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
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
      loop_.add(greeted_.socket.fd.get(), events, [self = shared_from_this()](std::uint32_t) { self->on_event(); });
  if (!status.ok()) finish(status);
}

void Handshake::leave_loop() noexcept {
  if (timer_ != 0) loop_.cancel_timer(timer_);
  timer_ = 0;
  if (greeted_.socket.fd) loop_.remove(greeted_.socket.fd.get());
}

void Handshake::cancel() noexcept {
  if (step_ == Step::over) return;
  const auto self = weak_from_this().lock();  // the loop may hold the last reference
  step_ = Step::over;
  leave_loop();
  greeted_.socket.close();
}

void Handshake::finish(Status status, bool definite) noexcept {
  if (step_ == Step::over) return;
  const auto self = weak_from_this().lock();
  step_ = Step::over;
  leave_loop();
  greeted_.status = std::move(status);
  greeted_.definite = definite;
  if (!greeted_.status.ok() && greeted_.socket.fd) {
    // What was said last should arrive.
    (void)::shutdown(greeted_.socket.fd.get(), SHUT_WR);
    greeted_.socket.close();
  }
  try {
    if (done_) done_(std::move(greeted_));
  } catch (const std::bad_alloc&) {
    // Said by Done: it has done what it had to.
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
  while (step_ != Step::over) {
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
  (void)getsockopt(greeted_.socket.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    finish(connect_failure(error, remote_), error == ECONNREFUSED);
    return;
  }
  if (!send(greeted_.hello)) {
    finish(RIPC_PEER_DEAD);
    return;
  }
  step_ = Step::reply;
  (void)loop_.modify(greeted_.socket.fd.get(), EPOLLIN);
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
    // No byte more than the frame has: what follows is for somebody else.
    const ssize_t got = recv(greeted_.socket.fd.get(), frame_.data() + have_, size - have_, MSG_DONTWAIT);
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
  // A new connection has room for so little.
  const ssize_t sent = ::send(greeted_.socket.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
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
    greeted_.hello = std::get<Hello>(*frame);
    greeted_.reply = decide_(greeted_.hello, greeted_.socket.fd.get());
    greeted_.reply.nonce = random_nonce();
    authenticator_.sign(greeted_.hello, greeted_.reply);
    const bool sent = send(greeted_.reply);
    if (greeted_.reply.status != RIPC_OK || !sent) {
      finish(sent ? greeted_.reply.status : RIPC_PEER_DEAD);
      return;
    }
    step_ = Step::confirm;
  } else if (step_ == Step::reply && std::holds_alternative<HelloReply>(*frame)) {
    greeted_.reply = std::get<HelloReply>(*frame);
    if (greeted_.reply.status == RIPC_VERSION_MISMATCH) {
      finish(other_version(), true);
    } else if (!authenticator_.verify(greeted_.hello, greeted_.reply)) {
      authenticator_.count_refused();
      finish(Status(RIPC_REFUSED, refused_for_key(authenticator_.has_keys(), greeted_.reply)), true);
    } else if (wanted_ != 0 && greeted_.reply.context != wanted_) {
      // Before it takes this side for a peer.
      finish(Status(RIPC_PEER_DEAD, "Another process answers at the address of the service."), true);
    } else if (greeted_.reply.status == RIPC_REFUSED) {
      finish(authenticator_.refused_by(greeted_.socket.fd.get()), true);
    } else if (greeted_.reply.status != RIPC_OK) {
      finish(believable_greeting(greeted_.reply.status), true);
    } else if (Status admitted = authenticator_.authorize(greeted_.socket.fd.get()); !admitted.ok()) {
      const bool is_definite = admitted == RIPC_REFUSED;
      finish(std::move(admitted), is_definite);
    } else if (!send(authenticator_.confirm(greeted_.hello, greeted_.reply))) {
      finish(RIPC_PEER_DEAD);
    } else {
      finish({});
    }
  } else if (step_ == Step::confirm && std::holds_alternative<Confirm>(*frame)) {
    if (authenticator_.verify(greeted_.hello, greeted_.reply, std::get<Confirm>(*frame))) {
      finish({});
    } else {
      finish(Status(RIPC_REFUSED, "A peer without this context's cluster key was refused."));
    }
  } else {
    finish(RIPC_CORRUPT, true);
  }
}

}  // namespace ripc::internal::remote
