// SPDX-License-Identifier: Apache-2.0
// How many calls that would expire may be under way at once to a server that seems overloaded.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/clock.hpp"

namespace ripc::internal::rpc {

// An overloaded server would only refuse such calls, which takes the time of other calls: docs/performance/calls.md
// shows how much. The window is halved when a call runs out of time, and grows by one with each of its calls that is
// answered. So calls that expire for other reasons hold back few others, and not for long. A second after a call last
// ran out of time, the window is open again. Calls that were held back do not count.
class ProbeWindow {
 public:
  void start(std::size_t slots) noexcept {
    slots_ = limit_ = slots;
    under_way_ = 0;
    expired_at_ = 0;
  }
  bool is_open(Nanoseconds now) const noexcept { return elapsed(expired_at_, now) >= kRemembered; }
  Nanoseconds opens_at() const noexcept { return expired_at_ + kRemembered; }
  bool admits() const noexcept { return under_way_ < limit_; }
  void sent() noexcept { ++under_way_; }
  void ended() noexcept { --under_way_; }
  void answered() noexcept { limit_ = std::min(limit_ + 1, slots_); }
  void expired(Nanoseconds now) noexcept {
    limit_ = std::max<std::size_t>(1, (is_open(now) ? slots_ : limit_) / 2);
    expired_at_ = now;
  }

 private:
  static constexpr Nanoseconds kRemembered = 1'000'000'000;

  std::size_t slots_ = 0;
  std::size_t limit_ = 0;
  std::size_t under_way_ = 0;
  Nanoseconds expired_at_ = 0;  // when a call last ran out of time
};

}  // namespace ripc::internal::rpc
