// SPDX-License-Identifier: Apache-2.0
#include "core/send/sender.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace ripc::internal::core {

Status Sender::send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (arguments.request_id != nullptr) *arguments.request_id = 0;
  if (const ripc_status status = life_.status(); status != RIPC_OK) [[unlikely]]
    return status;
  Status checked = check(arguments);
  if (!checked.ok()) [[unlikely]]
    return checked;
  return has_kind(arguments.items, RIPC_ITEM_GIVEN) ? send_given(arguments, ticket) : send_held(arguments, ticket);
}

Result<memory::Hold> Sender::hold_given(memory::Pool& pool, const ripc_item& item) {
  Result<memory::Hold> hold = pool.hold(item.data, item.size);
  if (hold.ok() && hold->arena() == nullptr)
    return Status(RIPC_INVALID_ARGUMENT, "An item that is given must lie in a leased buffer: send it as short.");
  return hold;
}

// Sends GIVEN items as short items in leases that are held. A transport adds its own holds to these. These holds also
// show which leases end: each once, and none that another thread has taken meanwhile.
Status Sender::send_given(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  std::array<ripc_item, RIPC_MAX_ITEMS> items;
  std::array<memory::Hold, RIPC_MAX_ITEMS> holds;
  std::copy(arguments.items.begin(), arguments.items.end(), items.begin());
  std::size_t held = 0;
  for (ripc_item& item : std::span(items).first(arguments.items.size())) {
    if (item.kind != RIPC_ITEM_GIVEN) continue;
    Result<memory::Hold> hold = hold_given(pool_, item);
    if (!hold.ok()) return hold.status();
    holds[held++] = std::move(*hold);
    item.kind = RIPC_ITEM_SHORT;
  }
  SendArguments holding = arguments;
  holding.items = std::span(items).first(arguments.items.size());
  holding.holds_leases = true;
  Status status = send_held(holding, ticket);
  if (status.ok()) {
    for (const memory::Hold& hold : std::span(holds).first(held)) pool_.release(hold);
  }
  return status;
}

Status Sender::send_held(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (is_group(arguments.to)) [[unlikely]]
    return group_.send(arguments);
  if (prefers_plain(arguments)) {
    bool fits = true;
    Status status = short_.send(arguments, fits);
    if (fits) return status;
  }
  return long_.send(arguments, ticket);
}

Status Sender::send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                         std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent) {
  const auto is_long = [&](std::size_t index) {
    return index < messages.size() && messages[index].items != nullptr &&
           has_kind({messages[index].items, messages[index].count}, RIPC_ITEM_LONG);
  };
  bool some_wait = false;  // some messages that were sent wait for more to follow
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
      // An ordinary send handles whatever stopped this message.
      SendArguments arguments = each;
      arguments.tag = message.tag;
      arguments.items = {message.items, message.count};
      arguments.more = is_long(sent) && is_long(sent + 1);
      try {
        status = send(arguments, tickets.empty() ? nullptr : &tickets[sent]);
      } catch (const std::bad_alloc&) {
        status = RIPC_NO_MEMORY;  // the caller must learn of the messages before this one
      }
      if (status.ok()) {
        some_wait = arguments.more;
        ++sent;
        continue;
      }
    }
    std::size_t none = 0;
    if (const auto channel = some_wait ? paths_.known_channel(each.to) : nullptr) (void)channel->send_many({}, none);
    return status;
  }
  return {};
}

Status Sender::notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  return short_.notify(to, handle, items);
}

Result<std::size_t> Sender::short_limit(ripc_service_id to, std::size_t items) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  if (items > RIPC_MAX_ITEMS) return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items.");
  if (is_group(to)) return group_.short_limit(to, items);
  Result<std::shared_ptr<spi::Channel>> channel = paths_.channel_to(to, short_.counters().resolutions);
  if (!channel.ok()) return channel.status();
  return room_for_items((*channel)->packet_limit(), items);
}

}  // namespace ripc::internal::core
