// SPDX-License-Identifier: Apache-2.0
// Tells a packet from a copy of it: one that came by another path, or one that someone recorded and sent again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/clock.hpp"
#include "security/identity.hpp"

namespace ripc::internal::resolver {

// Not thread-safe. Remembers the newest time stamps of each sender: with a tolerance, a packet that is older than all
// of them counts as seen. If our clock was set back, those from before it do not count.
// Bounded: at most max_senders are remembered, and kRemembered time stamps of each.
class ReplayGuard {
 public:
  static constexpr std::size_t kRemembered = 32;
  static constexpr Nanoseconds kLongestWay = 1'000'000'000;  // between copies that travel by several paths

  // tolerance: how far a time stamp may be from our clock; 0: any (then time stamps only tell copies apart).
  ReplayGuard(std::size_t max_senders, Nanoseconds tolerance) : max_senders_(max_senders), tolerance_(tolerance) {}

  // Every member can write another one's context into its packets, but not sign them as that one. A member signs all.
  struct Sender {
    std::uint64_t context = 0;
    security::PublicKey signer{};  // zeros: the packet has none
    bool operator==(const Sender&) const = default;
  };

  enum class Verdict : std::uint8_t {
    fresh,
    copy,      // seen a moment ago: it came by another path
    replayed,  // seen longer ago
    stale,     // its time is too far from ours: recorded long ago, or a clock is wrong
    full,      // too many senders are active to protect this one
  };

  // What accept() would say; changes nothing. `now`: wall clock in nanoseconds.
  Verdict check(const Sender& sender, std::uint64_t timestamp, Nanoseconds now) const;

  // Remembers a packet that check() calls fresh. Only for packets that are authentic, where there is a key.
  Verdict accept(const Sender& sender, std::uint64_t timestamp, Nanoseconds now);

 private:
  struct Packet {
    std::uint64_t timestamp = 0;  // 0: none
    Nanoseconds came_at = 0;
  };
  struct Entry {
    std::array<Packet, kRemembered> packets{};  // the oldest time stamp first
    std::list<Sender>::iterator order;
  };
  struct Hash {
    std::size_t operator()(const Sender& sender) const noexcept;
  };
  bool is_stale(std::uint64_t timestamp, Nanoseconds now) const noexcept;
  bool may_forget_oldest(Nanoseconds now) const;

  const std::size_t max_senders_;
  const Nanoseconds tolerance_;
  std::unordered_map<Sender, Entry, Hash> senders_;
  std::list<Sender> order_;  // seen longest ago first
};

}  // namespace ripc::internal::resolver
