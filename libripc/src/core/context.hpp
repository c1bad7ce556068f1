// SPDX-License-Identifier: Apache-2.0
// The library in one process: transports, resolver, pool, paths, services, tickets and the responder thread.
#pragma once

#include <memory>
#include <thread>

#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "base/spin.hpp"
#include "core/path/paths.hpp"
#include "core/service_table.hpp"
#include "core/state/context_parts.hpp"
#include "core/state/group_table.hpp"
#include "core/state/message.hpp"
#include "core/state/ticket.hpp"
#include "core/state/window_queue.hpp"
#include "memory/pool.hpp"
#include "spi/resolver.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::core {

class WatchTable;

class Context final : public spi::Host {
 public:
  static Result<std::unique_ptr<Context>> create(ContextParts parts);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ServiceTable& services() noexcept { return services_; }
  Paths& paths() noexcept { return paths_; }
  GroupTable& groups() noexcept { return groups_; }
  WatchTable& watches() noexcept { return *watches_; }
  TicketKeeper& tickets() noexcept { return tickets_; }
  WindowQueue& windows() noexcept { return windows_; }
  MessagePools& message_pools() noexcept { return message_pools_; }
  memory::Pool& pool() const noexcept { return *parts_.pool; }
  EventLoop& loop() const noexcept { return *loop_; }
  spi::Resolver& resolver() const noexcept { return *parts_.resolver; }
  Nanoseconds resolve_timeout() const noexcept { return parts_.resolve_timeout; }
  Spin spin() const noexcept { return parts_.spin; }
  const security::Credentials& credentials() const noexcept { return parts_.credentials; }
  std::uint64_t id() const noexcept { return parts_.id; }
  // False in a child process that was forked from the one that made the context.
  bool usable() const noexcept { return ForkGuard::known_generation() == fork_generation_; }

  // Visits the living members. RIPC_INVALID_ARGUMENT: not a group.
  Status group_members(ripc_service_id group, const spi::Visit& visit) const;
  Status unregister_memory(void* data);
  // Any thread. Called when a resolver has learned of a change.
  void resolver_changed(const spi::Change& change) noexcept;

  // spi::Host
  void control_packet(spi::Source& source, ripc_service_id destination, spi::Bytes packet) noexcept override;
  bool transfer_finished(spi::Channel& channel, std::uint64_t transfer, ripc_status status) noexcept override {
    return tickets_.transfer_finished(channel, transfer, status);
  }
  void room(spi::Channel& channel) noexcept override;
  void channel_lost(spi::Channel& channel, ripc_status why) noexcept override;
  ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept override {
    return services_.fenced(id, incarnation);
  }
  void address_changed() noexcept override { services_.publish_addresses(); }

 private:
  Context(ContextParts parts, std::unique_ptr<EventLoop> loop);
  Status start();
  // Fences a service of this context that has lost its ID to this registration, if there is one.
  void fence_displaced(const spi::ServiceRecord& now) noexcept;

  std::unique_ptr<EventLoop> loop_;      // outlives whatever uses it: transports, and everything that holds channels
  std::unique_ptr<WatchTable> watches_;  // outlives the resolver, which reports changes to it
  ContextParts parts_;
  MessagePools message_pools_;
  std::uint64_t fork_generation_;
  Paths paths_;
  GroupTable groups_;
  TicketKeeper tickets_;
  WindowQueue windows_;
  ServiceTable services_;
  EventLoop::Prepared stop_;  // ends the transports and the loop
  std::thread responder_;
};

}  // namespace ripc::internal::core
