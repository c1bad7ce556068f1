// SPDX-License-Identifier: Apache-2.0
// The connections over which one session pulls. They choose which of them to ask for the next segment: the one that
// will bring it first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "remote/bulk/limits.hpp"
#include "remote/bulk/rail_pace.hpp"
#include "remote/session/endpoint.hpp"

namespace ripc::internal::remote {

// A backend derives its own class, which adds `std::size_t under_way()`, the segments that it owes, and
// `bool has_room()`, whether it may owe one more.
template <typename Of>
struct Lane {
  using Connection = Of;
  // How a lane of unknown rate is tried: with this many segments, of at least this many bytes.
  std::size_t first_segments = 1;
  std::uint64_t first_segment = RailPace::kLeastSegment;
  std::shared_ptr<Connection> connection;
  Endpoint peer;  // the address names its rail
  RailPace pace;
  Nanoseconds probe_at = 0;     // of a spare lane: when it is tried again
  Nanoseconds rests_until = 0;  // the one before it on this rail was asked for something, and brought nothing

  bool is(const Connection& other) const noexcept { return connection.get() == &other; }
};

// Guarded by the lock of the table that owns it.
template <typename Lane>
class Lanes {
 public:
  using Connection = typename Lane::Connection;

  // `stall_timeout`: a connection that is silent for a quarter of it has failed. Throws std::bad_alloc.
  explicit Lanes(Nanoseconds stall_timeout) : stall_timeout_(stall_timeout) { rests_.reserve(kMostRests); }

  bool empty() const noexcept { return lanes_.empty(); }
  auto begin() noexcept { return lanes_.begin(); }
  auto end() noexcept { return lanes_.end(); }
  auto begin() const noexcept { return lanes_.begin(); }
  auto end() const noexcept { return lanes_.end(); }
  // `is_first`: before all others, instead of after them.
  void add(std::list<Lane>& made, bool is_first = false) noexcept {
    if (const auto rest = rest_of(made.front()); rest != rests_.end()) made.front().rests_until = rest->until;
    lanes_.splice(is_first ? lanes_.begin() : lanes_.end(), made);
  }
  // Its connection has ended.
  void remove(const Lane& lane, Nanoseconds now) noexcept {
    const auto rest = rest_of(lane);
    if (lane.pace.has_failed()) {
      fail(rest, lane.peer, now);
    } else if (lane.pace.rate() != 0 && rest != rests_.end()) {
      rests_.erase(rest);
    }
    lanes_.remove_if([&](const Lane& other) { return &other == &lane; });
  }
  void clear() noexcept { lanes_.clear(); }

  Lane* find(const auto& connection) noexcept { return const_cast<Lane*>(std::as_const(*this).find(connection)); }
  const Lane* find(const auto& connection) const noexcept {
    const auto found = std::ranges::find_if(lanes_, [&](const Lane& lane) { return lane.is(connection); });
    return found == lanes_.end() ? nullptr : &*found;
  }

