// SPDX-License-Identifier: Apache-2.0
// The library in one process: transports, resolver, pool, routes, tickets and the responder thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "base/thread_epoch.hpp"
#include "core/group_table.hpp"
#include "core/message.hpp"
#include "core/route_table.hpp"
#include "core/ticket.hpp"
#include "core/window_queue.hpp"
#include "memory/pool.hpp"
#include "spi/resolver.hpp"
#include "spi/transport.hpp"

namespace ripc::core {

class Service;
class WatchTable;
struct ServiceOptions;

// What a context is made of; the caller has chosen and opened it.
struct ContextParts {
  std::uint64_t id = 0;
  std::unique_ptr<memory::Pool> pool;
  std::vector<std::unique_ptr<spi::Transport>> transports;  // preferred first
  std::vector<std::string> optional;                        // transports that are left out if they cannot start
  std::vector<std::string> withheld;                        // transports that this context may not use
  std::string withheld_reason;                              // "because ...", and what to do about it
  std::unique_ptr<spi::Resolver> resolver;
  Nanoseconds resolve_timeout = 1'000'000'000;
  Nanoseconds spin = 50'000;
  Nanoseconds group_refresh = 250'000'000;
};

// Where a service was found, and by which path it would be reached.
struct Resolution {
  spi::ServiceRecord record;
  spi::Address address;
  std::string reason;
  std::string others;  // what speaks against each of the other paths
};

class Context final : public spi::Host {
 public:
  static Result<std::unique_ptr<Context>> create(ContextParts parts);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Result<Service*> register_service(const ServiceOptions& wanted);
  void unregister_service(Service* service) noexcept;

  Result<Resolution> resolve(ripc_service_id id);
  // The same, with the path that answers when it is tried.
  Result<Resolution> find_path(ripc_service_id id);
  // Visits the living members. RIPC_INVALID_ARGUMENT: not a group.
  Status group_members(ripc_service_id group, const std::function<void(const spi::ServiceRecord&)>& visit) const;
  Status list(const std::function<void(const spi::ServiceRecord&)>& visit) const {
    return parts_.resolver->list(visit);
  }

  // The channel to a service; finds, connects and remembers it if there is none. Any thread.
  Result<std::shared_ptr<spi::Channel>> channel_to(ripc_service_id id, std::atomic<std::uint64_t>& resolutions);
  // The living channel that there is, or nullptr.
  std::shared_ptr<spi::Channel> known_channel(ripc_service_id id) const noexcept;
  // Makes the channel to this registration, whatever the route table says. Any thread.
  Result<std::shared_ptr<spi::Channel>> connect_to(const spi::ServiceRecord& record, Deadline deadline);
  // Where this context can be reached now, one address for each transport by which it can.
  std::vector<spi::Address> addresses() const;
  // Publishes them for the service, if others were published; goes on trying if that fails.
  void publish_addresses(Service& service) noexcept;
  // Tells the former holder of an ID that it was taken over.
  void fence_former(const spi::ServiceRecord& former, std::uint64_t incarnation) noexcept;
  // This channel is of no use any more.
  void drop_channel(const spi::Channel& channel) noexcept;

  Status unregister_memory(void* data);

  memory::Pool& pool() const noexcept { return *parts_.pool; }
  EventLoop& loop() const noexcept { return *loop_; }
  EpochDomain& epochs() noexcept { return epochs_; }
  RouteTable& routes() noexcept { return routes_; }
  GroupTable& groups() noexcept { return groups_; }
  WatchTable& watches() noexcept { return *watches_; }
  spi::Resolver& resolver() const noexcept { return *parts_.resolver; }
  Nanoseconds resolve_timeout() const noexcept { return parts_.resolve_timeout; }
  TicketKeeper& tickets() noexcept { return *tickets_; }
  WindowQueue& windows() noexcept { return windows_; }
  MessagePools& message_pools() noexcept { return message_pools_; }
  Nanoseconds spin() const noexcept { return parts_.spin; }
  std::uint64_t id() const noexcept { return parts_.id; }
  // False in a process forked from the one that made the context.
  bool usable() const noexcept { return ForkGuard::known_generation() == fork_generation_; }

  // spi::Host
  void control_packet(spi::Source& source, ripc_service_id destination, spi::Bytes packet) noexcept override;
  void transfer_finished(spi::Channel& channel, std::uint64_t transfer) noexcept override;
  void room(spi::Channel& channel) noexcept override;
  void channel_lost(spi::Channel& channel, ripc_status why) noexcept override;
  ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept override;
  void address_changed() noexcept override;

 private:
  explicit Context(ContextParts parts);
  Status start();
  // What one thread finds for all that want the way to the same service at that time.
  struct Search {
    std::optional<Result<std::shared_ptr<spi::Channel>>> result;
  };
  Result<std::shared_ptr<spi::Channel>> result_of(const Search& search, Deadline deadline);
  Result<std::shared_ptr<spi::Channel>> find_channel(ripc_service_id id, Deadline deadline,
                                                     std::atomic<std::uint64_t>& resolutions);
  // The addresses of a service on one transport.
  struct Way {
    spi::Transport* transport;
    std::vector<spi::Address> addresses;
    bool is_last;  // others must be left some time
  };
  // Preferred first.
  std::vector<Way> ways_to(const std::vector<spi::Address>& addresses) const;
  Result<std::shared_ptr<spi::Channel>> connect(const std::vector<spi::Address>& addresses, ripc_service_id id,
                                                Deadline deadline);
  spi::Transport* transport(const std::string& name) noexcept;
  void reclaim_soon() noexcept;
  // What a thread holds while it registers an ID: others that register the same one wait for it.
  class Registering;
  Result<Service*> register_as(const ServiceOptions& options);
  Status check_present(const Service& present, const ServiceOptions& options) const;
  std::shared_ptr<Service> service(ripc_service_id id) noexcept;
  // Calls it for each service there is, in the order of their IDs. Takes no memory, and holds no lock meanwhile.
  template <typename Visit>
  void for_each_service(Visit visit) noexcept;
  std::string transport_names() const;
  // Whether one of them is on a transport that this context may not use.
  bool is_withheld(std::span<const spi::Address> addresses) const noexcept;
  Status no_common_transport(const std::vector<spi::Address>& addresses) const;

  std::unique_ptr<EventLoop> loop_;      // outlives what may be in it: transports, and all that hold channels
  std::unique_ptr<WatchTable> watches_;  // outlives the resolver, which tells it of changes
  ContextParts parts_;
  MessagePools message_pools_;
  std::uint64_t fork_generation_;
  EpochDomain epochs_;
  RouteTable routes_{epochs_};
  GroupTable groups_;
  std::unique_ptr<TicketKeeper> tickets_;
  WindowQueue windows_;
  std::mutex mutex_;
  std::map<ripc_service_id, std::shared_ptr<Service>> services_;
  std::unordered_set<ripc_service_id> registering_;
  std::condition_variable registering_changed_;
  std::list<std::shared_ptr<Service>> displaced_;  // taken over by another service of this context
  std::mutex searches_mutex_;
  std::condition_variable searches_changed_;
  std::unordered_map<ripc_service_id, std::shared_ptr<Search>> searches_;
  EventLoop::TimerId reclaim_timer_ = 0;
  EventLoop::TimerId publish_timer_ = 0;
  EventLoop::Prepared stop_;  // ends the transports and the loop
  std::atomic<bool> reclaim_scheduled_{false};
  std::atomic<bool> publish_scheduled_{false};
  std::thread responder_;
};

}  // namespace ripc::core
