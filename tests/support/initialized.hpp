// SPDX-License-Identifier: Apache-2.0
// A sized structure of ripc.h as its init function leaves it: `initialized(ripc_peer_init)`.
#pragma once

namespace support {

template <typename T>
T initialized(void (*init)(T*)) noexcept {
  T structure;
  init(&structure);
  return structure;
}

}  // namespace support
