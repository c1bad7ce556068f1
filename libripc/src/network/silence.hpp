// SPDX-License-Identifier: Apache-2.0
// When a connection that owes something has said nothing for too long.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/event_loop.hpp"

namespace ripc::network {

// Of one connection; one thread. It is looked at kLooks times in the time that is too long.
class Silence {
 public:
  static constexpr unsigned kLooks = 4;

  // owed: it should say something. heard: grows with everything that it says. True: nothing new at kLooks looks in a
  // row, all that time something was owed.
  bool look(bool owed, std::uint64_t heard) noexcept {
    looks_ = owed && heard == heard_ ? looks_ + 1 : 0;
    heard_ = heard;
    return looks_ >= kLooks;
  }

 private:
  std::uint64_t heard_ = 0;
  unsigned looks_ = 0;
};

// When to look, from the loop.
class SilenceWatch {
 public:
  // too_long: how long a connection may say nothing.
  SilenceWatch(EventLoop& loop, Nanoseconds too_long) noexcept : loop_(loop), pause_(too_long / Silence::kLooks) {}

  // Any thread. `owner->look_for_silence()` is called once after a pause, if it still lives; one look that is due is
  // enough. What asks while it is called is for the next.
  template <typename Owner>
  void look_soon(std::weak_ptr<Owner> owner) noexcept {
    if (due_.load(std::memory_order_relaxed) || due_.exchange(true, std::memory_order_acq_rel)) return;
    (void)loop_.add_timer(monotonic_now() + pause_, [this, owner = std::move(owner)] {
      if (const std::shared_ptr<Owner> alive = owner.lock()) {
        due_.store(false, std::memory_order_release);
        alive->look_for_silence();
      }
    });
  }

 private:
  EventLoop& loop_;
  const Nanoseconds pause_;
  std::atomic<bool> due_{false};
};

}  // namespace ripc::network
