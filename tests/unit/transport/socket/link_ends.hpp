// SPDX-License-Identifier: Apache-2.0
// Two nodes, of which one sends to a port of the other.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "socket_helpers.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::socket {

class LinkEnds : public ::testing::Test {
 protected:
  // `seals`: both have the same cluster key.
  explicit LinkEnds(bool streams = true, bool seals = false)
      : receiver_(options(true, seals)),
        sender_(options(streams, seals)),
        events_(std::move(EventSet::create().value())),
        port_(receiver_.open_port(events_)) {}
  ~LinkEnds() override { port_.reset(); }

  bool poll_until(std::size_t packets) {
    return eventually([&] {
      (void)port_->poll(sink_, 64);
      return sink_.packets.size() >= packets;
    });
  }

  static TransportOptions options(bool streams, bool seals) {
    TransportOptions chosen;
    chosen.streams = streams;
    if (seals) chosen.credentials.keys = security::keys_of("7");
    return chosen;
  }

  Node receiver_;
  Node sender_;
  EventSet events_;
  std::unique_ptr<remote::UdpPort> port_;
  CollectingSink sink_;
};

}  // namespace ripc::internal::socket
