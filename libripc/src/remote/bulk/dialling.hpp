// SPDX-License-Identifier: Apache-2.0
// When a bulk asks for a connection: one at a time, and after failures with pauses that grow.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/standing_timer.hpp"
#include "remote/bulk/bulk.hpp"

namespace ripc::remote {

class Dialling {
 public:
  // All of them outlive it. `dead`: the bulk has ended, and asks no more.
  Dialling(EventLoop& loop, const BulkHooks& hooks, const std::atomic<bool>& dead) noexcept
      : loop_(loop), hooks_(hooks), dead_(dead) {}
  // Before any other call. `owner` is what this is a part of.
  void start(std::weak_ptr<void> owner);

  // ---- With the bulk's lock held ----
  bool under_way() const noexcept { return under_way_; }
  // The pause to give to ask(). Nothing if one is under way.
  std::optional<Nanoseconds> begin() noexcept {
    if (std::exchange(under_way_, true)) return std::nullopt;
    return pause_;
  }
  // There is a connection, or there will be none.
  void over() noexcept { under_way_ = false; }
  // The next one is asked for without a pause.
  void forgive() noexcept { pause_ = 0; }
  // It did not go well: the pause before the next one grows.
  void back_off() noexcept { pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause); }

  // ---- Without it ----
  // After begin().
  void ask(Nanoseconds pause) noexcept;
  // Nothing is asked for any more.
  void stop() noexcept { timer_.cancel(); }

 private:
  static constexpr Nanoseconds kFirstPause = 10'000'000;
  static constexpr Nanoseconds kLongestPause = 1'000'000'000;

  EventLoop& loop_;
  const BulkHooks& hooks_;
  const std::atomic<bool>& dead_;
  StandingTimer timer_;
  bool under_way_ = false;
  Nanoseconds pause_ = 0;
};

}  // namespace ripc::remote
