// SPDX-License-Identifier: Apache-2.0
#include "core/send/send_counters.hpp"

namespace ripc::internal::core {

void SendCounters::count_plain_first(const ThreadEpoch::Record& thread, std::size_t bytes) noexcept {
  const ThreadEpoch::Record* main = nullptr;
  if (main_sender_.compare_exchange_strong(main, &thread, std::memory_order_relaxed)) return count_plain(thread, bytes);
  count_other(bytes, bytes != 0);
}

void SendCounters::add_to(ripc_service_statistics& statistics) const noexcept {
  const std::uint64_t payload = value(shared_.payload_messages) + value(main_.payload_messages);
  statistics.messages_sent = payload + value(shared_.other_messages) + value(main_.other_messages);
  statistics.short_bytes_sent = value(shared_.bytes) + value(main_.bytes);
  statistics.long_items_sent = value(long_items);
  statistics.items_returned = value(items_returned);
  statistics.again = value(again);
  statistics.wakes_sent = value(wakes_);
  statistics.notifications_sent = value(notifications);
  // A short message is gathered into the queue by one copy; an item in a return buffer is written by one.
  statistics.payload_copies += payload + value(items_returned) + value(copies);
  statistics.resolutions = value(resolutions);
  statistics.group_packets = value(group_packets);
}

}  // namespace ripc::internal::core
