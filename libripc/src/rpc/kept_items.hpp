// SPDX-License-Identifier: Apache-2.0
// Copies of items, for calls that wait and for messages that may have to be sent again.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ripc/ripc.h"

namespace ripc::internal::rpc {

// Keeps its memory when it is emptied, so that using it again takes none.
class KeptItems {
 public:
  // Copies the items. LONG items are not copied, but stay where they are. May throw std::bad_alloc; then it is empty.
  // GIVEN items become AUTO: the copy is an ordinary item. So do RETURN items: each becomes a wire::call::Returned,
  // with the bytes that the answer may have carried.
  void assign(std::span<const ripc_item> items);
  void clear() noexcept {
    items_.clear();
    bytes_.clear();
  }

  std::span<ripc_item> items() noexcept { return items_; }
  std::span<const ripc_item> items() const noexcept { return items_; }
  std::size_t bytes() const noexcept { return bytes_.size(); }
  // How many bytes the copies of these items take.
  static std::size_t bytes_of(std::span<const ripc_item> items) noexcept;

 private:
  std::vector<ripc_item> items_;
  std::vector<std::byte> bytes_;
};

}  // namespace ripc::internal::rpc
