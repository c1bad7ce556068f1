// SPDX-License-Identifier: Apache-2.0
// The transport SPI: how core moves packets and bulk memory, whatever carries them. A transport implements Transport,
// Port, Source and Channel; core implements Host and PacketSink. The picture is in docs/architecture.md.
//
// Threads: the *responder* is the context's background thread. "Any" means any thread, also several at once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/event_loop.hpp"
#include "base/status.hpp"
#include "spi/address.hpp"
#include "spi/channel.hpp"
#include "spi/host.hpp"
#include "spi/port.hpp"

namespace ripc::internal::spi {

// The status that every transport gives for a process that is there but does not answer.
inline Status not_answering() {
  return Status(RIPC_TIMEOUT, "The process that holds the service does not answer; is it stopped?");
}

// A way to a service that was opened.
struct Connected {
  std::shared_ptr<Channel> channel;
  Address address = {};          // the one that answered
  bool is_on_this_host = false;  // the peer, as far as that address tells
};

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  std::string_view name() const noexcept { return name_; }
  // The directory that both processes must use to meet by this transport; "": they meet anywhere.
  const std::string& rendezvous_directory() const noexcept { return rendezvous_directory_; }

  // Before any other call. The loop is the responder's.
  virtual Status start(Host& host, EventLoop& loop) = 0;

  // In the responder, when core is done with all channels and ports. Ends every connection.
  virtual void stop() noexcept = 0;

  // Any. Where this context can be reached now. An address without a locator: nowhere.
  virtual Address address() const = 0;

  // Any. False: no one is at this address, as far as can be told at once and without being noticed there.
  virtual bool may_lead(const Address& address) const noexcept = 0;

  // Any. Opens the receive side of a service; its events go to `events`, which outlives the port.
  virtual Result<std::unique_ptr<Port>> open_port(const PortOptions& options, EventSet& events) = 0;

  // Any, also the responder. Opens the way to a service that has these addresses, best first, or returns the one that
  // is open. A transport whose addresses may not answer tries them in parallel. RIPC_NO_SERVICE (no such service
  // there), RIPC_PEER_DEAD (no one there), RIPC_REFUSED, RIPC_VERSION_MISMATCH, RIPC_TIMEOUT, RIPC_NO_DESCRIPTORS,
  // RIPC_NO_MEMORY, RIPC_LIMIT.
  virtual Result<Connected> connect(std::span<const Address> addresses, ripc_service_id id, Deadline deadline) = 0;

  // Any. Tells the context at `address` that its registration of `id` has ended, and waits for its answer.
  virtual Status fence(const Address& address, ripc_service_id id, std::uint64_t incarnation, Deadline deadline) = 0;

 protected:
  // The name is static text.
  explicit Transport(std::string_view name, std::string rendezvous_directory = {})
      : name_(name), rendezvous_directory_(std::move(rendezvous_directory)) {}

 private:
  const std::string_view name_;
  const std::string rendezvous_directory_;
};

}  // namespace ripc::internal::spi
