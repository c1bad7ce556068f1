// SPDX-License-Identifier: Apache-2.0
#include "core/context.hpp"

#include <algorithm>
#include <new>

#include "base/fork_guard.hpp"
#include "base/loop_wait.hpp"
#include "core/service.hpp"
#include "core/service_id.hpp"
#include "core/watch.hpp"

namespace ripc::core {

namespace {

// After addresses could not be published.
constexpr Nanoseconds kPublishPause = 1'000'000'000;
constexpr Nanoseconds kFenceTimeout = 1'000'000'000;
constexpr int kRandomIdAttempts = 16;

}  // namespace

Context::Context(ContextParts parts)
    : watches_(std::make_unique<WatchTable>(*this)),
      parts_(std::move(parts)),
      fork_generation_(ForkGuard::generation()),
      groups_(*parts_.resolver, parts_.group_refresh, parts_.resolve_timeout) {}

Result<std::unique_ptr<Context>> Context::create(ContextParts parts) {
  std::unique_ptr<Context> context(new Context(std::move(parts)));
  Status status = context->start();
  if (!status.ok()) return status;
  return context;
}

Status Context::start() {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
  if (!loop.ok()) return loop.status();
  loop_ = std::move(*loop);
  tickets_ = std::make_unique<TicketKeeper>(*loop_);
  reclaim_timer_ = loop_->make_timer([this] {
    reclaim_scheduled_.store(false, std::memory_order_release);
    if (!epochs_.reclaim()) reclaim_soon();
  });
  publish_timer_ = loop_->make_timer([this] {
    publish_scheduled_.store(false, std::memory_order_release);
    address_changed();
  });
  stop_ = EventLoop::prepare([this] {
    for (const auto& transport : parts_.transports) transport->stop();
    loop_->stop();
  });
  auto& transports = parts_.transports;
  for (auto transport = transports.begin(); transport != transports.end();) {
    Status status = (*transport)->start(*this, *loop_);
    if (status.ok()) {
      ++transport;
    } else if (std::find(parts_.optional.begin(), parts_.optional.end(), (*transport)->name()) !=
               parts_.optional.end()) {
      (*transport)->stop();
      transport = transports.erase(transport);
    } else {
      return status;
    }
  }
  parts_.pool->set_arena_observer([this](std::uint32_t arena) {
    for (const auto& transport : parts_.transports) transport->arena_gone(arena);
  });
  responder_ = std::thread([this] { loop_->run(); });
  return {};
}

Context::~Context() {
  watches_->stop();
  decltype(services_) services;
  decltype(displaced_) displaced;
  {
    const std::lock_guard lock(mutex_);
    services.swap(services_);
    displaced.swap(displaced_);
  }
  for (const auto& [id, service] : services) service->close(*parts_.resolver);
  for (const auto& service : displaced) service->close(*parts_.resolver);
  if (tickets_) tickets_->shut_down();
  if (responder_.joinable()) {
    loop_->post(std::move(stop_));
    responder_.join();
  } else if (loop_) {
    for (const auto& transport : parts_.transports) transport->stop();
  }
  parts_.pool->set_arena_observer({});
  epochs_.reclaim_all();
  // What it holds goes before the pool that its memory may be of.
  if (loop_) loop_->clear();
}

// ---- Services ------------------------------------------------------------------------------------------------

class Context::Registering {
 public:
  Registering(Context& context, ripc_service_id id) : context_(context), id_(id) {
    std::unique_lock lock(context_.mutex_);
    (void)wait_in(*context_.loop_, lock, context_.registering_changed_, Deadline::never(),
                  [this] { return !context_.registering_.contains(id_); });
    context_.registering_.insert(id_);
  }
  ~Registering() {
    {
      const std::lock_guard lock(context_.mutex_);
      context_.registering_.erase(id_);
    }
    context_.registering_changed_.notify_all();
    // The responder waits in its loop.
    context_.loop_->wake_from_elsewhere();
  }
  Registering(const Registering&) = delete;
  Registering& operator=(const Registering&) = delete;

