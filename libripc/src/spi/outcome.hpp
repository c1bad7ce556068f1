// SPDX-License-Identifier: Apache-2.0
// The statuses with which the other side may end a transfer.
#pragma once

#include "ripc/ripc.h"

namespace ripc::internal::spi {

// What a receiver says when it drops a message: it need not know whether the sender had withdrawn it.
constexpr bool drops_message(ripc_status status) noexcept {
  return status == RIPC_REFUSED || status == RIPC_CANCELLED || status == RIPC_CLOSED;
}

// Checks the status that a peer reports: one that no honest receiver can report becomes RIPC_CORRUPT. For senders, a
// receiver that was closed is gone.
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
