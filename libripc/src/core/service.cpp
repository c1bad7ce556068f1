// SPDX-License-Identifier: Apache-2.0
#include "core/service.hpp"

#include <unistd.h>

#include "core/assembly.hpp"

namespace ripc::core {

Service::Service(Context& context, const ServiceOptions& options, EventSet events)
    : context_(context),
      options_(options),
      events_(std::move(events)),
      notifications_(std::make_shared<NotificationTable>(context.loop())) {
  record_.id = options.id;
  record_.name = options.name;
  record_.context = context.id();
  record_.pid = static_cast<std::uint32_t>(getpid());
}

Service::~Service() {
  while (Message* message = ready_) {
    ready_ = message->next;
    MessagePool::release(message);
  }
  if (pool_ != nullptr) pool_->close();
}

Status Service::open(std::vector<std::unique_ptr<spi::Transport>>& transports, spi::Resolver& resolver) {
  const spi::PortOptions port_options{.id = options_.id,
                                      .queue_messages = options_.queue_messages,
                                      .queue_bytes = options_.queue_bytes,
                                      .max_senders = options_.max_senders};
  std::size_t packet_limit = 0;
  for (const auto& transport : transports) {
    Result<std::unique_ptr<spi::Port>> port = transport->open_port(port_options, events_);
    if (!port.ok()) return port.status();
    packet_limit = std::max(packet_limit, (*port)->packet_limit());
    ports_.push_back(std::move(*port));
  }
  record_.addresses = context_.addresses();
  pool_ = new MessagePool(context_.message_pools(), packet_limit, options_.max_messages);
  std::vector<spi::ServiceRecord> displaced;
  Status status = resolver.publish(record_, options_.takeover, &displaced);
  if (!status.ok()) return status;
  {
    const std::lock_guard lock(record_mutex_);
    published_ = true;
  }
  for (const auto& port : ports_) port->published(record_.incarnation);
  for (const spi::ServiceRecord& former : displaced) context_.fence_former(former, record_.incarnation);
  // They may have changed before the service was known to be published.
  context_.publish_addresses(*this);
  return {};
}

Status Service::publish_addresses() {
  const std::lock_guard lock(record_mutex_);
  if (!published_ || usable() != RIPC_OK) return {};
  // Read under the lock: of two that publish at once, the last one has the newest.
  std::vector<spi::Address> addresses = context_.addresses();
  if (record_.addresses == addresses) return {};
  spi::ServiceRecord changed = record_;
  changed.addresses = std::move(addresses);
  Status status = context_.resolver().update(changed);
  if (status.ok()) record_.addresses = std::move(changed.addresses);
  return status;
}

void Service::close(spi::Resolver& resolver) noexcept {
  const bool was_fenced = state_.exchange(RIPC_CLOSED, std::memory_order_acq_rel) == RIPC_FENCED;
  {
    const std::lock_guard lock(record_mutex_);
    if (published_ && !was_fenced) resolver.withdraw(record_);
    published_ = false;
  }
  close_ports();
  notifications_->remove_all();
  context_.tickets().end_sender(this);
  for (std::uint64_t request = requests_.next(0); request != 0; request = requests_.next(request))
    (void)cancel_request(request);
  {
    const std::lock_guard lock(assemblies_mutex_);
    for (Assembly& assembly : assemblies_) drop(assembly, RIPC_CLOSED);
    assemblies_.clear();
  }
  // The responder may be closing them still, because the service was fenced.
  const std::lock_guard lock(ports_mutex_);
  ports_.clear();
}

void Service::close_ports() noexcept {
  const std::lock_guard lock(ports_mutex_);
  for (const auto& port : ports_) port->close();
}

void Service::fence() noexcept {
  int open = RIPC_OK;
  if (!state_.compare_exchange_strong(open, RIPC_FENCED, std::memory_order_acq_rel)) return;
  close_ports();
  events_.wake();
  room_changed();
}

void Service::fill_statistics(ripc_service_statistics& statistics) const noexcept {
  const auto value = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  const Counters& from = counters_;
  const std::uint64_t payload_messages = value(from.payload_messages_sent) + value(main_counters_.payload_messages);
  statistics.messages_sent = payload_messages + value(from.other_messages_sent) + value(main_counters_.empty_messages);
  const std::uint64_t payload_messages_received = value(from.payload_messages_received);
  statistics.messages_received = payload_messages_received + value(from.other_messages_received);
  statistics.short_bytes_sent = value(from.short_bytes_sent) + value(main_counters_.bytes);
  statistics.short_bytes_received = value(from.short_bytes_received);
  statistics.long_items_sent = value(from.long_items_sent);
  statistics.long_items_received = value(from.long_items_received);
  statistics.long_bytes_received = value(from.long_bytes_received);
  statistics.items_lent = value(from.items_lent);
  statistics.items_returned = value(from.items_returned);
  statistics.items_discarded = value(from.items_discarded);
  statistics.again = value(from.again);
  statistics.wakes_sent = value(from.wakes_sent);
  statistics.sleeps = value(from.sleeps);
  statistics.packets_corrupt = value(from.packets_corrupt);
  statistics.notifications_sent = value(from.notifications_sent);
  statistics.notifications_run = notifications_->run_count();
  statistics.notifications_unknown = notifications_->unknown_count();
  // A short message is gathered into the queue by one copy; an item in a return buffer is written by one.
  statistics.payload_copies = payload_messages + value(from.items_returned) + value(from.send_copies) +
                              payload_messages_received + value(from.receive_copies);
  statistics.resolutions = value(from.resolutions);
  statistics.group_packets = value(from.group_packets);
  statistics.senders = 0;
  statistics.packets_lost = statistics.packets_late = statistics.packets_duplicate = 0;
  for (const auto& port : ports_) {
    const spi::PortStatistics seen = port->statistics();
    statistics.senders += port->source_count();
    statistics.packets_lost += seen.lost;
    statistics.packets_late += seen.late;
    statistics.packets_duplicate += seen.duplicates;
    statistics.packets_corrupt += seen.corrupt;
  }
}

}  // namespace ripc::core