 private:
  Context& context_;
  ripc_service_id id_;
};

Status Context::check_present(const Service& present, const ServiceOptions& options) const {
  if (is_named(options.id) && present.name() != options.name)
    return Status(RIPC_NAME_COLLISION, "This context has a service of another name under the same ID: '" +
                                           present.name() + "'. Rename one of the two.");
  if (!options.takeover)
    return Status(RIPC_ID_IN_USE,
                  "This context has a service under this ID already: unregister it, or ask for takeover.");
  return {};
}

Result<Service*> Context::register_service(const ServiceOptions& wanted) {
  if (wanted.id != 0) return register_as(wanted);
  ServiceOptions options = wanted;
  for (int attempt = 0;; ++attempt) {
    options.id = random_service_id();
    Result<Service*> registered = register_as(options);
    if (registered.ok() || registered.status().code() != RIPC_ID_IN_USE || attempt >= kRandomIdAttempts)
      return registered;
  }
}

Result<Service*> Context::register_as(const ServiceOptions& options) {
  const Registering registering(*this, options.id);
  const std::shared_ptr<Service> present = service(options.id);
  if (present) {
    if (Status status = check_present(*present, options); !status.ok()) return status;
  }
  Result<EventSet> events = EventSet::create();
  if (!events.ok()) return events.status();
  auto service = std::make_shared<Service>(*this, options, std::move(*events));
  Service* const handle = service.get();
  decltype(displaced_) displaced;
  if (present) displaced.push_back(present);
  // Known before it is findable: a notification or a fence may arrive at once.
  {
    const std::lock_guard lock(mutex_);
    services_[options.id] = service;
    displaced_.splice(displaced_.end(), displaced);
  }
  Status status;
  try {
    status = service->open(parts_.transports, *parts_.resolver);
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  if (status.ok()) {
    if (present) present->fence();
    return handle;
  }
  // The present one goes on, if it was not unregistered meanwhile.
  {
    const std::lock_guard lock(mutex_);
    services_.erase(options.id);
    if (std::erase(displaced_, present) != 0) services_[options.id] = present;
  }
  service->close(*parts_.resolver);
  // What told that it was taken over by yet another one did not find it.
  if (present) (void)fenced(options.id, UINT64_MAX);
  return status;
}

void Context::unregister_service(Service* service) noexcept {
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
  owned->close(*parts_.resolver);
}

std::shared_ptr<Service> Context::service(ripc_service_id id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(id);
  return found == services_.end() ? nullptr : found->second;
}

template <typename Visit>
void Context::for_each_service(Visit visit) noexcept {
  ripc_service_id last = 0;
  for (;;) {
    std::shared_ptr<Service> service;
    {
      const std::lock_guard lock(mutex_);
      const auto next = services_.upper_bound(last);
      if (next == services_.end()) return;
      last = next->first;
      service = next->second;
    }
    visit(*service);
  }
}

void Context::fence_former(const spi::ServiceRecord& former, std::uint64_t incarnation) noexcept {
  if (former.context == parts_.id) return;
  for (const spi::Address& address : former.addresses) {
    spi::Transport* transport = this->transport(address.transport);
    // A former holder that is stopped or gone needs no answer: peers ask the resolver, and it learns when it runs
    // again.
    try {
      if (transport != nullptr &&
          transport->fence(address, former.id, incarnation, Deadline::after(kFenceTimeout)).ok())
        return;
    } catch (const std::bad_alloc&) {
      // As one that does not answer.
    }
  }
}

std::vector<spi::Address> Context::addresses() const {
  std::vector<spi::Address> addresses;
  for (const auto& transport : parts_.transports) {
    spi::Address address = transport->address();
    if (!address.locator.empty()) addresses.push_back(std::move(address));
  }
  return addresses;
}

void Context::publish_addresses(Service& service) noexcept {
  ripc_status status = RIPC_NO_MEMORY;
  try {
    status = service.publish_addresses().code();
  } catch (const std::bad_alloc&) {
    // Later, as after any other failure that passes.
  }
  // Fenced: it is another holder's business now. A record that is too large stays so.
  if (status == RIPC_OK || status == RIPC_FENCED || status == RIPC_LIMIT || status == RIPC_INVALID_ARGUMENT) return;
  if (publish_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  loop_->set_timer(publish_timer_, monotonic_now() + kPublishPause);
}

Status Context::unregister_memory(void* data) {
  std::span<std::byte> ended;
  Status status = parts_.pool->unregister_memory(data, &ended);
  if (status.ok() && !ended.empty()) tickets_->end_range(ended);
  return status;
}

// ---- spi::Host -----------------------------------------------------------------------------------------------

void Context::control_packet(spi::Source&, ripc_service_id destination, spi::Bytes packet) noexcept {
  if (const std::shared_ptr<Service> target = service(destination)) target->notifications().arrived(packet);
}

void Context::transfer_finished(spi::Channel& channel, std::uint64_t transfer) noexcept {
  tickets_->transfer_finished(channel, transfer);
}

void Context::room(spi::Channel&) noexcept {
  for_each_service([](Service& service) { service.room_changed(); });
}

void Context::channel_lost(spi::Channel& channel, ripc_status why) noexcept {
  tickets_->channel_lost(channel);
  drop_channel(channel);
  watches_->channel_lost(channel, why);
  for_each_service([](Service& service) { service.room_changed(); });
}

ripc_status Context::fenced(ripc_service_id id, std::uint64_t incarnation) noexcept try {
  const std::shared_ptr<Service> target = service(id);
  if (!target || target->incarnation() >= incarnation) return RIPC_OK;
  // Anyone can claim that it took over; only the resolver knows.
  const spi::ServiceRecord former = target->record();
  if (!parts_.resolver->successor(former, Deadline::after(parts_.resolve_timeout)).ok()) return RIPC_OK;
  target->fence();
  // A successor on another host leaves the record on this one: who looks here first would find the former for ever.
  parts_.resolver->withdraw(former);
  return RIPC_OK;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void Context::address_changed() noexcept {
  for_each_service([this](Service& service) { publish_addresses(service); });
}

}  // namespace ripc::core
