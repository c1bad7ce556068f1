// SPDX-License-Identifier: Apache-2.0
#include "core/context.hpp"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "base/fork_guard.hpp"
#include "base/loop_wait.hpp"
#include "core/service.hpp"
#include "core/service_id.hpp"

namespace ripc::core {

namespace {

// Between two looks at a service that is in the middle of restarting or moving.
constexpr Nanoseconds kRetryPause = 2'000'000;
constexpr Nanoseconds kReclaimPause = 10'000'000;
// After addresses could not be published.
constexpr Nanoseconds kPublishPause = 1'000'000'000;
constexpr Nanoseconds kFenceTimeout = 1'000'000'000;
constexpr int kRandomIdAttempts = 16;

Deadline half_of(Deadline deadline) noexcept {
  return deadline.is_never() ? deadline : Deadline::after(deadline.remaining() / 2);
}

// What a reason ends with.
std::string finder_of(const spi::ServiceRecord& record) {
  return record.found_by.empty() ? std::string() : "; found by the " + std::string(record.found_by) + " resolver";
}

}  // namespace

Context::Context(ContextParts parts)
    : parts_(std::move(parts)),
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
  std::vector<std::shared_ptr<Service>> services;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, service] : services_) services.push_back(service);
    services_.clear();
    services.insert(services.end(), displaced_.begin(), displaced_.end());
    displaced_.clear();
  }
  for (const auto& service : services) service->close(*parts_.resolver);
  if (tickets_) tickets_->shut_down();
  if (responder_.joinable()) {
    loop_->post([this] {
      for (const auto& transport : parts_.transports) transport->stop();
      loop_->stop();
    });
    responder_.join();
  } else if (loop_) {
    for (const auto& transport : parts_.transports) transport->stop();
  }
  parts_.pool->set_arena_observer({});
  epochs_.reclaim_all();
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
    if (!context_.loop_->in_loop_thread()) context_.loop_->post([] {});
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
  // Known before it is findable: a notification or a fence may arrive at once.
  {
    const std::lock_guard lock(mutex_);
    if (present) displaced_.push_back(present);
    services_[options.id] = service;
  }
  Status status = service->open(parts_.transports, *parts_.resolver);
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
  if (present) fenced(options.id, UINT64_MAX);
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

std::vector<std::shared_ptr<Service>> Context::services() noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Service>> services;
  services.reserve(services_.size());
  for (const auto& [id, service] : services_) services.push_back(service);
  return services;
}

