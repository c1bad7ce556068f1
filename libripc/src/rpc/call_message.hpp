// SPDX-License-Identifier: Apache-2.0
// The items of a call's message: its header, and the application's items, which are not copied.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/copy.hpp"
#include "core/state/message.hpp"
#include "ripc/ripc.h"
#include "wire/call.hpp"

namespace ripc::internal::rpc {

// Borrows `items`, at most RIPC_RPC_MAX_ITEMS.
class CallMessage {
 public:
  explicit CallMessage(const wire::call::Header& header, std::span<const ripc_item> items = {}) noexcept {
    wire::call::encode(header, first_.data());
    std::size_t size = wire::call::kHeaderSize;
    // A message of one item takes the shortest way through core and a transport.
    if (!items.empty() && items[0].kind <= RIPC_ITEM_SHORT && items[0].size <= kMostJoined && items[0].size != 0) {
      copy_small<kMostJoined>(first_.data() + size, static_cast<const std::byte*>(items[0].data), items[0].size);
      size += items[0].size;
      items = items.subspan(1);
    }
    items_[0] = {first_.data(), size, RIPC_ITEM_SHORT, 0};
    std::copy(items.begin(), items.end(), items_.begin() + 1);
    count_ = items.size() + 1;
  }
  CallMessage(const CallMessage&) = delete;
  CallMessage& operator=(const CallMessage&) = delete;
  std::span<const ripc_item> items() const noexcept { return {items_.data(), count_}; }

 private:
  static constexpr std::size_t kMostJoined = 96;
  alignas(16) std::array<std::byte, wire::call::kHeaderSize + kMostJoined> first_;
  std::array<ripc_item, RIPC_MAX_ITEMS> items_;
  std::size_t count_;
};

// Reads the header of a message. Returns the status of decode().
inline ripc_status read_header(const core::Message& message, wire::call::Header& header) noexcept {
  if (message.item_count == 0 || message.items[0].kind != RIPC_VIEW_SHORT) return RIPC_CORRUPT;
  const ripc_item_view& first = message.items[0];
  return wire::call::decode({static_cast<const std::byte*>(first.data), first.size}, header);
}

// The application's items of a call's message. Call it only once: it cuts the header off.
inline std::span<ripc_item_view> call_items(core::Message& message) noexcept {
  ripc_item_view& first = message.items[0];
  if (first.size == wire::call::kHeaderSize) return {message.items + 1, message.item_count - 1};
  first.data = static_cast<const std::byte*>(first.data) + wire::call::kHeaderSize;
  first.size -= wire::call::kHeaderSize;
  return {message.items, message.item_count};
}

}  // namespace ripc::internal::rpc
