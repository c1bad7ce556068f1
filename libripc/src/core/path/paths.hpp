// SPDX-License-Identifier: Apache-2.0
// The candidates from one context to services: found, connected and remembered.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/event_loop.hpp"
#include "base/thread_epoch.hpp"
#include "core/state/context_parts.hpp"
#include "core/state/counter.hpp"
#include "core/state/route_table.hpp"

namespace ripc::internal::core {

// Where a service was found, and by which path it would be reached.
struct Resolution {
  spi::ServiceRecord record;
  spi::Address address;
  std::string reason;
  std::string others;  // why each of the other paths is not used
};

// Any thread.
class Paths {
 public:
  // `parts` outlive it, and so does the loop.
  Paths(const ContextParts& parts, EventLoop& loop);

  // Returns the channel to a service. If there is none, finds a path, connects and remembers the channel.
  Result<std::shared_ptr<spi::Channel>> channel_to(ripc_service_id id, Counter& resolutions);
  // The known channel if it is alive, or nullptr.
  std::shared_ptr<spi::Channel> known_channel(ripc_service_id id) const noexcept;
  // Makes a channel to this registration, regardless of the route table.
  Result<std::shared_ptr<spi::Channel>> connect_to(const spi::ServiceRecord& record, Deadline deadline);
  // Forgets this channel, which can no longer be used.
  void drop(const spi::Channel& channel) noexcept;
  // Forgets the channels to this service's former registrations: the next send goes to the one that holds it now.
  void follow(const spi::ServiceRecord& now) noexcept;
  RouteTable& routes() noexcept { return routes_; }

  // Reports the registration that the next send uses. It may be that of a former holder whose end nobody has noticed
  // yet.
  Result<Resolution> resolve(ripc_service_id id);
  // The address that a send tries first, as far as this is known without contacting the service; else one that others
  // may reach. Empty: it has none.
  spi::Address likely_address(const spi::ServiceRecord& record) const {
    return likely_address(record, reachable_address(record));
  }
  // Like resolve(), but tries the paths and reports the one that answers. With a deadline, it may give up earlier than
  // after the resolve_timeout; what it has begun goes on, for the next attempt.
  Result<Resolution> find_path(ripc_service_id id, Deadline deadline = Deadline::never());
  // The way back to a service that has sent to this context and that no resolver knows. RIPC_NO_SERVICE: there is none.
  Result<Resolution> find_way_back(ripc_service_id id, Deadline deadline);
  // The rails of long items to this service. Finds the path if there is none.
  Result<std::vector<spi::RailReport>> rails(ripc_service_id id);

  // The addresses at which this context can be reached now: one for each transport by which it can be reached.
  std::vector<spi::Address> own_addresses() const;
  // Tells the former holder of an ID that it was taken over.
  void fence_former(const spi::ServiceRecord& former, std::uint64_t incarnation) const noexcept;

  // Called when no thread sends any more. Waits for the threads that read the route table.
  void shut_down() noexcept { epochs_.reclaim_all(); }

 private:
  // A search by one thread, shared by all threads that want the path to the same service at that time.
  struct PendingSearch {
    std::optional<Result<std::shared_ptr<spi::Channel>>> result;
  };
  // The addresses of a service on one transport.
  struct Candidate {
    spi::Transport* transport;
    std::vector<spi::Address> addresses;
    bool is_last;  // takes all the time that is left; the others leave some
  };
  // One thread searches, with find(); threads that come meanwhile wait for its result.
  template <typename Find>
  Result<std::shared_ptr<spi::Channel>> search(ripc_service_id id, Deadline deadline, Find find);
  Result<std::shared_ptr<spi::Channel>> result_of(const PendingSearch& search, Deadline deadline);
  Result<std::shared_ptr<spi::Channel>> find_channel(ripc_service_id id, Deadline deadline, Counter& resolutions);
  Result<Resolution> try_paths(ripc_service_id id, Deadline deadline);
  // In order of preference.
  std::vector<Candidate> candidates_for(const std::vector<spi::Address>& addresses) const;
  static Result<spi::Connected> connect(const Candidate& candidate, ripc_service_id id, Deadline deadline);
  Result<spi::Connected> connect(const std::vector<spi::Address>& addresses, ripc_service_id id,
                                 Deadline deadline) const;
  // The channel that is in the route table afterwards.
  std::shared_ptr<spi::Channel> remember(ripc_service_id id, spi::Connected way);
  // Keeps the more informative failure: a refusal says more than a path on which nobody answered.
  static void note_failure(Status& failure, const Status& latest);
  spi::Transport* transport(const std::string& name) const noexcept;
  spi::Address likely_address(const spi::ServiceRecord& record, const spi::Address* reachable) const;
  const spi::Address* reachable_address(const spi::ServiceRecord& record) const noexcept;
  void reclaim_soon() noexcept;
  std::string transport_names() const;
  // Whether one of the addresses is on a transport that this context may not use.
  bool is_withheld(std::span<const spi::Address> addresses) const noexcept;
  Status no_common_transport(const std::vector<spi::Address>& addresses) const;

  const ContextParts& parts_;
  EventLoop& loop_;
  EpochDomain epochs_;
  RouteTable routes_{epochs_};
  std::mutex searches_mutex_;
  std::condition_variable searches_changed_;
  std::unordered_map<ripc_service_id, std::shared_ptr<PendingSearch>> searches_;
  EventLoop::TimerId reclaim_timer_;
  std::atomic<bool> reclaim_scheduled_{false};
};

}  // namespace ripc::internal::core
