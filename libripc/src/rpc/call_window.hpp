// SPDX-License-Identifier: Apache-2.0
// How many calls may be in progress at once on a path that loses messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/clock.hpp"

namespace ripc::internal::rpc {

// The window is halved when a call has to be repeated. With each answer it grows. But it shrinks by as much if the
// round trip is many times the shortest one, so that queues become shorter before they overflow. Only answers within
// the handler show that. Additive increase and multiplicative decrease are those of Chiu and Jain (1989), slow start is
// that of RFC 5681. docs/performance/calls.md shows the benefit.
class CallWindow {
 public:
  static constexpr double kFirst = 8;
  static constexpr Nanoseconds kCongestedRatio = 8;  // times the shortest round trip

  void start(std::size_t limit) noexcept {
    limit_ = static_cast<double>(limit);
    size_ = std::min(limit_, kFirst);
    is_starting_ = true;
    shortest_ = UINT64_MAX;
    before_ = 0;
  }
  bool admits(std::size_t under_way) const noexcept { return static_cast<double>(under_way + 1) <= size_; }
  // Called when a call that was sent only once is answered.
  void answered(Nanoseconds round_trip) noexcept {
    shortest_ = std::min(shortest_, round_trip);
    if (round_trip / kCongestedRatio <= shortest_) return grow();
    is_starting_ = false;
    size_ = std::max(1.0, size_ - 1 / size_);
  }
  // The same, after a time that is mostly that of its handler.
  void answered_late() noexcept { grow(); }
  // Called when this call is repeated. Counts at most once in a round trip: messages lost together count as one loss.
  void lost(std::uint32_t call, Nanoseconds now, Nanoseconds round_trip) noexcept {
    if (now < counts_again_at_) return;
    counts_again_at_ = now + round_trip;
    lost_ = call;
    before_ = size_;
    was_starting_ = is_starting_;
    size_ = std::max(1.0, size_ / 2);
    is_starting_ = false;
  }
  // The server has the call. If that is the one that counted as lost, its handler takes long, and the window is as
  // before (the Eifel response, RFC 4015).
  void was_not_lost(std::uint32_t call) noexcept {
    if (before_ == 0 || call != lost_) return;
    size_ = std::max(size_, std::exchange(before_, 0));
    is_starting_ = was_starting_;
  }

 private:
  void grow() noexcept { size_ = std::min(limit_, size_ + (is_starting_ ? 1 : 1 / size_)); }

  double limit_ = 0;
  double size_ = 0;
  bool is_starting_ = true;
  Nanoseconds shortest_ = UINT64_MAX;
  Nanoseconds counts_again_at_ = 0;
  std::uint32_t lost_ = 0;     // the call that halved the window last
  double before_ = 0;          // the size before that; 0: it was restored
  bool was_starting_ = false;  // before that
};

}  // namespace ripc::internal::rpc
