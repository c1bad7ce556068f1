// SPDX-License-Identifier: Apache-2.0
// Connects to a context that has several addresses: tries them concurrently and takes the first that answers as the
// wanted context.
#pragma once

#include <memory>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/session/authenticator.hpp"
#include "remote/session/endpoint.hpp"
#include "remote/session/handshake.hpp"

namespace ripc::internal::remote {

// Responder only. Lives until it has called `done`, once, or was cancelled.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  // `context`: the one that is wanted; 0: any that answers. The addresses are tried in their order, each a moment after
  // the one before it, or as soon as that one has failed.
  static std::shared_ptr<Dialer> dial(EventLoop& loop, Authenticator& authenticator, std::vector<Endpoint> endpoints,
                                      const Greeting& greeting, std::uint64_t context, Deadline deadline,
                                      Handshake::Done done);
  ~Dialer();
  void cancel() noexcept;
  bool over() const noexcept { return over_; }
  // Whether it is under way to this address.
  bool dials(const Endpoint& remote) const noexcept;

 private:
  Dialer(EventLoop& loop, Authenticator& authenticator, std::vector<Endpoint> endpoints, Greeting greeting,
         std::uint64_t context, Deadline deadline, Handshake::Done done)
      : loop_(loop),
        authenticator_(authenticator),
        endpoints_(std::move(endpoints)),
        greeting_(std::move(greeting)),
        context_(context),
        deadline_(deadline),
        done_(std::move(done)) {}
  void next() noexcept;
  void attempt(std::size_t index);
  void on_done(Greeted greeted) noexcept;
  void finish(Greeted greeted) noexcept;

  EventLoop& loop_;
  Authenticator& authenticator_;
  const std::vector<Endpoint> endpoints_;
  const Greeting greeting_;
  const std::uint64_t context_;
  const Deadline deadline_;
  Handshake::Done done_;
  std::vector<std::shared_ptr<Handshake>> attempts_;
  std::size_t failed_ = 0;
  bool over_ = false;
  bool all_definite_ = true;
  Status failure_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ripc::internal::remote
