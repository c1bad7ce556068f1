// SPDX-License-Identifier: Apache-2.0
#include "core/service_table.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/group_id.hpp"
#include "base/loop_wait.hpp"
#include "core/service.hpp"
#include "core/service_id.hpp"

namespace ripc::internal::core {

namespace {

// The pause after addresses could not be published.
constexpr Nanoseconds kPublishPause = 1'000'000'000;
// A random ID of 62 bits is hardly ever in use: after so many attempts, something else is wrong.
constexpr int kRandomIdAttempts = 16;

Status check_present(const Service& present, const ServiceOptions& options) {
  if (is_named(options.id) && present.name() != options.name)
    return Status(RIPC_NAME_COLLISION, "This context has a service of another name under the same ID: '" +
                                           present.name() + "'. Rename one of the two.");
  if (!options.takeover)
    return Status(RIPC_ID_IN_USE,
                  "This context has a service under this ID already: unregister it, or ask for takeover.");
  return {};
}

}  // namespace

ServiceTable::ServiceTable(Context& context, ContextParts& parts, EventLoop& loop)
    : context_(context), parts_(parts), loop_(loop), publish_timer_(loop.make_timer([this] {
        publish_scheduled_.store(false, std::memory_order_release);
        publish_addresses();
      })) {}

class ServiceTable::Registering {
 public:
  Registering(ServiceTable& table, ripc_service_id id) : table_(table), id_(id) {
    std::unique_lock lock(table_.mutex_);
    (void)wait_in(table_.loop_, lock, table_.registering_changed_, Deadline::never(),
                  [this] { return !table_.registering_.contains(id_); });
    table_.registering_.emplace(id_, 0);
  }
  ~Registering() {
    {
      const std::lock_guard lock(table_.mutex_);
      table_.registering_.erase(id_);
    }
    table_.registering_changed_.notify_all();
    // The responder waits in its loop.
    table_.loop_.wake_from_elsewhere();
  }
  std::uint64_t reported() const noexcept {
    const std::lock_guard lock(table_.mutex_);
    return table_.registering_.at(id_);
  }
  Registering(const Registering&) = delete;
  Registering& operator=(const Registering&) = delete;

 private:
  ServiceTable& table_;
  ripc_service_id id_;
};

Result<Service*> ServiceTable::add(const ServiceOptions& wanted) {
  if (wanted.id != 0) return add_as(wanted);
  ServiceOptions options = wanted;
  for (int attempt = 0;; ++attempt) {
    options.id = random_service_id();
    Result<Service*> registered = add_as(options);
    if (registered.ok() || registered.status().code() != RIPC_ID_IN_USE || attempt >= kRandomIdAttempts)
      return registered;
  }
}

Result<Service*> ServiceTable::add_as(const ServiceOptions& options) {
  const Registering registering(*this, options.id);
  std::shared_ptr<Service> present = find(options.id);
  if (present) {
    if (Status status = check_present(*present, options); !status.ok()) return status;
  }
  Result<EventSet> events = EventSet::create();
  if (!events.ok()) return events.status();
  auto service = std::make_shared<Service>(context_, options, std::move(*events));
  Service* const handle = service.get();
  decltype(displaced_) displaced(1);
  // Entered before the service can be found: a notification or a fence may arrive at once.
  {
    const std::lock_guard lock(mutex_);
    // The present one may have been unregistered since the first look.
    present = std::exchange(services_[options.id], service);
    displaced.front() = present;
    if (present) displaced_.splice(displaced_.end(), displaced);
  }
  Status status;
  try {
    status = service->open(parts_.transports);
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  if (status.ok()) {
    // They may have changed before the service was known to be published.
    publish_addresses(*handle);
    if (present) present->fence();
    if (const std::uint64_t reported = registering.reported(); reported != 0) (void)fenced(options.id, reported);
    return handle;
  }
  // The present service continues, if it was not unregistered meanwhile. It keeps its entry, because a new one might
  // find no memory.
  bool continues = false;
  {
    const std::lock_guard lock(mutex_);
    continues = std::erase(displaced_, present) != 0;
    if (continues) {
      services_.find(options.id)->second = present;
    } else {
      services_.erase(options.id);
    }
  }
  service->close();
  if (continues) {
    // What happened meanwhile did not reach it.
    publish_addresses(*present);
    present->changed();
  }
  // A report meanwhile that yet another holder has taken the ID over did not find this service.
  if (present) (void)fenced(options.id, UINT64_MAX);
  return status;
}

void ServiceTable::remove(Service* service) noexcept {
  std::shared_ptr<Service> owned;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = services_.find(service->id()); found != services_.end() && found->second.get() == service) {
      owned = std::move(found->second);
      services_.erase(found);
    } else {
      const auto displaced = std::find_if(displaced_.begin(), displaced_.end(),
                                          [&](const auto& candidate) { return candidate.get() == service; });
      if (displaced == displaced_.end()) return;
      owned = std::move(*displaced);
      displaced_.erase(displaced);
    }
  }
  owned->close();
}

void ServiceTable::remove_all() noexcept {
  decltype(services_) services;
  decltype(displaced_) displaced;
  {
    const std::lock_guard lock(mutex_);
    services.swap(services_);
    displaced.swap(displaced_);
  }
  for (const auto& [id, service] : services) service->close();
  for (const auto& service : displaced) service->close();
}

std::shared_ptr<Service> ServiceTable::find(ripc_service_id id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(id);
  return found == services_.end() ? nullptr : found->second;
}

std::shared_ptr<Service> ServiceTable::next(ripc_service_id id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = services_.upper_bound(id);
  return found == services_.end() ? nullptr : found->second;
}

ripc_service_id ServiceTable::id_of(const Service& service) noexcept { return service.id(); }

void ServiceTable::publish_addresses() noexcept {
  for_each([this](Service& service) { publish_addresses(service); });
}

void ServiceTable::publish_addresses(Service& service) noexcept {
  ripc_status status = RIPC_NO_MEMORY;
  try {
    status = service.publication().publish_addresses().code();
  } catch (const std::bad_alloc&) {
    // Try again later, as after any other temporary failure.
  }
  // If it was fenced, the record is another holder's business now. A record that is too large stays too large.
  if (status == RIPC_OK || status == RIPC_FENCED || status == RIPC_LIMIT || status == RIPC_INVALID_ARGUMENT) return;
  if (publish_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  loop_.set_timer(publish_timer_, monotonic_now() + kPublishPause);
}

ripc_status ServiceTable::fenced(ripc_service_id id, std::uint64_t incarnation) noexcept try {
  std::shared_ptr<Service> target;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = services_.find(id); found != services_.end()) target = found->second;
    // The service has no incarnation yet, so this may be a late report of the previous takeover. It is checked after
    // the registration.
    if (const auto found = registering_.find(id); target && target->incarnation() == 0 && found != registering_.end()) {
      found->second = std::max(found->second, incarnation);
      return RIPC_OK;
    }
  }
  if (!target || target->incarnation() >= incarnation) return RIPC_OK;
  // Anyone can claim a takeover; only the resolver knows.
  const spi::ServiceRecord former = target->publication().record();
  if (!parts_.resolver->successor(former, Deadline::after(parts_.resolve_timeout)).ok()) return RIPC_OK;
  target->fence();
  // A successor on another host leaves the record on this one: a search that looks here first would always find the
  // former one.
  parts_.resolver->withdraw(former);
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

}  // namespace ripc::internal::core
