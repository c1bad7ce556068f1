// SPDX-License-Identifier: Apache-2.0
// How a transfer may end, in the words of the other side.
#pragma once

#include "ripc/ripc.h"

namespace ripc::internal::spi {

// What a receiver says when it drops a message: it need not know whether the sender had withdrawn it.
constexpr bool drops_message(ripc_status status) noexcept {
  return status == RIPC_REFUSED || status == RIPC_CANCELLED || status == RIPC_CLOSED;
}

// The peer says it: only what a receiver can honestly report is believed; anything else is RIPC_CORRUPT. A receiver
// that was closed is gone for its senders.
constexpr ripc_status checked_outcome(ripc_status said) noexcept {
  switch (said) {
    case RIPC_OK:
    case RIPC_NO_WINDOW:
    case RIPC_WINDOW_TOO_SMALL:
    case RIPC_REFUSED:
    case RIPC_NO_MEMORY:
    case RIPC_CANCELLED:
      return said;
    case RIPC_CLOSED:
      return RIPC_PEER_DEAD;
    default:
      return RIPC_CORRUPT;
  }
}

}  // namespace ripc::internal::spi
