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
  // Also in a thread that waits for such an end. A transfer has finished. True: it is gone, its name means nothing any
  // more. False: no one asked for notification (yet); Channel::poll_transfer() or revoke() says it.
  virtual bool transfer_finished(Channel& channel, std::uint64_t transfer, ripc_status status) noexcept = 0;
  virtual void room(Channel& channel) noexcept = 0;
  // The channel is dead: its transfers and grants have ended. RIPC_CLOSED: the service was withdrawn or taken over;
  // RIPC_PEER_DEAD: its process has gone, or cannot be reached any more.
  virtual void channel_lost(Channel& channel, ripc_status why) noexcept = 0;
  // Another context took this ID over. RIPC_NO_MEMORY: that could not be found out; tell it again.
  virtual ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept = 0;
  // A transport's address() says something else than before.
  virtual void address_changed() noexcept = 0;

 protected:
  ~Host() = default;
};

}  // namespace ripc::internal::spi
