// SPDX-License-Identifier: Apache-2.0
#include "core/protocol/outgoing.hpp"

#include <bitset>
#include <string>

namespace ripc::internal::core {

Status check(const SendArguments& arguments) {
  if (arguments.items.size() > RIPC_MAX_ITEMS)
    return Status(RIPC_INVALID_ARGUMENT, "A message has at most 64 items: join some of them.");
  if (arguments.returns.size() > RIPC_MAX_RETURNS)
    return Status(RIPC_INVALID_ARGUMENT, "A message has at most 16 return buffers.");
  if (arguments.to == 0) return Status(RIPC_INVALID_ARGUMENT, "0 is never a service ID.");
  for (const ripc_item& item : arguments.items) {
    if (item.data == nullptr && item.size != 0) return Status(RIPC_INVALID_ARGUMENT, "An item has a size but no data.");
    if (item.kind > RIPC_ITEM_GIVEN) return Status(RIPC_INVALID_ARGUMENT, "An item has an unknown kind.");
    if (item.kind == RIPC_ITEM_RETURN && arguments.reply_to == nullptr)
      return Status(RIPC_INVALID_ARGUMENT, "RIPC_ITEM_RETURN is for ripc_reply(): only a request has return buffers.");
  }
  for (const ripc_return_buffer& buffer : arguments.returns) {
    if (buffer.data == nullptr && buffer.size != 0)
      return Status(RIPC_INVALID_ARGUMENT, "A return buffer has a size but no data.");
  }
  return {};
}

bool prefers_plain(const SendArguments& arguments) noexcept {
  return arguments.returns.empty() && !arguments.is_reply() && !arguments.unordered &&
         std::ranges::all_of(arguments.items, [](const ripc_item& item) { return item.kind <= RIPC_ITEM_SHORT; });
}

namespace {

// The sum of the two, or the largest number if it overflows.
std::size_t sum(std::size_t one, std::size_t other) noexcept {
  return one + std::min(other, std::numeric_limits<std::size_t>::max() - one);
}

// The most bytes that an item takes in the packet's body.
std::size_t bytes_inside(std::size_t size, Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::payload:
      return size;
    case Protocol::carried:
      return wire::kReturnedSize + size;
    case Protocol::exposed:
      return wire::kDescriptorSize;
    default:
      return wire::kDirectedSize;
  }
}

// How an item travels if its bytes leave the packet.
Protocol outside(Protocol protocol) noexcept {
  return protocol == Protocol::payload   ? Protocol::exposed
         : protocol == Protocol::carried ? Protocol::directed
                                         : protocol;
}

// How many bytes leave the packet if the item does.
std::size_t saving(std::size_t size, Protocol protocol) noexcept {
  const std::size_t without = bytes_inside(size, outside(protocol));
  return std::max(bytes_inside(size, protocol), without) - without;
}

}  // namespace

Status too_large(std::size_t size, std::size_t limit) {
  return Status(RIPC_TOO_LARGE, "The short items make a packet of " + std::to_string(size) +
                                    " bytes; this peer takes " + std::to_string(limit) +
                                    ". Send the large items as RIPC_ITEM_AUTO or RIPC_ITEM_LONG, or give the receiving "
                                    "service a larger queue_bytes.");
}

Status too_large(std::span<const ripc_item> items, std::size_t limit) {
  std::size_t bytes = 0;
  for (const ripc_item& item : items) bytes = sum(bytes, item.size);
  return too_large(sum(bytes, wire::packet_size(items.size(), 0)), limit);
}

Status ItemPlan::choose(std::span<const ripc_item> items, std::size_t returns, std::size_t limit,
                        std::size_t auto_limit, std::size_t most_carried) {
  const std::size_t entries = items.size() + returns + 1;
  std::size_t body = returns * wire::kGrantSize + sizeof(std::uint64_t);
  for (std::size_t index = 0; index < items.size(); ++index) {
    const auto& [data, size, kind, return_index] = items[index];
    const bool is_long = kind == RIPC_ITEM_LONG || (kind == RIPC_ITEM_AUTO && size > auto_limit);
    // Nothing makes such an item fit, and the sum below must not wrap around.
    if (kind == RIPC_ITEM_SHORT && size > limit) return too_large(items, limit);
    protocols_[index] = is_long                    ? Protocol::exposed
                        : kind != RIPC_ITEM_RETURN ? Protocol::payload
                        : size <= most_carried     ? Protocol::carried
                                                   : Protocol::directed;
    body += bytes_inside(size, protocols_[index]);
  }
  while (wire::packet_size(entries, body) > auto_limit) {
    std::size_t most = 0, largest = 0;
    for (std::size_t index = 0; index < items.size(); ++index) {
      const ripc_item& item = items[index];
      const bool may_leave = item.kind == RIPC_ITEM_AUTO || item.kind == RIPC_ITEM_RETURN;
      const std::size_t saved = may_leave ? saving(item.size, protocols_[index]) : 0;
      if (saved == 0 || saved < most) continue;
      most = saved;
      largest = index;
    }
    if (most == 0) break;
    protocols_[largest] = outside(protocols_[largest]);
    body -= most;
  }
  packet_size_ = wire::packet_size(entries, body);
  if (packet_size_ > limit) return too_large(packet_size_, limit);
  return {};
}

void ItemPlan::choose_returns(std::span<const ripc_item> items, const Message& request, bool may_write) {
  const Message::Attachments* attachments = request.attachments.get();
  std::bitset<RIPC_MAX_RETURNS> used;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const ripc_item& item = items[index];
    if (item.kind != RIPC_ITEM_RETURN) continue;
    const bool is_carried = protocols_[index] == Protocol::carried;
    protocols_[index] = is_carried ? Protocol::payload : Protocol::exposed;  // used if no return buffer takes it
    const std::uint32_t target = item.return_index;
    if (!may_write || target >= attachments->grants.size() || used[target]) continue;
    const wire::Grant& grant = attachments->grants[target];
    if (item.size > grant.length) continue;
    const ripc_status status = is_carried ? RIPC_OK : attachments->source->push(grant, bytes_of(item));
    if (status != RIPC_OK && status != RIPC_UNSUPPORTED) continue;
    protocols_[index] = is_carried ? Protocol::carried : status == RIPC_OK ? Protocol::returned : Protocol::directed;
    has_written_ = has_written_ || protocols_[index] == Protocol::returned;
    used.set(target);
  }
}

ItemPlan::Encoded ItemPlan::encode(std::span<const ripc_item> items, std::span<const wire::Descriptor> descriptors,
                                   wire::Encoder& encoder) const noexcept {
  Encoded encoded;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const ripc_item& item = items[index];
    bool added = false;
    switch (protocols_[index]) {
      case Protocol::payload:
        added = encoder.add_payload(bytes_of(item));
        encoded.short_bytes += item.size;
        break;
      case Protocol::carried:
        added = encoder.add_carried(item.return_index, bytes_of(item));
        ++encoded.returned;
        break;
      case Protocol::exposed:
        added = encoder.add(descriptors[encoded.pulled++]);
        break;
      case Protocol::returned:
        added = encoder.add(wire::Returned{item.return_index, item.size});
        ++encoded.returned;
        break;
      case Protocol::directed:
        added = encoder.add(wire::Directed{item.return_index, descriptors[encoded.pulled++]});
        break;
    }
    encoded.ok = encoded.ok && added;
  }
  return encoded;
}

}  // namespace ripc::internal::core
