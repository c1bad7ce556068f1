// SPDX-License-Identifier: Apache-2.0
// Sockets that seal what they send.
#pragma once

#include <memory>

#include "remote/session/secure_socket.hpp"

namespace ripc::internal::remote {

// The keys and counters with which the two ends of a connection seal.
struct Sealing {
  void protect_one(SecureSocket& socket) const { socket.protect(protection, there, back, counters); }
  void protect_two(SecureSocket& socket) const { socket.protect(protection, back, there, counters); }

  const security::Protection protection{.suite = security::choose_suite(security::own_suites(), ~0U)};
  const security::Secret there = security::Secret::random();
  const security::Secret back = security::Secret::random();
  const CountersPointer counters = std::make_shared<security::Counters>();
};

}  // namespace ripc::internal::remote