void Context::fence_former(const spi::ServiceRecord& former, std::uint64_t incarnation) noexcept {
  if (former.context == parts_.id) return;
  for (const spi::Address& address : former.addresses) {
    spi::Transport* transport = this->transport(address.transport);
    // A former holder that is stopped or gone needs no answer: peers ask the resolver, and it learns when it runs
    // again.
    if (transport != nullptr && transport->fence(address, former.id, incarnation, Deadline::after(kFenceTimeout)).ok())
      return;
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
  const ripc_status status = service.publish_addresses().code();
  // Fenced: it is another holder's business now. A record that is too large stays so.
  if (status == RIPC_OK || status == RIPC_FENCED || status == RIPC_LIMIT || status == RIPC_INVALID_ARGUMENT) return;
  if (publish_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  loop_->add_timer(monotonic_now() + kPublishPause, [this] {
    publish_scheduled_.store(false, std::memory_order_release);
    address_changed();
  });
}

Status Context::unregister_memory(void* data) {
  std::span<std::byte> ended;
  Status status = parts_.pool->unregister_memory(data, &ended);
  if (status.ok() && !ended.empty()) tickets_->end_range(ended);
  return status;
}

// ---- Paths ---------------------------------------------------------------------------------------------------

spi::Transport* Context::transport(const std::string& name) noexcept {
  const auto found = std::find_if(parts_.transports.begin(), parts_.transports.end(),
                                  [&](const auto& transport) { return transport->name() == name; });
  return found == parts_.transports.end() ? nullptr : found->get();
}

std::shared_ptr<spi::Channel> Context::known_channel(ripc_service_id id) const noexcept {
  const ThreadEpoch::Section section(ThreadEpoch::current());
  const std::shared_ptr<spi::Channel>* channel = routes_.find(id);
  return channel != nullptr && (*channel)->alive() ? *channel : nullptr;
}

Result<std::shared_ptr<spi::Channel>> Context::channel_to(ripc_service_id id, std::atomic<std::uint64_t>& resolutions) {
  if (auto known = known_channel(id)) return known;
  const Deadline deadline = Deadline::after(parts_.resolve_timeout);
  // One thread looks, those that come meanwhile wait for what it finds.
  std::shared_ptr<Search> search;
  {
    const std::lock_guard lock(searches_mutex_);
    std::shared_ptr<Search>& running = searches_[id];
    if (running) {
      search = running;
    } else {
      running = std::make_shared<Search>();
    }
  }
  if (search) return result_of(*search, deadline);
  // An earlier search may have ended since the first look.
  Result<std::shared_ptr<spi::Channel>> found = known_channel(id);
  if (*found == nullptr) {
    try {
      found = find_channel(id, deadline, resolutions);
    } catch (const std::bad_alloc&) {
      // Those that wait must not wait for ever.
      found = RIPC_NO_MEMORY;
    }
  }
  {
    const std::lock_guard lock(searches_mutex_);
    const auto mine = searches_.find(id);
    mine->second->result = found;
    searches_.erase(mine);
  }
  searches_changed_.notify_all();
  // The responder waits in its loop.
  if (!loop_->in_loop_thread()) loop_->post([] {});
  return found;
}

Result<std::shared_ptr<spi::Channel>> Context::result_of(const Search& search, Deadline deadline) {
  std::unique_lock lock(searches_mutex_);
  const auto done = [&] { return search.result.has_value(); };
  if (!wait_in(*loop_, lock, searches_changed_, deadline, done)) return RIPC_TIMEOUT;
  return *search.result;
}

Result<std::shared_ptr<spi::Channel>> Context::find_channel(ripc_service_id id, Deadline deadline,
                                                            std::atomic<std::uint64_t>& resolutions) {
  for (;;) {
    resolutions.fetch_add(1, std::memory_order_relaxed);
    std::optional<spi::Address> learned = routes_.learned(id);
    // The way back to a service that no resolver knows takes time, too.
    Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, learned ? half_of(deadline) : deadline);
    std::vector<spi::Address> addresses;
    if (record.ok()) {
      addresses = record->addresses;
    } else {
      if (record.status().code() != RIPC_NO_SERVICE) return record.status();
      // What a service said of itself counts only where no resolver knows better.
      if (learned) addresses.push_back(std::move(*learned));
      if (addresses.empty()) return record.status();
    }
    Result<std::shared_ptr<spi::Channel>> channel = connect(addresses, id, deadline);
    if (channel.ok()) return routes_.insert(id, std::move(*channel));
    const ripc_status code = channel.status().code();
    if (code != RIPC_PEER_DEAD && code != RIPC_NO_SERVICE) return channel.status();
    if (!record.ok()) {
      routes_.forget(id);
      return record.status();
    }
    // The service was there a moment ago: it is ending, restarting or moving.
    parts_.resolver->invalidate(*record);
    if (deadline.expired()) return channel.status();
    if (loop_->in_loop_thread()) {
      (void)loop_->run_until([] { return false; }, Deadline::after(kRetryPause));
    } else {
      const timespec pause{0, static_cast<long>(kRetryPause)};
      nanosleep(&pause, nullptr);
    }
  }
}

Result<std::shared_ptr<spi::Channel>> Context::connect(const std::vector<spi::Address>& addresses, ripc_service_id id,
                                                       Deadline deadline) {
  Status failure = no_common_transport();
  for (const Way& way : ways_to(addresses)) {
    std::size_t answered = 0;
    Result<std::shared_ptr<spi::Channel>> channel =
        way.transport->connect_any(way.addresses, id, way.is_last ? deadline : half_of(deadline), answered);
    if (channel.ok()) return channel;
    failure = channel.status();
  }
  return failure;
}

std::vector<Context::Way> Context::ways_to(const std::vector<spi::Address>& addresses) const {
  std::vector<Way> ways;
  for (const auto& transport : parts_.transports) {
    Way way{.transport = transport.get(), .addresses = {}, .is_last = false};
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(way.addresses),
                 [&](const spi::Address& address) { return address.transport == transport->name(); });
    if (!way.addresses.empty()) ways.push_back(std::move(way));
  }
  if (!ways.empty()) ways.back().is_last = true;
  return ways;
}

Result<std::shared_ptr<spi::Channel>> Context::connect_to(const spi::ServiceRecord& record, Deadline deadline) {
  Result<std::shared_ptr<spi::Channel>> channel = connect(record.addresses, record.id, deadline);
  if (!channel.ok()) return channel;
  return routes_.insert(record.id, std::move(*channel));
}

Status Context::no_common_transport() const {
  return Status(RIPC_NO_SERVICE, "The service has no address on a transport that this context may use (" +
                                     transport_names() + "): check RIPC_TRANSPORTS on both sides.");
}

std::string Context::transport_names() const {
  std::string names;
  for (const auto& transport : parts_.transports) {
    if (!names.empty()) names += ',';
    names += transport->name();
  }
  return names;
}