  // Of the lanes that can carry an item, the one to ask next, and for how many bytes; null: none, because the best one
  // has enough to do. `rest`: bytes of the item that no lane was asked for. `will_carry` also accepts lanes that cannot
  // carry it yet.
  template <typename CanCarry>
  std::pair<Lane*, std::uint64_t> next(std::uint64_t rest, Nanoseconds now, CanCarry&& can_carry) noexcept {
    return next(rest, now, can_carry, can_carry);
  }
  template <typename CanCarry, typename WillCarry>
  std::pair<Lane*, std::uint64_t> next(std::uint64_t rest, Nanoseconds now, CanCarry&& can_carry,
                                       WillCarry&& will_carry) noexcept {
    constexpr double kSpare = RailPace::kSpare;
    // How often a spare carries a segment, to see whether it has become faster.
    constexpr Nanoseconds kProbePause = 1'000'000'000;
    // A rail that accepts connections but brings nothing would hold up an item each time.
    const auto is_rested = [&](const Lane& lane) { return lane.rests_until <= now; };
    const bool is_any_rested =
        std::ranges::any_of(lanes_, [&](const Lane& lane) { return is_rested(lane) && will_carry(lane); });
    const auto may_be_asked = [&](const Lane& lane) { return (is_rested(lane) || !is_any_rested) && can_carry(lane); };
    Lane* only = nullptr;
    std::size_t count = 0;
    double fastest = 0;
    for (Lane& lane : lanes_) {
      if (!may_be_asked(lane)) continue;
      only = &lane;
      ++count;
      fastest = std::max(fastest, lane.pace.rate());
    }
    if (count < 2) return {only != nullptr && only->has_room() ? only : nullptr, kSegmentSize};
    const double time_for_rest = static_cast<double>(rest) / fastest;
    // The time until all lanes that are not spare have brought the rest together. The last segments end then, on each
    // of them. Over two rails of 400 Mb/s, an item of 1 MiB takes half the time, and one of 4 MiB 4 % less.
    double rates = 0;
    double left = static_cast<double>(rest);
    for (const Lane& lane : lanes_) {
      if (!may_be_asked(lane) || lane.pace.rate() * kSpare < fastest) continue;
      rates += lane.pace.rate();
      left += static_cast<double>(lane.pace.owed());
    }
    const double time_for_all = left / rates;
    const std::uint64_t least_part = rest <= RailPace::kUndivided ? rest : RailPace::kLeastPart;
    Lane* best = nullptr;
    std::uint64_t best_segment = 0;
    double best_time = 0;
    for (Lane& lane : lanes_) {
      if (!may_be_asked(lane)) continue;
      const bool is_new = lane.pace.rate() == 0;
      const std::uint64_t least = is_new ? lane.first_segment : RailPace::kLeastSegment;
      std::uint64_t segment = std::max(lane.pace.segment(fastest / kSpare, kSegmentSize), least);
      const bool is_spare = !is_new && lane.pace.rate() * kSpare < fastest;
      if (!is_new && !is_spare) segment = std::min(segment, std::max(lane.pace.bytes_until(time_for_all), least_part));
      double time = is_new && lane.under_way() < lane.first_segments ? 0 : lane.pace.time_for(segment);
      if (is_spare) {
        if (now < lane.probe_at) continue;
        // A small segment tells less about the rate. But a lane that once was slow would otherwise never be tried again
        // with small items.
        if (time > time_for_rest) {
          segment = RailPace::kLeastSegment;
          time = lane.pace.time_for(segment);
        }
        if (time > time_for_rest) continue;
      }
      if (best != nullptr && time >= best_time) continue;
      best = &lane;
      best_segment = segment;
      best_time = time;
    }
    if (best == nullptr || !best->has_room()) return {};
    if (best->pace.rate() == 0 && best->under_way() >= best->first_segments) return {};
    if (best->pace.rate() * kSpare < fastest) best->probe_at = now + kProbePause;
    return {best, best_segment};
  }

  // The connection that would bring something small first; null: there is no connection.
  std::shared_ptr<Connection> quickest() const noexcept {
    constexpr std::uint64_t kSmall = 4096;
    const auto time_of = [](const Lane& lane) {
      const bool is_doubtful = lane.rests_until != 0 && lane.pace.rate() == 0;
      return std::pair(is_doubtful, lane.pace.time_for(kSmall));
    };
    const auto found = std::ranges::min_element(
        lanes_, [&](const Lane& left, const Lane& right) { return time_of(left) < time_of(right); });
    return found == lanes_.end() ? nullptr : found->connection;
  }

  // In bytes per second; 0: not known.
  std::uint64_t rate_of(const auto& connection) const noexcept {
    const Lane* const lane = find(connection);
    return lane == nullptr ? 0 : static_cast<std::uint64_t>(lane->pace.rate() * 1e9);
  }

 private:
  // A rail whose last connection has failed.
  struct Rest {
    Endpoint peer;
    Backoff pause;
    Nanoseconds until;
  };
  static constexpr std::size_t kMostRests = 16;

  auto rest_of(const Lane& lane) noexcept {
    return std::ranges::find_if(rests_, [&](const Rest& rest) { return rest.peer.same_ip(lane.peer); });
  }
  // A failure costs a quarter of the timeout; repeated failures cost, in the end, one seventeenth of the time.
  void fail(typename std::vector<Rest>::iterator rest, const Endpoint& peer, Nanoseconds now) noexcept {
    if (rest == rests_.end()) {
      if (rests_.size() == kMostRests) rests_.erase(rests_.begin());
      rest = rests_.insert(rests_.end(), {peer, {stall_timeout_ / 4, stall_timeout_ * 4}, 0});
    }
    rest->until = now + rest->pause.next();
  }

  const Nanoseconds stall_timeout_;
  std::list<Lane> lanes_;
  std::vector<Rest> rests_;  // the oldest first
};

}  // namespace ripc::internal::remote
