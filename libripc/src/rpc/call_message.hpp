// SPDX-License-Identifier: Apache-2.0
// The items of a call's message: its header, and those of the application where they lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "ripc/ripc.h"
#include "wire/call.hpp"

namespace ripc::internal::rpc {

// Borrows `items`, at most RIPC_RPC_MAX_ITEMS.
class CallMessage {
 public:
  explicit CallMessage(const wire::call::Header& header, std::span<const ripc_item> items = {}) noexcept
      : header_(wire::call::encode(header)), count_(items.size() + 1) {
    items_[0] = {header_.data(), header_.size(), RIPC_ITEM_SHORT, 0};
    std::copy(items.begin(), items.end(), items_.begin() + 1);
  }
  CallMessage(const CallMessage&) = delete;
  CallMessage& operator=(const CallMessage&) = delete;
  std::span<const ripc_item> items() const noexcept { return {items_.data(), count_}; }

 private:
  std::array<std::byte, wire::call::kHeaderSize> header_;
  std::array<ripc_item, RIPC_MAX_ITEMS> items_;
  std::size_t count_;
};

}  // namespace ripc::internal::rpc
