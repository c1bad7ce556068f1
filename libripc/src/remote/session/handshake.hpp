// SPDX-License-Identifier: Apache-2.0
// The first three frames of every TCP connection: Hello, HelloReply, Confirm. After them each end knows which context
// the other one is and, with a cluster key, that it belongs to the cluster.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/event_loop.hpp"
#include "base/status.hpp"
#include "remote/session/authenticator.hpp"
#include "remote/session/endpoint.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

// How a handshake ended. Only what belongs to the handshake was read: the next byte is the first of what follows.
struct Greeted {
  Status status;
  // The peer's machine has said that nobody is there, or the peer itself has said no: trying again soon is no use.
  bool definite = false;
  GuardedSocket socket;
  wire::session_control::Hello hello;
  wire::session_control::HelloReply reply;
};

// Responder only. Lives until it has called `done`, once, or was cancelled.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  // Called once, from the loop. What it throws for want of memory is nobody's: it has to end what it was for.
  using Done = std::function<void(Greeted)>;
  // What to answer; nonce and mac are filled in by the handshake.
  using Decide = std::function<wire::session_control::HelloReply(const wire::session_control::Hello&, int socket)>;

  // `context`: who is wanted; 0: whoever answers.
  static std::shared_ptr<Handshake> dial(EventLoop& loop, Authenticator& authenticator, const Endpoint& remote,
                                         const wire::session_control::Hello& hello, std::uint64_t context,
                                         Deadline deadline, Done done);
  static std::shared_ptr<Handshake> accept(EventLoop& loop, Authenticator& authenticator, GuardedSocket socket,
                                           Deadline deadline, Decide decide, Done done);
  ~Handshake();

  // Ends it without a word.
  void cancel() noexcept;
  bool over() const noexcept { return step_ == Step::over; }

 private:
  enum class Step { connecting, hello, reply, confirm, over };

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
  void finish(Status status, bool definite = false) noexcept;
  void leave_loop() noexcept;

  EventLoop& loop_;
  Authenticator& authenticator_;
  Step step_;
  Done done_;
  Decide decide_;
  std::uint64_t wanted_ = 0;
  Endpoint remote_;  // what is dialed
  Greeted greeted_;
  std::vector<std::byte> frame_;
  std::size_t have_ = 0;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ripc::internal::remote
