// SPDX-License-Identifier: Apache-2.0
// The services of one context: registering them, finding them by ID, and publishing where they can be reached.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/event_loop.hpp"
#include "base/status.hpp"
#include "core/state/context_parts.hpp"

namespace ripc::internal::core {

class Context;
class Service;

struct ServiceOptions {
  ripc_service_id id = 0;
  std::string name;
  bool takeover = false;
  std::uint32_t queue_messages = 128;
  std::uint32_t queue_bytes = 8192;
  std::uint32_t max_senders = 4096;
  std::uint32_t max_messages = 65536;
};

// Any thread.
class ServiceTable {
 public:
  // The parts belong to the context.
  ServiceTable(Context& context, ContextParts& parts, EventLoop& loop);

  Result<Service*> add(const ServiceOptions& wanted);
  void remove(Service* service) noexcept;
  void remove_all() noexcept;
  // Null if there is none.
  std::shared_ptr<Service> find(ripc_service_id id) noexcept;
  // Calls `visit` for each service, in the order of their IDs. Allocates nothing, and holds no lock during the calls.
  template <typename Visit>
  void for_each(Visit visit) noexcept {
    for (std::shared_ptr<Service> service = next(0); service; service = next(id_of(*service))) visit(*service);
  }

  // Publishes the addresses of this context for its services, where they differ from the published ones. Keeps trying
  // if that fails.
  void publish_addresses() noexcept;
  // Called when another context claims to have taken this ID over. RIPC_NO_MEMORY: the claim could not be checked.
  ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept;

 private:
  // Held by a thread while it registers an ID: other threads that register the same ID wait for it.
  class Registering;
  Result<Service*> add_as(const ServiceOptions& options);
  // The next one after this ID.
  std::shared_ptr<Service> next(ripc_service_id id) noexcept;
  static ripc_service_id id_of(const Service& service) noexcept;
  void publish_addresses(Service& service) noexcept;

  Context& context_;
  ContextParts& parts_;
  EventLoop& loop_;
  std::mutex mutex_;
  std::map<ripc_service_id, std::shared_ptr<Service>> services_;
  // IDs being registered, each with the largest incarnation of a takeover that was reported meanwhile. 0: none was.
  std::unordered_map<ripc_service_id, std::uint64_t> registering_;
  std::condition_variable registering_changed_;
  std::list<std::shared_ptr<Service>> displaced_;  // taken over by another service of this context
  EventLoop::TimerId publish_timer_;
  std::atomic<bool> publish_scheduled_{false};
};

}  // namespace ripc::internal::core
