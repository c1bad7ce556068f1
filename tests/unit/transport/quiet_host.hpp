// SPDX-License-Identifier: Apache-2.0
// A core for tests of transports that do not care what a transport reports.
#pragma once

#include "spi/transport.hpp"

namespace ripc::internal::test {

class QuietHost final : public spi::Host {
 public:
  void control_packet(spi::Source&, ripc_service_id, spi::Bytes) noexcept override {}
  bool transfer_finished(spi::Channel&, std::uint64_t, ripc_status) noexcept override { return false; }
  void room(spi::Channel&) noexcept override {}
  void channel_lost(spi::Channel&, ripc_status) noexcept override {}
  ripc_status fenced(ripc_service_id, std::uint64_t) noexcept override { return RIPC_OK; }
  void address_changed() noexcept override {}
};

}  // namespace ripc::internal::test
