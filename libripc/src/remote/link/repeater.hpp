// SPDX-License-Identifier: Apache-2.0
// Sends a packet that told the peer of a transfer once more, until the peer has asked for the transfer: such packets
// are datagrams, which may be lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/event_loop.hpp"
#include "base/standing_timer.hpp"
#include "remote/bulk/bulk.hpp"
#include "remote/bulk/exposure_table.hpp"

namespace ripc::remote {

class Repeater {
 public:
  // All of them outlive the repeater.
  Repeater(EventLoop& loop, ExposureTable& transfers, const BulkHooks& hooks) noexcept
      : loop_(loop), transfers_(transfers), hooks_(hooks) {}

  // Before any other call. `owner` is what the repeater is a part of.
  void start(std::weak_ptr<void> owner);
  // Any. As Bulk::told.
  void told(std::uint64_t transfer, spi::Gather packet) noexcept;
  // Any. Nothing is repeated any more (what is being repeated may be finishing).
  void stop() noexcept {
    stopped_.store(true, std::memory_order_release);
    timer_.cancel();
  }

 private:
  void watch() noexcept;
  void repeat_what_is_due();

  EventLoop& loop_;
  ExposureTable& transfers_;
  const BulkHooks& hooks_;
  StandingTimer timer_;
  std::atomic<bool> watching_{false};
  std::atomic<bool> stopped_{false};
};

}  // namespace ripc::remote
