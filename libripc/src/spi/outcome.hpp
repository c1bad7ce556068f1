// SPDX-License-Identifier: Apache-2.0
// How a transfer may end, in the words of the other side.
#pragma once

#include "ripc/ripc.h"

namespace ripc::spi {

// The peer says it: only what a receiver can honestly report is believed; anything else is RIPC_CORRUPT.
constexpr ripc_status believed_outcome(ripc_status said) noexcept {
  switch (said) {
    case RIPC_OK:
    case RIPC_NO_WINDOW:
    case RIPC_WINDOW_TOO_SMALL:
    case RIPC_REFUSED:
    case RIPC_NO_MEMORY:
    case RIPC_CLOSED:
    case RIPC_CANCELLED:
      return said;
    default:
      return RIPC_CORRUPT;
  }
}

}  // namespace ripc::spi
