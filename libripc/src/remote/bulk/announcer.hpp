// SPDX-License-Identifier: Apache-2.0
// Announcements are the packets that tell the peer of a transfer. They are datagrams, which may be lost: each is sent
// again, with growing pauses, until the peer has asked for the transfer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/event_loop.hpp"
#include "base/standing_timer.hpp"
#include "remote/bulk/exposure_table.hpp"

namespace ripc::internal::remote {

class Announcer {
 public:
  // Responder. Sends a packet of a transfer of `owner` again.
  using Repeat = std::function<void(std::uint64_t owner, spi::Bytes packet)>;

  // `transfers` and `repeat` outlive the announcer.
  Announcer(ExposureTable& transfers, const Repeat& repeat) noexcept : transfers_(transfers), repeat_(repeat) {}

  // Before any other call. `owner` is what the announcer is a part of. Throws std::bad_alloc.
  void start(EventLoop& loop, std::weak_ptr<void> owner);
  // Any. As Bulk::announced.
  void announced(std::uint64_t transfer, spi::Gather packet) noexcept;
  // Any. Nothing is repeated any more (a repetition under way may still finish).
  void stop() noexcept {
    stopped_.store(true, std::memory_order_release);
    timer_.cancel();
  }

 private:
  void watch() noexcept;
  void repeat_what_is_due();

  ExposureTable& transfers_;
  const Repeat& repeat_;
  StandingTimer timer_;
  std::atomic<bool> watching_{false};
  std::atomic<bool> stopped_{false};
};

}  // namespace ripc::internal::remote