Status Context::group_members(ripc_service_id group,
                              const std::function<void(const spi::ServiceRecord&)>& visit) const {
  if (Status valid = check_group(group); !valid.ok()) return valid;
  return parts_.resolver->members(group, Deadline::after(parts_.resolve_timeout), visit);
}

void Context::drop_channel(const spi::Channel& channel) noexcept {
  routes_.remove(channel);
  reclaim_soon();
}

void Context::reclaim_soon() noexcept {
  if (reclaim_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  loop_->add_timer(monotonic_now() + kReclaimPause, [this] {
    reclaim_scheduled_.store(false, std::memory_order_release);
    if (!epochs_.reclaim()) reclaim_soon();
  });
}

Result<Resolution> Context::resolve(ripc_service_id id) {
  Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, Deadline::after(parts_.resolve_timeout));
  if (!record.ok()) return record.status();
  Resolution resolution;
  resolution.record = std::move(*record);
  for (const auto& transport : parts_.transports) {
    for (const spi::Address& address : resolution.record.addresses) {
      if (address.transport != transport->name() || !resolution.address.transport.empty()) continue;
      resolution.address = address;
      resolution.reason = "the first of this context's transports (" + transport_names() + ") that the service is on";
    }
  }
  if (resolution.address.transport.empty()) {
    if (!resolution.record.addresses.empty()) resolution.address = resolution.record.addresses.front();
    resolution.reason = "none: the service is on none of this context's transports (" + transport_names() + ")";
  }
  resolution.reason += finder_of(resolution.record);
  return resolution;
}

Result<Resolution> Context::find_path(ripc_service_id id) {
  const Deadline deadline = Deadline::after(parts_.resolve_timeout);
  Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, deadline);
  if (!record.ok()) return record.status();
  Resolution path;
  path.record = std::move(*record);
  const auto other = [&](std::string_view transport, const std::string& why) {
    if (!path.others.empty()) path.others += "; ";
    path.others += std::string(transport) + ": " + why;
  };
  Status failure = no_common_transport();
  const std::vector<Way> ways = ways_to(path.record.addresses);
  for (const auto& transport : parts_.transports) {
    const auto way =
        std::find_if(ways.begin(), ways.end(), [&](const Way& known) { return known.transport == transport.get(); });
    if (way == ways.end()) {
      other(transport->name(), "the service has no address there");
      continue;
    }
    if (!path.address.transport.empty()) {
      other(transport->name(), "comes after " + path.address.transport + " in this context's order");
      continue;
    }
    std::size_t answered = 0;
    Result<std::shared_ptr<spi::Channel>> channel =
        transport->connect_any(way->addresses, id, way->is_last ? deadline : half_of(deadline), answered);
    if (channel.ok()) {
      path.address = way->addresses[answered];
      path.reason = (*channel)->describe();
      (void)routes_.insert(id, std::move(*channel));
    } else {
      failure = channel.status();
      other(transport->name(), std::string(failure.text()));
    }
  }
  for (const spi::Address& address : path.record.addresses) {
    if (transport(address.transport) == nullptr)
      other(address.transport, "not among this context's transports (" + transport_names() + ")");
  }
  if (path.address.transport.empty()) return failure;
  path.reason += finder_of(path.record);
  return path;
}

// ---- spi::Host -----------------------------------------------------------------------------------------------

void Context::control_packet(spi::Source&, ripc_service_id destination, spi::Bytes packet) noexcept {
  if (const std::shared_ptr<Service> target = service(destination)) target->notifications().arrived(packet);
}

void Context::transfer_finished(spi::Channel& channel, std::uint64_t transfer) noexcept {
  tickets_->transfer_finished(channel, transfer);
}

void Context::room(spi::Channel&) noexcept {
  for (const auto& service : services()) service->room_changed();
}

void Context::channel_lost(spi::Channel& channel) noexcept {
  tickets_->channel_lost(channel);
  drop_channel(channel);
  for (const auto& service : services()) service->room_changed();
}

void Context::fenced(ripc_service_id id, std::uint64_t incarnation) noexcept {
  const std::shared_ptr<Service> target = service(id);
  if (!target || target->incarnation() >= incarnation) return;
  // Anyone can claim that it took over; only the resolver knows.
  const spi::ServiceRecord former = target->record();
  if (!parts_.resolver->successor(former, Deadline::after(parts_.resolve_timeout)).ok()) return;
  target->fence();
  // A successor on another host leaves the record on this one: who looks here first would find the former for ever.
  parts_.resolver->withdraw(former);
}

void Context::address_changed() noexcept {
  for (const auto& service : services()) publish_addresses(*service);
}

}  // namespace ripc::core
