// SPDX-License-Identifier: Apache-2.0
#include "rpc/kept_items.hpp"

#include <cstring>
#include <utility>

#include "core/protocol/outgoing.hpp"
#include "wire/call.hpp"

namespace ripc::internal::rpc {

namespace {

wire::call::Returned returned_of(const ripc_item& item) noexcept {
  const bool is_carried = item.size <= spi::kMostCarried;
  return {item.return_index, item.size, is_carried ? core::bytes_of(item) : spi::Bytes()};
}

std::size_t size_of(const ripc_item& item) noexcept {
  if (item.kind == RIPC_ITEM_LONG) return 0;
  return item.kind == RIPC_ITEM_RETURN ? wire::call::kReturnedSize + returned_of(item).bytes.size() : item.size;
}

}  // namespace

std::size_t KeptItems::bytes_of(std::span<const ripc_item> items) noexcept {
  std::size_t bytes = 0;
  for (const ripc_item& item : items) bytes += size_of(item);
  return bytes;
}

void KeptItems::assign(std::span<const ripc_item> items) {
  clear();
  bytes_.resize(bytes_of(items));
  try {
    items_.assign(items.begin(), items.end());
  } catch (...) {
    bytes_.clear();
    throw;
  }
  std::byte* to = bytes_.data();
  for (ripc_item& item : items_) {
    if (item.kind == RIPC_ITEM_LONG) continue;
    const ripc_item from = std::exchange(item, {to, size_of(item), item.kind, 0});
    if (from.kind == RIPC_ITEM_RETURN) {
      encode_returned(returned_of(from), to);
    } else if (from.size != 0) {
      std::memcpy(to, from.data, from.size);
    }
    if (from.kind == RIPC_ITEM_GIVEN || from.kind == RIPC_ITEM_RETURN) item.kind = RIPC_ITEM_AUTO;
    to += item.size;
  }
}

}  // namespace ripc::internal::rpc
