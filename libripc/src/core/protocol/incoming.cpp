// SPDX-License-Identifier: Apache-2.0
#include "core/protocol/incoming.hpp"

#include <bitset>
#include <cstring>

namespace ripc::internal::core {

namespace {

ripc_item_view failed_view(ripc_status status, std::uint64_t size, std::uint32_t return_index = 0) noexcept {
  return {.data = nullptr,
          .size = static_cast<std::size_t>(size),
          .kind = RIPC_VIEW_FAILED,
          .status = static_cast<std::uint32_t>(status),
          .cookie = 0,
          .return_index = return_index,
          .copied = 0};
}

// The return buffers of the request that a message replies to.
class ReturnBuffers {
 public:
  explicit ReturnBuffers(RequestTable::Taken answered) noexcept : answered_(std::move(answered)) {
    if (answered_.empty()) return;
    // The right to write ends here, even if the reply did not use it.
    const Request& request = answered_.mapped();
    for (std::size_t index = 0; index < request.grants.size(); ++index)
      written_[index] = request.channel->end_grant(request.grants[index]) == RIPC_OK;
  }

  // False: no buffer takes so many bytes, another item has it, or the request is being cancelled.
  bool take(IncomingItem& item) noexcept {
    if (!is_usable(item.return_index, item.pull.descriptor.length)) return false;
    // Buffers that were not being written when the request was cancelled belong to the caller.
    if (answered_.mapped().cancelling) return false;
    used_.set(item.return_index);
    item.target = IncomingItem::Target::return_buffer;
    item.pull.destination = static_cast<std::byte*>(answered_.mapped().buffers[item.return_index].data);
    return true;
  }
  ripc_item_view take_written(const wire::Returned& returned) noexcept {
    const auto& [index, length] = returned;
    if (is_usable(index, length) && written_[index]) return use(returned, 0);
    const bool is_due = !answered_.empty() && !answered_.mapped().cancelling;
    return failed_view(is_due ? RIPC_CORRUPT : RIPC_CANCELLED, length, index);
  }
  // If no buffer takes the bytes, the view shows them in the message.
  ripc_item_view take_carried(const wire::Returned& returned, const std::byte* bytes) noexcept {
    const auto& [index, length] = returned;
    if (!is_usable(index, length) || answered_.mapped().cancelling)
      return short_view(bytes, static_cast<std::size_t>(length));
    if (length != 0) std::memcpy(answered_.mapped().buffers[index].data, bytes, length);
    return use(returned, 2);
  }

 private:
  ripc_item_view use(const wire::Returned& returned, std::uint32_t copies) noexcept {
    used_.set(returned.return_index);
    return {.data = answered_.mapped().buffers[returned.return_index].data,
            .size = static_cast<std::size_t>(returned.length),
            .kind = RIPC_VIEW_RETURNED,
            .status = RIPC_OK,
            .cookie = 0,
            .return_index = returned.return_index,
            .copied = copies};
  }
  bool is_usable(std::uint32_t index, std::uint64_t length) const noexcept {
    if (answered_.empty()) return false;
    const auto& buffers = answered_.mapped().buffers;
    return index < buffers.size() && length <= buffers[index].size && !used_[index];
  }

  RequestTable::Taken answered_;
  std::bitset<RIPC_MAX_RETURNS> written_;
  std::bitset<RIPC_MAX_RETURNS> used_;
};

void take_window(IncomingItem& item, Destinations destinations) noexcept {
  for (WindowQueue* windows : {&destinations.windows, &destinations.shared_windows}) {
    if (!item.window.empty()) break;
    item.home = windows;
    item.window = windows->take();
  }
  ripc_status failure = RIPC_OK;
  if (item.window.empty()) {
    failure = RIPC_NO_WINDOW;
  } else {
    item.pull.destination = item.window.front().data;
    if (item.window.front().size < item.pull.descriptor.length) failure = RIPC_WINDOW_TOO_SMALL;
  }
  if (failure == RIPC_OK) return;
  item.done = true;
  item.pull.status = failure;
}

}  // namespace

PacketContents::PacketContents(const wire::Packet& packet) noexcept {
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type <= wire::ItemType::directed) ++views;
    if (item.type == wire::ItemType::grant) ++grants;
    if (item.type == wire::ItemType::reply) is_reply = true;
    if (item.type == wire::ItemType::descriptor) descriptors_[pulled_++] = packet.descriptor(item);
    if (item.type == wire::ItemType::directed) descriptors_[pulled_++] = packet.directed(item).descriptor;
  }
}

ripc_item_view IncomingItem::shown() const noexcept {
  const std::uint64_t length = pull.descriptor.length;
  if (pull.status != RIPC_OK) return failed_view(pull.status, length);
  const bool is_returned = target == Target::return_buffer;
  return {.data = pull.destination,
          .size = static_cast<std::size_t>(length),
          .kind = static_cast<std::uint32_t>(is_returned ? RIPC_VIEW_RETURNED
                                             : is_lent() ? RIPC_VIEW_LENT
                                                         : RIPC_VIEW_WINDOW),
          .status = RIPC_OK,
          .cookie = target == Target::window ? window.front().cookie : 0,
          .return_index = is_returned ? return_index : 0,
          .copied = pull.copies};
}

Placed place(const wire::Packet& packet, const std::shared_ptr<spi::Source>& source, bool lend,
             Destinations destinations, Message& message, IncomingItems& items) noexcept {
  RequestTable::Taken answered;
  for (const wire::DecodedItem& item : packet.items()) {
    if (item.type == wire::ItemType::request) message.request = packet.number(item);
    if (item.type == wire::ItemType::grant) {
      message.attachments->grants.push_back(packet.grant(item));
      message.attachments->source = source;
    }
    if (item.type == wire::ItemType::reply) {
      message.in_reply_to = packet.number(item);
      answered = destinations.requests.take(message.in_reply_to, packet.source());
    }
  }
  ReturnBuffers buffers(std::move(answered));
  Placed placed;
  auto next = items.begin();
  for (const wire::DecodedItem& decoded : packet.items()) {
    if (decoded.type > wire::ItemType::directed) continue;
    ripc_item_view& view = message.items[message.item_count];
    const std::size_t view_index = message.item_count++;
    if (decoded.type == wire::ItemType::payload) {
      view = short_view(message.storage + decoded.offset, decoded.length);
      placed.short_bytes += decoded.length;
      continue;
    }
    if (decoded.type == wire::ItemType::returned) {
      const wire::Returned returned = packet.returned(decoded);
      const std::size_t carried = packet.carried(decoded).size();
      view = carried != returned.length
                 ? buffers.take_written(returned)
                 : buffers.take_carried(returned, message.storage + decoded.offset + wire::kReturnedSize);
      if (view.kind == RIPC_VIEW_FAILED) ++placed.discarded;
      if (view.kind == RIPC_VIEW_SHORT) placed.short_bytes += carried;
      if (view.kind == RIPC_VIEW_RETURNED && carried != 0) ++placed.copies;
      continue;
    }
    IncomingItem& item = *next++;
    item.view = view_index;
    if (decoded.type == wire::ItemType::directed) {
      item.return_index = packet.directed(decoded).return_index;
      if (buffers.take(item)) {
        item.return_window();
        continue;
      }
    }
    if (lend) {
      item.target = IncomingItem::Target::lent;
    } else {
      take_window(item, destinations);
    }
  }
  if (placed.short_bytes != 0 || placed.copies != 0) ++placed.copies;  // out of the queue
  return placed;
}

}  // namespace ripc::internal::core
