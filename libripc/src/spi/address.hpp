// SPDX-License-Identifier: Apache-2.0
// An address: where a service can be reached on one transport.
#pragma once

#include <cstddef>
#include <string>

namespace ripc::internal::spi {

// The largest sizes that resolvers publish and accept; see docs/wire.md.
inline constexpr std::size_t kMaxTransportSize = 15;
inline constexpr std::size_t kMaxLocatorSize = 4096;

struct Address {
  std::string transport;    // "shm", "socket", "verbs"
  std::string locator;      // means something to that transport only
  std::string member = {};  // who must be found there, if the transport can tell; empty: no one is expected
  // Whether both are the same place; the expected peers may differ.
  friend bool operator==(const Address& one, const Address& other) noexcept {
    return one.transport == other.transport && one.locator == other.locator;
  }
};

}  // namespace ripc::internal::spi
