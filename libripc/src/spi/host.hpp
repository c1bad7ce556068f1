// SPDX-License-Identifier: Apache-2.0
// Core, as transports see it.
#pragma once

#include <cstdint>

#include "spi/channel.hpp"
#include "spi/source.hpp"

namespace ripc::internal::spi {

// Called in the responder without locks held, unless a line says otherwise.
class Host {
 public:
  // A control packet for one of our services (checked for existence by core).
  virtual void control_packet(Source& source, ripc_service_id destination, Bytes packet) noexcept = 0;
  // A transfer has finished. May also be called in a thread that waits for the end of a transfer. True: the transfer is
  // gone, and its name is no longer valid. False: no one has asked for notification (yet); Channel::poll_transfer() or
  // revoke() will report the end.
  virtual bool transfer_finished(Channel& channel, std::uint64_t transfer, ripc_status status) noexcept = 0;
  virtual void room(Channel& channel) noexcept = 0;
  // The channel is dead: its transfers and grants have ended. RIPC_CLOSED: the service was withdrawn or taken over;
  // RIPC_PEER_DEAD: its process has gone, or cannot be reached any more.
  virtual void channel_lost(Channel& channel, ripc_status why) noexcept = 0;
  // Another context took this ID over. RIPC_NO_MEMORY: core could not check that; call again.
  virtual ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept = 0;
  // The address() of a transport has changed.
  virtual void address_changed() noexcept = 0;

 protected:
  ~Host() = default;
};

}  // namespace ripc::internal::spi
