// SPDX-License-Identifier: Apache-2.0
// The first three frames of every TCP connection: Hello, HelloReply, Confirm. After them each end knows which context
// the other one is and, where they have something to prove (proof.hpp), that it may be there; then the connection is
// protected.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/event_loop.hpp"
#include "base/status.hpp"
#include "remote/session/authenticator.hpp"
#include "remote/session/endpoint.hpp"
#include "remote/session/secure_socket.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

// What the connecting end sends, and the secret of a session that was proven.
struct Greeting {
  wire::session_control::Hello hello;
  std::optional<SessionSecret> session;
};

// How a handshake ended. Only what belongs to the handshake was read: the next byte is the first of what follows.
struct Greeted {
  Status status;
  // The peer's machine has said that nobody is there, or the peer itself has said no: trying again soon is no use.
  bool definite = false;
  SecureSocket connection;
  wire::session_control::Hello hello;  // without what belongs to the proof
  wire::session_control::HelloReply reply;
  Proven proven;
};

// Responder only. Lives until it has called `done`, once, or was cancelled.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  // Called once, from the loop. Nobody handles the std::bad_alloc that it may throw: it must itself end what the
  // handshake was for.
  using Done = std::function<void(Greeted)>;
  // For the answering end. Each is called once, and the proof is judged between the two calls.
  struct Decide {
    // The secret that a connection is to be proven with, unless it begins a session. RIPC_PEER_DEAD: there is no such
    // session.
    std::function<Result<std::optional<SessionSecret>>(const wire::session_control::Hello&)> find;
    // Makes the answer.
    std::function<wire::session_control::HelloReply(const wire::session_control::Hello&, int socket)> answer;
  };

  // `context`: the one that is wanted; 0: any that answers.
  static std::shared_ptr<Handshake> dial(EventLoop& loop, Authenticator& authenticator, const Endpoint& remote,
                                         const Greeting& greeting, std::uint64_t context, Deadline deadline, Done done);
  static std::shared_ptr<Handshake> accept(EventLoop& loop, Authenticator& authenticator, GuardedSocket socket,
                                           Deadline deadline, Decide decide, Done done);
  ~Handshake();

  // Ends the handshake without calling `done`.
  void cancel() noexcept;
  bool over() const noexcept { return step_ == Step::over; }

 private:
  enum class Step { connecting, hello, reply, confirm, leaving, over };

  Handshake(EventLoop& loop, Authenticator& authenticator, Step step, Done done)
      : loop_(loop), authenticator_(authenticator), step_(step), done_(std::move(done)) {}
  void begin(std::uint32_t events, Deadline deadline);
  void on_event() noexcept;
  void go_on();
  void on_connected();
  void on_frame();
  // RIPC_OK: frame_ is a whole frame; RIPC_PENDING; anything else is the end.
  ripc_status read_frame();
  template <typename T>
  bool send(const T& frame);
  void on_hello(const wire::session_control::Hello& hello);
  void on_reply(const wire::session_control::HelloReply& reply);
  void on_confirm(const wire::session_control::Confirm& confirm);
  void succeed(bool is_initiator);
  void protect(bool is_initiator);
  void turn_away(Status reason);
  void drain();
  void finish(Status status, bool definite = false) noexcept;
  void leave_loop() noexcept;

  EventLoop& loop_;
  Authenticator& authenticator_;
  Step step_;
  Done done_;
  Decide decide_;
  std::optional<SessionSecret> session_;  // of the connecting end, for a further connection
  std::optional<Proof> proof_;
  std::uint64_t wanted_ = 0;
  Endpoint remote_;  // what is dialed
  Greeted greeted_;
  Status reason_;  // leaving
  std::vector<std::byte> frame_;
  std::size_t have_ = 0;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ripc::internal::remote
