// SPDX-License-Identifier: Apache-2.0
#include "core/send/sends.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/packet.hpp"

namespace ripc::core {

Status Sends::send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
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
Status Sends::send_given(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  std::array<ripc_item, RIPC_MAX_ITEMS> items;
  std::array<memory::Hold, RIPC_MAX_ITEMS> holds;
  std::copy(arguments.items.begin(), arguments.items.end(), items.begin());
  std::size_t held = 0;
  for (ripc_item& item : std::span(items).first(arguments.items.size())) {
    if (item.kind != RIPC_ITEM_GIVEN) continue;
    Result<memory::Hold> hold = pool_.hold(item.data, item.size);
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
    for (const memory::Hold& hold : std::span(holds).first(held)) pool_.release(hold);
  }
  return status;
}

Status Sends::send_held(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket) {
  if (is_group(arguments.to)) [[unlikely]]
    return group_.send(arguments);
  if (prefers_plain(arguments)) {
    bool fits = true;
    Status status = short_.send(arguments, fits);
    if (fits) return status;
  }
  return long_.send(arguments, ticket);
}

namespace {

// The channel by which a thread collects what it sends.
class Collecting {
 public:
  Collecting() = default;
  ~Collecting() { end(); }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;

  void begin(const std::shared_ptr<spi::Channel>& channel) noexcept {
    if (channel_ == channel) return;
    end();
    channel_ = channel;
    channel_->collect();
  }
  void end() noexcept {
    if (channel_) std::exchange(channel_, nullptr)->send_collected();
  }

 private:
  std::shared_ptr<spi::Channel> channel_;
};

}  // namespace

Status Sends::send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                        std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent) {
  Collecting collecting;
  while (sent < messages.size()) {
    const ripc_outgoing& message = messages[sent];
    if (message.items == nullptr && message.count != 0)
      return Status(RIPC_INVALID_ARGUMENT, "A message has a count of items but no array.");
    SendArguments arguments = each;
    arguments.tag = message.tag;
    arguments.items = {message.items, message.count};
    if (!has_kind(arguments.items, RIPC_ITEM_LONG)) {
      // Of which the channel makes few calls by itself.
      collecting.end();
      const bool is_open = life_.status() == RIPC_OK;
      if (const std::size_t taken = is_open ? short_.send_batch(each.to, messages.subspan(sent)) : 0; taken != 0) {
        sent += taken;
        continue;
      }
    } else if (sent + 1 < messages.size() && !is_group(each.to)) {
      if (const auto channel = paths_.channel_to(each.to, counters().resolutions); channel.ok())
        collecting.begin(*channel);
    }
    // What stands in the way of this one is a matter of an ordinary send.
    Status status = send(arguments, tickets.empty() ? nullptr : &tickets[sent]);
    if (!status.ok()) return status;
    ++sent;
  }
  return {};
}

Status Sends::notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  SendArguments arguments;
  arguments.to = to;
  arguments.items = items;
  Status checked = check(arguments);
  if (!checked.ok()) return checked;
  if (is_group(to))
    return Status(RIPC_INVALID_ARGUMENT, "A notification runs a callback of one service, not of a group.");
  wire::Encoder encoder(wire::PacketKind::notification, 0, short_.id());
  bool encodable = encoder.add_handle(handle);
  for (const ripc_item& item : items) {
    if (item.kind > RIPC_ITEM_SHORT) return Status(RIPC_INVALID_ARGUMENT, "A notification carries short items only.");
    encodable = encoder.add_payload(bytes_of(item)) && encodable;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<std::shared_ptr<spi::Channel>> channel = paths_.channel_to(to, counters().resolutions);
    if (!channel.ok()) return channel.status();
    if (!encodable || encoder.size() > (*channel)->packet_limit() + spi::kControlAllowance)
      return too_large(encoder.size(), (*channel)->packet_limit() + spi::kControlAllowance);
    const ripc_status status = (*channel)->send_control(encoder.finish());
    if (status == RIPC_OK) add(counters().notifications);
    if (!is_gone(status)) return counters().count_again(status);
    paths_.drop(**channel);
  }
  return RIPC_PEER_DEAD;
}

Result<std::size_t> Sends::short_limit(ripc_service_id to, std::size_t items) {
  if (const ripc_status status = life_.status(); status != RIPC_OK) return status;
  if (items > RIPC_MAX_ITEMS) return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items.");
  if (is_group(to)) return group_.short_limit(to, items);
  Result<std::shared_ptr<spi::Channel>> channel = paths_.channel_to(to, counters().resolutions);
  if (!channel.ok()) return channel.status();
  return (*channel)->packet_limit() - wire::packet_size(items, 0);
}

}  // namespace ripc::core
