// SPDX-License-Identifier: Apache-2.0
// An address: where a service can be reached on one transport.
#pragma once

#include <cstddef>
#include <string>

namespace ripc::internal::spi {

// What resolvers publish and accept; docs/wire.md.
inline constexpr std::size_t kMaxTransportSize = 15;
inline constexpr std::size_t kMaxLocatorSize = 4096;

struct Address {
  std::string transport;  // "shm", "socket", "verbs"
  std::string locator;    // means something to that transport only
  friend bool operator==(const Address&, const Address&) = default;
};

}  // namespace ripc::internal::spi
