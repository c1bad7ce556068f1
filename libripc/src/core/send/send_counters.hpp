// SPDX-License-Identifier: Apache-2.0
// What a service has sent. Any thread.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/thread_epoch.hpp"
#include "core/state/counter.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::core {

class SendCounters {
 public:
  Counter long_items{0}, items_returned{0}, again{0}, notifications{0}, resolutions{0}, group_packets{0}, copies{0};

  // Counts a plain message of `bytes` bytes whose payload was copied. The thread that sent first has its own counters,
  // without locked instructions; the others share one set.
  void count_plain(const ThreadEpoch::Record& thread, std::size_t bytes) noexcept {
    if (main_sender_.load(std::memory_order_relaxed) != &thread) [[unlikely]]
      return count_plain_first(thread, bytes);
    if (bytes != 0) [[likely]] {
      increase(main_.payload_messages);
      increase(main_.bytes, bytes);
    } else {
      increase(main_.other_messages);
    }
  }
  // Counts any other message, with `short_bytes` bytes of short items. `copied`: these were copied.
  void count_other(std::size_t short_bytes, bool copied) noexcept {
    add(copied ? shared_.payload_messages : shared_.other_messages);
    add(shared_.bytes, short_bytes);
  }
  // Counts the wakes that the thread has made since `before`.
  void count_wakes(const ThreadEpoch::Record& thread, std::uint64_t before) noexcept {
    if (thread.wakes != before) [[unlikely]]
      add(wakes_, thread.wakes - before);
  }
  // Returns the status.
  ripc_status count_again(ripc_status status) noexcept {
    if (status == RIPC_AGAIN) add(again);
    return status;
  }

  void add_to(ripc_service_statistics& statistics) const noexcept;

 private:
  struct Messages {
    Counter payload_messages{0}, other_messages{0}, bytes{0};
  };
  [[gnu::noinline]] void count_plain_first(const ThreadEpoch::Record& thread, std::size_t bytes) noexcept;

  Counter wakes_{0};
  Messages shared_;
  alignas(64) Messages main_;  // written by the main sender only
  std::atomic<const ThreadEpoch::Record*> main_sender_{nullptr};
};

}  // namespace ripc::internal::core
