// SPDX-License-Identifier: Apache-2.0
// What the ways to send have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/status.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::core {

// How often a send that meets a dead peer looks for its successor.
constexpr int kAttempts = 3;

// The channel is of no use any more.
inline bool is_gone(ripc_status status) noexcept { return status == RIPC_PEER_DEAD || status == RIPC_CLOSED; }

inline spi::Bytes bytes_of(const ripc_item& item) noexcept {
  return {static_cast<const std::byte*>(item.data), item.size};
}

// Whether some item may travel long instead.
inline bool has_auto(std::span<const ripc_item> items) noexcept {
  return std::any_of(items.begin(), items.end(),
                     [](const ripc_item& item) { return item.kind == RIPC_ITEM_AUTO && item.size != 0; });
}

// What is said of a packet of `size` bytes to a peer that takes `limit`.
Status too_large(std::size_t size, std::size_t limit);

}  // namespace ripc::core
