// SPDX-License-Identifier: Apache-2.0
#include "core/service.hpp"

#include <unistd.h>

#include <utility>

namespace ripc::internal::core {

namespace {

spi::ServiceRecord record_of(const Context& context, const ServiceOptions& options) {
  spi::ServiceRecord record;
  record.id = options.id;
  record.name = options.name;
  record.context = context.id();
  record.pid = static_cast<std::uint32_t>(getpid());
  return record;
}

}  // namespace

Service::Service(Context& context, const ServiceOptions& options, EventSet events)
    : context_(context),
      options_(options),
      life_(std::move(events)),
      notifications_(std::make_shared<NotificationTable>(context.loop())),
      publication_(record_of(context, options), life_, context.paths(), context.groups(), context.resolver()),
      sender_(options.id, {.life = life_,
                           .paths = context.paths(),
                           .pool = context.pool(),
                           .tickets = context.tickets(),
                           .requests = requests_,
                           .groups = context.groups(),
                           .resolver = context.resolver(),
                           .resolve_timeout = context.resolve_timeout()}),
      room_(life_, context.paths(), sender_.groups(), sender_.counters().resolutions, context.loop(),
            context.spin().any_peer()),
      receiver_({.life = life_,
                 .routes = context.paths().routes(),
                 .pool = context.pool(),
                 .destinations = {windows_, context.windows(), requests_},
                 .loop = context.loop(),
                 .sent = sender_.tickets(),
                 .spin = context.spin()}) {}

Status Service::open(std::vector<std::unique_ptr<spi::Transport>>& transports) {
  const spi::PortOptions port_options{.id = options_.id,
                                      .queue_messages = options_.queue_messages,
                                      .queue_bytes = options_.queue_bytes,
                                      .max_senders = options_.max_senders,
                                      .name = options_.name};
  Status status = receiver_.open(transports, port_options, context_.message_pools(), options_.max_messages);
  if (!status.ok()) return status;
  std::vector<spi::ServiceRecord> displaced;
  status = publication_.open(options_.takeover, &displaced);
  if (!status.ok()) return status;
  receiver_.ports().published(incarnation());
  for (const spi::ServiceRecord& former : displaced) context_.paths().fence_former(former, incarnation());
  return {};
}

void Service::close() noexcept {
  const bool was_fenced = life_.close();
  publication_.close(!was_fenced);
  receiver_.ports().close();
  notifications_->remove_all();
  sender_.end();
  requests_.cancel_all();
  receiver_.end();
}

void Service::fence() noexcept {
  if (!life_.fence()) return;
  receiver_.ports().close();
  life_.events().wake();
  room_.changed();
}

void Service::changed() noexcept {
  room_.changed();
  std::unique_lock lock(observer_mutex_);
  const auto observer = observer_;
  lock.unlock();
  if (observer) (*observer)();
}

bool Service::observe(std::shared_ptr<const std::function<void()>> observer) noexcept {
  const std::lock_guard lock(observer_mutex_);
  if (observer && observer_) return false;
  observer_ = std::move(observer);
  return true;
}

void Service::interrupt() noexcept {
  life_.interrupt();
  room_.wake_waiters();
}

Status Service::cancel_request(std::uint64_t id, Deadline deadline) {
  Status status = requests_.cancel(id, deadline);
  if (status == RIPC_INVALID_ARGUMENT && receiver_.cancel_answer(id)) return {};
  return status;
}

void Service::fill_statistics(ripc_service_statistics& statistics) const noexcept {
  statistics.payload_copies = statistics.senders = statistics.packets_corrupt = 0;
  statistics.packets_lost = statistics.packets_late = statistics.packets_duplicate = 0;
  sender_.counters().add_to(statistics);
  receiver_.counters().add_to(statistics);
  receiver_.ports().add_to(statistics);
  statistics.notifications_run = notifications_->run_count();
  statistics.notifications_unknown = notifications_->unknown_count();
}

}  // namespace ripc::internal::core
