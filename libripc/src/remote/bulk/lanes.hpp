// SPDX-License-Identifier: Apache-2.0
// The connections that one session pulls over, and which of them is asked for the next segment: the one that will have
// it first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "remote/bulk/rail_pace.hpp"

namespace ripc::internal::remote {

inline constexpr std::uint32_t kSegmentSize = std::uint32_t{1} << 20;  // the largest that is asked for

// What moves the bytes derives from it, and adds `std::size_t under_way()`, the segments that it owes, and
// `bool has_room()`, whether it may owe one more.
template <typename Of>
struct Lane {
  using Connection = Of;
  // What one of unknown rate is tried with: so many segments, of at least so many bytes.
  static constexpr std::size_t kFirstSegments = 1;
  static constexpr std::uint64_t kFirstSegment = RailPace::kLeastSegment;
  std::shared_ptr<Connection> connection;
  RailPace pace;
  Nanoseconds probe_at = 0;  // of a spare one: when it is tried again
};

// Under the lock of the table that it is of.
template <typename Lane>
class Lanes {
 public:
  using Connection = typename Lane::Connection;

  bool empty() const noexcept { return lanes_.empty(); }
  auto begin() noexcept { return lanes_.begin(); }
  auto end() noexcept { return lanes_.end(); }
  auto begin() const noexcept { return lanes_.begin(); }
  auto end() const noexcept { return lanes_.end(); }
  void add(std::list<Lane>& made) noexcept { lanes_.splice(lanes_.end(), made); }
  void remove(const Lane& lane) noexcept {
    lanes_.remove_if([&](const Lane& other) { return &other == &lane; });
  }
  void clear() noexcept { lanes_.clear(); }

  Lane* find(const Connection& connection) noexcept { return const_cast<Lane*>(std::as_const(*this).find(connection)); }
  const Lane* find(const Connection& connection) const noexcept {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                    [&](const Lane& lane) { return lane.connection.get() == &connection; });
    return found == lanes_.end() ? nullptr : &*found;
  }

  // Of those that can carry an item, the one that is asked next, and for how much; null: none, because the best one has
  // enough to do. `rest`: bytes of the item that none was asked for.
  template <typename CanCarry>
  std::pair<Lane*, std::uint64_t> next(std::uint64_t rest, Nanoseconds now, CanCarry&& can_carry) noexcept {
    constexpr double kSpare = RailPace::kSpare;
    // How often a spare carries a segment, to see whether it has become faster.
    constexpr Nanoseconds kProbePause = 1'000'000'000;
    Lane* only = nullptr;
    std::size_t count = 0;
    double fastest = 0;
    for (Lane& lane : lanes_) {
      if (!can_carry(lane)) continue;
      only = &lane;
      ++count;
      fastest = std::max(fastest, lane.pace.rate());
    }
    if (count < 2) return {only != nullptr && only->has_room() ? only : nullptr, kSegmentSize};
    const double time_for_rest = static_cast<double>(rest) / fastest;
    Lane* best = nullptr;
    std::uint64_t best_segment = 0;
    double best_time = 0;
    for (Lane& lane : lanes_) {
      if (!can_carry(lane)) continue;
      const bool is_new = lane.pace.rate() == 0;
      const std::uint64_t least = is_new ? Lane::kFirstSegment : RailPace::kLeastSegment;
      const std::uint64_t segment = std::max(lane.pace.segment(fastest / kSpare, kSegmentSize), least);
      const double time = is_new && lane.under_way() < Lane::kFirstSegments ? 0 : lane.pace.time_for(segment);
      const bool is_spare = !is_new && lane.pace.rate() * kSpare < fastest;
      if (is_spare && (now < lane.probe_at || time > time_for_rest)) continue;
      if (best != nullptr && time >= best_time) continue;
      best = &lane;
      best_segment = segment;
      best_time = time;
    }
    if (best == nullptr || !best->has_room()) return {};
    if (best->pace.rate() == 0 && best->under_way() >= Lane::kFirstSegments) return {};
    if (best->pace.rate() * kSpare < fastest) best->probe_at = now + kProbePause;
    return {best, best_segment};
  }

  // The connection that brings something small first; null: there is none.
  std::shared_ptr<Connection> quickest() const noexcept {
    constexpr std::uint64_t kSmall = 4096;
    const auto found = std::min_element(lanes_.begin(), lanes_.end(), [](const Lane& left, const Lane& right) {
      return left.pace.time_for(kSmall) < right.pace.time_for(kSmall);
    });
    return found == lanes_.end() ? nullptr : found->connection;
  }

  // In bytes per second; 0: not known.
  std::uint64_t rate_of(const Connection& connection) const noexcept {
    const Lane* const lane = find(connection);
    return lane == nullptr ? 0 : static_cast<std::uint64_t>(lane->pace.rate() * 1e9);
  }

 private:
  std::list<Lane> lanes_;
};

}  // namespace ripc::internal::remote
