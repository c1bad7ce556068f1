// SPDX-License-Identifier: Apache-2.0
// How fast one connection brings what it is asked for, and when it will be done. Of several connections, the one that
// will bring the next segment first is asked for it. This is the dynamic weighted scheduler of MultiEdge (Passas,
// University of Crete, 2008), with weights that are measured instead of configured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/clock.hpp"

namespace ripc::internal::remote {

// One thread at a time.
class RailPace {
 public:
  // A segment should not take longer than this, which limits what is asked for again when a rail fails.
  static constexpr Nanoseconds kSegmentTime = 20'000'000;
  static constexpr std::uint64_t kLeastSegment = std::uint64_t{128} << 10;
  // The rest of an item is divided so that all rails end together. If no more than this is left, it is not divided:
  // fast rails gain nothing by that (docs/performance/rails.md).
  static constexpr std::uint64_t kUndivided = std::uint64_t{128} << 10;
  static constexpr std::uint64_t kLeastPart = kUndivided / 2;
  // A rail that is this many times slower than the fastest one is a spare.
  static constexpr double kSpare = 4;

  void asked(std::uint64_t bytes, Nanoseconds now) noexcept {
    if (owed_ == 0) begin(now);
    is_first_ = is_first_ || owed_ == 0;
    owed_ += bytes;
  }
  // The first bytes are there. How long the request took says nothing about the rate.
  void began(Nanoseconds now) noexcept {
    if (std::exchange(is_first_, false)) begin(now);
  }
  void arrived(std::uint64_t bytes, Nanoseconds now) noexcept {
    owed_ -= std::min(owed_, bytes);
    counted_ += bytes;
    const Nanoseconds elapsed = now - since_;
    if (owed_ != 0 && counted_ < kSampleBytes && elapsed < kSegmentTime) return;
    bytes_ = bytes_ * kKept + static_cast<double>(counted_);
    time_ = time_ * kKept + static_cast<double>(std::max<Nanoseconds>(elapsed, 1));
    rate_ = bytes_ / time_;
    begin(now);
  }
  // These bytes will not come.
  void forget(std::uint64_t bytes) noexcept { owed_ -= std::min(owed_, bytes); }

  // Whether it was asked for something and brought nothing at all.
  bool has_failed() const noexcept { return is_first_ && counted_ == 0 && rate_ == 0; }
  // Bytes per nanosecond; 0: not known yet.
  double rate() const noexcept { return rate_; }
  // The time until this many bytes would be there, after all that it owes. A rail of unknown rate is tried at once,
  // with one segment.
  double time_for(std::uint64_t bytes) const noexcept {
    if (rate_ == 0) return owed_ == 0 ? 0 : std::numeric_limits<double>::infinity();
    return static_cast<double>(owed_ + bytes) / rate_;
  }
  // The size of the next segment, at most `largest`. A rail that is not known to be faster is tried with what would
  // suit `rate`. A small segment among large ones of other rails says nothing about its rate.
  std::uint64_t segment(double rate, std::uint64_t largest) const noexcept {
    const auto fitting = static_cast<std::uint64_t>(std::max(rate_, rate) * static_cast<double>(kSegmentTime));
    return std::min(std::max(fitting, kLeastSegment), largest);
  }

  // How many bytes it brings, after what it owes, within `time` nanoseconds from now.
  std::uint64_t bytes_until(double time) const noexcept {
    return static_cast<std::uint64_t>(std::max(rate_ * time - static_cast<double>(owed_), 0.0));
  }
  std::uint64_t owed() const noexcept { return owed_; }

 private:
  static constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 20;
  // A sample counts for a quarter, so that one slow moment makes no rail a spare. Bytes and time are summed separately.
  // Bytes that a busy process takes from a queue at once would otherwise give samples of no time, and of any rate.
  static constexpr double kKept = 0.75;

  void begin(Nanoseconds now) noexcept {
    since_ = now;
    counted_ = 0;
  }

  std::uint64_t owed_ = 0;
  bool is_first_ = false;      // nothing has come since it owed nothing
  std::uint64_t counted_ = 0;  // that came since ...
  Nanoseconds since_ = 0;
  double bytes_ = 0, time_ = 0;  // of the samples so far
  double rate_ = 0;
};

}  // namespace ripc::internal::remote
