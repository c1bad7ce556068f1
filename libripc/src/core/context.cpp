// SPDX-License-Identifier: Apache-2.0
#include "core/context.hpp"

#include <algorithm>
#include <new>

#include "base/thread.hpp"
#include "core/service.hpp"
#include "core/service_id.hpp"
#include "core/watch.hpp"

namespace ripc::internal::core {

Context::Context(ContextParts parts, std::unique_ptr<EventLoop> loop)
    : loop_(std::move(loop)),
      watches_(std::make_unique<WatchTable>(*this)),
      parts_(std::move(parts)),
      fork_generation_(ForkGuard::generation()),
      paths_(parts_, *loop_),
      groups_(*parts_.resolver, parts_.group_refresh, parts_.resolve_timeout),
      tickets_(*loop_),
      services_(*this, parts_, *loop_),
      stop_(EventLoop::prepare([this] {
        for (const auto& transport : parts_.transports) transport->stop();
        loop_->stop();
      })) {
  parts_.pool->set_hold_ender([this] { tickets_.check_tickets(); });
}

Result<std::unique_ptr<Context>> Context::create(ContextParts parts) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
  if (!loop.ok()) return loop.status();
  std::unique_ptr<Context> context(new Context(std::move(parts), std::move(*loop)));
  if (Status status = context->start(); !status.ok()) return status;
  return context;
}

Status Context::start() {
  auto& transports = parts_.transports;
  for (auto transport = transports.begin(); transport != transports.end();) {
    Status status = (*transport)->start(*this, *loop_);
    if (status.ok()) {
      ++transport;
    } else if (std::ranges::find(parts_.optional, (*transport)->name()) != parts_.optional.end()) {
      (*transport)->stop();
      transport = transports.erase(transport);
    } else {
      return status;
    }
  }
  // A resolver that cannot report changes is asked when a send fails.
  (void)parts_.resolver->observe(
      *loop_, [this](const spi::Change& change) { resolver_changed(change); }, spi::Observe::what_arrives);
  return start_thread(responder_, "ripc-responder", "Starting the responder of a context", [this] { loop_->run(); });
}

Context::~Context() {
  watches_->stop();
  services_.remove_all();
  tickets_.shut_down();
  if (responder_.joinable()) {
    loop_->post(std::move(stop_));
    responder_.join();
  } else {
    for (const auto& transport : parts_.transports) transport->stop();
  }
  // It may report changes until it is destroyed.
  parts_.resolver.reset();
  paths_.shut_down();
  // The loop's callbacks are destroyed before the pool, because they may hold its memory.
  loop_->clear();
}

Status Context::group_members(ripc_service_id group, const spi::Visit& visit) const {
  if (Status valid = check_group(group); !valid.ok()) return valid;
  return parts_.resolver->members(group, Deadline::after(parts_.resolve_timeout), visit);
}

void Context::resolver_changed(const spi::Change& change) noexcept {
  if (change.now != nullptr) {
    paths_.follow(*change.now);
    if (change.now->context != parts_.id) fence_displaced(*change.now);
  }
  watches_->changed(change.id);
}

void Context::fence_displaced(const spi::ServiceRecord& now) noexcept try {
  const std::shared_ptr<Service> own = services_.find(now.id);
  if (!own || own->incarnation() >= now.incarnation) return;
  // This asks resolvers, which an observer must not do.
  loop_->post([this, id = now.id, incarnation = now.incarnation] { (void)services_.fenced(id, incarnation); });
} catch (const std::bad_alloc&) {
  // The new holder has notified this context directly, or its next update() finds out.
}

Status Context::unregister_memory(void* data) {
  std::span<std::byte> ended;
  Status status = parts_.pool->unregister_memory(data, &ended);
  if (status.ok() && !ended.empty()) tickets_.end_range(ended);
  return status;
}

// ---- spi::Host -----------------------------------------------------------------------------------------------

void Context::control_packet(spi::Source&, ripc_service_id destination, spi::Bytes packet) noexcept {
  if (const std::shared_ptr<Service> target = services_.find(destination)) target->notifications().arrived(packet);
}

void Context::room(spi::Channel&) noexcept {
  services_.for_each([](Service& service) { service.changed(); });
}

void Context::channel_lost(spi::Channel& channel, ripc_status why) noexcept {
  tickets_.channel_lost(channel);
  paths_.drop(channel);
  watches_->channel_lost(channel, why);
  services_.for_each([](Service& service) { service.changed(); });
}

}  // namespace ripc::internal::core
