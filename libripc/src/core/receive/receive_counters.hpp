// SPDX-License-Identifier: Apache-2.0
// What a service has received. Written by the receiving thread, read by any.
#pragma once

#include "core/state/counter.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::core {

struct alignas(64) ReceiveCounters {
  // Messages with payload only, which cost one copy each, and the other messages.
  Counter payload_messages{0}, short_bytes{0}, other_messages{0};
  Counter long_items{0}, long_bytes{0}, items_lent{0}, items_discarded{0}, sleeps{0}, packets_corrupt{0}, copies{0};

  void add_to(ripc_service_statistics& statistics) const noexcept {
    const std::uint64_t payload = value(payload_messages);
    statistics.messages_received = payload + value(other_messages);
    statistics.short_bytes_received = value(short_bytes);
    statistics.long_items_received = value(long_items);
    statistics.long_bytes_received = value(long_bytes);
    statistics.items_lent = value(items_lent);
    statistics.items_discarded = value(items_discarded);
    statistics.sleeps = value(sleeps);
    statistics.packets_corrupt += value(packets_corrupt);
    statistics.payload_copies += payload + value(copies);
  }
};

}  // namespace ripc::internal::core
