// SPDX-License-Identifier: Apache-2.0
// Calls of the transport SPI in the form that most tests need.
#pragma once

#include <memory>
#include <span>

#include "spi/transport.hpp"

namespace ripc::internal::test {

inline Result<std::shared_ptr<spi::Channel>> connect(spi::Transport& transport, const spi::Address& address,
                                                     ripc_service_id id, Deadline deadline) {
  Result<spi::Connected> connected = transport.connect({&address, 1}, id, deadline);
  if (!connected.ok()) return connected.status();
  return std::move(connected->channel);
}

inline ripc_status send(spi::Channel& channel, spi::Bytes packet, bool more = false) noexcept {
  return channel.send({.kind = spi::Outgoing::Kind::packet, .more = more, .packet = std::span(&packet, 1)});
}

// Sends what waits for more.
inline void flush(spi::Channel& channel) noexcept {
  std::size_t none = 0;
  (void)channel.send_many({}, none);
}

inline ripc_status revoke(spi::Channel& channel, std::uint64_t transfer) noexcept {
  bool is_read = false;
  return channel.revoke(transfer, is_read);
}

}  // namespace ripc::internal::test
