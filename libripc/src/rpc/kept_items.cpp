// SPDX-License-Identifier: Apache-2.0
#include "rpc/kept_items.hpp"

#include <algorithm>
#include <utility>

namespace ripc::internal::rpc {

void KeptItems::assign(std::span<const ripc_item> items) {
  clear();
  std::size_t size = 0;
  for (const ripc_item& item : items) size += item.kind == RIPC_ITEM_LONG ? 0 : item.size;
  bytes_.resize(size);
  try {
    items_.assign(items.begin(), items.end());
  } catch (...) {
    bytes_.clear();
    throw;
  }
  std::byte* to = bytes_.data();
  for (ripc_item& item : items_) {
    if (item.kind == RIPC_ITEM_LONG) continue;
    if (item.kind == RIPC_ITEM_GIVEN) item.kind = RIPC_ITEM_AUTO;
    const void* from = std::exchange(item.data, to);
    to = std::copy_n(static_cast<const std::byte*>(from), item.size, to);
  }
}

}  // namespace ripc::internal::rpc
