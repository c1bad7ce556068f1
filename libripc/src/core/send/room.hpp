// SPDX-License-Identifier: Apache-2.0
// Waiting until a peer that was full has room.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/event_loop.hpp"
#include "core/path/paths.hpp"
#include "core/send/group_send.hpp"
#include "core/state/service_life.hpp"

namespace ripc::internal::core {

// Any thread.
class Room {
 public:
  // spin: how long a wait polls before it sleeps.
  Room(ServiceLife& life, Paths& paths, GroupSend& groups, Counter& resolutions, EventLoop& loop, Nanoseconds spin)
      : life_(life), paths_(paths), groups_(groups), resolutions_(resolutions), loop_(loop), spin_(spin) {}

  Status wait(ripc_service_id to, Deadline deadline);
  Status request_event(ripc_service_id to);

  // Called when a peer that had no room has some again, or is gone.
  void changed() noexcept;
  // Makes waiting threads look again. Async-signal-safe.
  void wake_waiters() noexcept;

 private:
  enum class Resolve { no, yes };
  Result<bool> is_at(ripc_service_id to, bool request, Resolve resolve);
  ripc_status sleep(std::uint32_t seen, Deadline deadline);

  ServiceLife& life_;
  Paths& paths_;
  GroupSend& groups_;
  Counter& resolutions_;
  EventLoop& loop_;
  const Nanoseconds spin_;
  std::atomic<std::uint32_t> changes_{0};  // waiting threads sleep on it
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace ripc::internal::core
