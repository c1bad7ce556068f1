// SPDX-License-Identifier: Apache-2.0
// Finds out when a connection that owes something has been silent for too long.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "base/standing_timer.hpp"

namespace ripc::internal::remote {

// For one connection; one thread.
class Silence {
 public:
  // owed: it should say something. activity: grows with everything that it says.
  void look(bool owed, std::uint64_t activity) noexcept {
    looks_ = owed && activity == activity_ ? looks_ + 1 : 0;
    activity_ = activity;
  }
  // True if this many looks in a row found nothing new, and something was owed all that time.
  bool lasts(unsigned looks) const noexcept { return looks_ >= looks; }

 private:
  std::uint64_t activity_ = 0;
  unsigned looks_ = 0;
};

// Decides when to look, and looks from the loop.
class LaterLook {
 public:
  LaterLook(EventLoop& loop, Nanoseconds pause) noexcept : loop_(loop), pause_(pause) {}

  // Before any other call. `owner` is what this is a part of. Throws std::bad_alloc.
  template <typename Owner, typename Look>
  void start(std::weak_ptr<Owner> owner, Look look) {
    timer_.make(loop_, [this, owner = std::move(owner), look] {
      if (const std::shared_ptr<Owner> alive = owner.lock()) {
        due_.store(false, std::memory_order_release);
        look(*alive);
      }
    });
  }

  // Any thread. look(owner) is called once after a pause, if the owner still lives; calls made while a look is due
  // cause no second one. A call made during the look causes the next one.
  void look_soon() noexcept {
    if (due_.load(std::memory_order_relaxed) || due_.exchange(true, std::memory_order_acq_rel)) return;
    timer_.set(monotonic_now() + pause_);
  }
  // Any thread. There are no more looks.
  void stop() noexcept { timer_.cancel(); }

 private:
  EventLoop& loop_;
  const Nanoseconds pause_;
  StandingTimer timer_;
  std::atomic<bool> due_{false};
};

}  // namespace ripc::internal::remote
