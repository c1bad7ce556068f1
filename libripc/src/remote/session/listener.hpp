// SPDX-License-Identifier: Apache-2.0
// The TCP socket to which other contexts connect, and the handshakes that are under way there.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "base/event_loop.hpp"
#include "base/standing_timer.hpp"
#include "remote/session/authenticator.hpp"
#include "remote/session/endpoint.hpp"
#include "remote/session/handshake.hpp"

namespace ripc::internal::remote {

// Responder only, but for port().
class Listener {
 public:
  // `bind_address`: an IP, or empty: all. `decide` and `accepted` are as in Handshake. `accepted` is called for good
  // handshakes, and also for those that fail for want of memory after the other end was told that all is well.
  static Result<std::unique_ptr<Listener>> open(EventLoop& loop, Authenticator& authenticator,
                                                const std::string& bind_address, PortRange ports, Nanoseconds patience,
                                                Handshake::Decide decide, Handshake::Done accepted);
  ~Listener();

  std::uint16_t port() const noexcept { return port_; }
  // IPv6 too.
  bool dual_stack() const noexcept { return dual_stack_; }

 private:
  Listener(EventLoop& loop, Authenticator& authenticator, Nanoseconds patience, Handshake::Decide decide,
           Handshake::Done accepted)
      : loop_(loop),
        authenticator_(authenticator),
        patience_(patience),
        decide_(std::move(decide)),
        accepted_(std::move(accepted)) {}
  Status bind(const std::string& bind_address, PortRange ports);
  void accept_all();
  // A handshake under way, and the list that it is in.
  struct Guest {
    std::shared_ptr<Handshake> handshake;
    std::list<Guest>* list;
  };
  using Guests = std::list<Guest>;
  void greet(GuardedSocket socket);
  void make_room(Guests& guests) noexcept;
  void look_for_descriptors() noexcept;
  void refuse_without_descriptors();

  EventLoop& loop_;
  Authenticator& authenticator_;
  const Nanoseconds patience_;
  Handshake::Decide decide_;
  Handshake::Done accepted_;
  GuardedSocket socket_;
  UniqueFd reserve_;  // closed to have a descriptor when no other is left
  std::uint16_t port_ = 0;
  bool dual_stack_ = false;
  StandingTimer timer_;  // until there may be descriptors again
  Guests strangers_;     // have not shown yet that they may connect
  Guests known_;         // have: guests that only connect do not displace them
};

}  // namespace ripc::internal::remote
