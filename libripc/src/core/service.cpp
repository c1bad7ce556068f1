// SPDX-License-Identifier: Apache-2.0
#include "core/service.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
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
      short_(options.id, context.paths()),
      long_(options.id, context.paths(), context.pool(), context.tickets(), requests_, short_.counters()),
      group_(short_, context.paths(), context.groups(), context.resolver(), context.resolve_timeout()),
      room_(life_, context.paths(), group_, short_.counters().resolutions, context.loop(), context.spin().time),
      receiver_({.life = life_,
                 .routes = context.paths().routes(),
                 .pool = context.pool(),
                 .landings = {windows_, context.windows(), requests_},
                 .loop = context.loop(),
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
  long_.end();
  requests_.cancel_all();
  receiver_.end();
}

void Service::fence() noexcept {
  if (!life_.fence()) return;
  receiver_.ports().close();
  life_.events().wake();
  room_.changed();
}

// ---- Sending -------------------------------------------------------------------------------------------------

Status Service::send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (arguments.request_id != nullptr) *arguments.request_id = 0;
  if (const ripc_status status = life_.status(); status != RIPC_OK) [[unlikely]]
    return status;
  Status checked = check(arguments);
  if (!checked.ok()) [[unlikely]]
    return checked;
  return has_kind(arguments.items, RIPC_ITEM_GIVEN) ? send_given(arguments, ticket) : send_held(arguments, ticket);
}

// What is given is sent as short items in leases that are held. The holds are what a transport adds its own to, and
// what says which leases end: each once, and none that another thread has got meanwhile.
Status Service::send_given(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  std::array<ripc_item, RIPC_MAX_ITEMS> items;
  std::array<memory::Hold, RIPC_MAX_ITEMS> holds;
  std::copy(arguments.items.begin(), arguments.items.end(), items.begin());
  std::size_t held = 0;
  for (ripc_item& item : std::span(items).first(arguments.items.size())) {
    if (item.kind != RIPC_ITEM_GIVEN) continue;
    Result<memory::Hold> hold = context_.pool().hold(item.data, item.size);
    if (!hold.ok()) return hold.status();
    if (hold->arena() == nullptr)
      return Status(RIPC_INVALID_ARGUMENT, "An item that is given must lie in a leased buffer: send it as short.");
    holds[held++] = std::move(*hold);
    item.kind = RIPC_ITEM_SHORT;
  }
  SendArguments holding = arguments;
  holding.items = std::span(items).first(arguments.items.size());
  holding.holds_leases = true;
  Status status = send_held(holding, ticket);
  if (status.ok()) {
    for (const memory::Hold& hold : std::span(holds).first(held)) context_.pool().release(hold);
  }
  return status;
}

Status Service::send_held(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (is_group(arguments.to)) [[unlikely]]
    return group_.send(arguments);
  if (prefers_plain(arguments)) {
    bool fits = true;
    Status status = short_.send(arguments, fits);
    if (fits) return status;
  }
  return long_.send(arguments, ticket);
}

Status Service::send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                          std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent) {
  const auto is_long = [&](std::size_t index) {
    return index < messages.size() && messages[index].items != nullptr &&
           has_kind({messages[index].items, messages[index].count}, RIPC_ITEM_LONG);
  };
  bool some_wait = false;  // of those that were sent, for more
  while (sent < messages.size()) {
    const ripc_outgoing& message = messages[sent];
    Status status = RIPC_OK;
    if (message.items == nullptr && message.count != 0) {
      status = Status(RIPC_INVALID_ARGUMENT, "A message has a count of items but no array.");
    } else {
      const bool may_batch = !is_long(sent) && !each.unordered && life_.status() == RIPC_OK;
      if (const std::size_t taken = may_batch ? short_.send_batch(each.to, messages.subspan(sent)) : 0; taken != 0) {
        sent += taken;
        continue;
      }
      // What stands in the way of this one is a matter of an ordinary send.
      SendArguments arguments = each;
      arguments.tag = message.tag;
      arguments.items = {message.items, message.count};
      arguments.more = is_long(sent) && is_long(sent + 1);
      status = send(arguments, tickets.empty() ? nullptr : &tickets[sent]);
      if (status.ok()) {
        some_wait = arguments.more;
        ++sent;
        continue;
      }
    }
    std::size_t none = 0;
    if (const auto channel = some_wait ? context_.paths().known_channel(each.to) : nullptr)
      (void)channel->send_many({}, none);
    return status;
  }
  return {};
}

Status Service::notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  return short_.notify(to, handle, items);
}

Result<std::size_t> Service::short_limit(ripc_service_id to, std::size_t items) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  if (items > RIPC_MAX_ITEMS) return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items.");
  if (is_group(to)) return group_.short_limit(to, items);
  Result<std::shared_ptr<spi::Channel>> channel = context_.paths().channel_to(to, short_.counters().resolutions);
  if (!channel.ok()) return channel.status();
  return (*channel)->packet_limit() - wire::packet_size(items, 0);
}

// ---- The rest ------------------------------------------------------------------------------------------------

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

Status Service::cancel_request(std::uint64_t id) {
  Status status = requests_.cancel(id);
  if (status == RIPC_INVALID_ARGUMENT && receiver_.cancel_answer(id)) return {};
  return status;
}

void Service::fill_statistics(ripc_service_statistics& statistics) const noexcept {
  statistics.payload_copies = statistics.senders = statistics.packets_corrupt = 0;
  statistics.packets_lost = statistics.packets_late = statistics.packets_duplicate = 0;
  short_.counters().add_to(statistics);
  receiver_.counters().add_to(statistics);
  receiver_.ports().add_to(statistics);
  statistics.notifications_run = notifications_->run_count();
  statistics.notifications_unknown = notifications_->unknown_count();
}

}  // namespace ripc::internal::core
