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
  // The parts are the context's.
  ServiceTable(Context& context, ContextParts& parts, EventLoop& loop);

  Result<Service*> add(const ServiceOptions& wanted);
  void remove(Service* service) noexcept;
  void remove_all() noexcept;
  // Null: there is none.
  std::shared_ptr<Service> find(ripc_service_id id) noexcept;
  // Calls it for each service there is, in the order of their IDs. Takes no memory, and holds no lock meanwhile.
  template <typename Visit>
  void for_each(Visit visit) noexcept {
    for (std::shared_ptr<Service> service = next(0); service; service = next(id_of(*service))) visit(*service);
  }

  // Publishes the addresses of this context for its services, where others were published; goes on trying if that
  // fails.
  void publish_addresses() noexcept;
  // Another context says that it took this ID over. RIPC_NO_MEMORY: that could not be found out.
  ripc_status fenced(ripc_service_id id, std::uint64_t incarnation) noexcept;

 private:
  // What a thread holds while it registers an ID: others that register the same one wait for it.
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
  // With the largest incarnation that a report of a takeover had meanwhile. 0: there was none.
  std::unordered_map<ripc_service_id, std::uint64_t> registering_;
  std::condition_variable registering_changed_;
  std::list<std::shared_ptr<Service>> displaced_;  // taken over by another service of this context
  EventLoop::TimerId publish_timer_;
  std::atomic<bool> publish_scheduled_{false};
};

}  // namespace ripc::internal::core
