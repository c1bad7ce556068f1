// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/replay_guard.hpp"

#include <algorithm>
#include <cstring>

namespace ripc::internal::resolver {

std::size_t ReplayGuard::Hash::operator()(const Sender& sender) const noexcept {
  std::uint64_t first = 0;
  std::memcpy(&first, sender.signer.data(), sizeof first);
  return sender.context ^ first;
}

bool ReplayGuard::is_stale(std::uint64_t timestamp, Nanoseconds now) const noexcept {
  const Nanoseconds distance = timestamp > now ? timestamp - now : now - timestamp;
  return tolerance_ != 0 && distance > tolerance_;
}

// A sender may be forgotten when its packets would be stale anyway.
bool ReplayGuard::may_forget_oldest(Nanoseconds now) const {
  return tolerance_ == 0 || is_stale(senders_.at(order_.front()).packets.back().timestamp, now);
}

ReplayGuard::Verdict ReplayGuard::check(const Sender& sender, std::uint64_t timestamp, Nanoseconds now) const {
  if (is_stale(timestamp, now)) return Verdict::stale;
  const auto found = senders_.find(sender);
  if (found == senders_.end())
    return senders_.size() >= max_senders_ && !may_forget_oldest(now) ? Verdict::full : Verdict::fresh;
  const auto& packets = found->second.packets;
  const auto seen = std::ranges::find(packets, timestamp, &Packet::timestamp);
  if (seen != packets.end()) return elapsed(seen->came_at, now) <= kLongestWay ? Verdict::copy : Verdict::replayed;
  // If time stamps are not authenticated, one from the far future must not make later ones look old. If all are from
  // the far future, our clock was set back.
  const bool is_older = timestamp < packets.front().timestamp;
  return tolerance_ != 0 && is_older && !is_stale(packets.front().timestamp, now) ? Verdict::replayed : Verdict::fresh;
}

ReplayGuard::Verdict ReplayGuard::accept(const Sender& sender, std::uint64_t timestamp, Nanoseconds now) {
  if (const Verdict verdict = check(sender, timestamp, now); verdict != Verdict::fresh) return verdict;
  auto found = senders_.find(sender);
  if (found == senders_.end()) {
    if (senders_.size() >= max_senders_) {
      senders_.erase(order_.front());
      order_.pop_front();
    }
    // Allocate first, so that a sender either has its place or is not known.
    std::list<Sender> place{sender};
    found = senders_.try_emplace(sender).first;
    found->second.order = place.begin();
    order_.splice(order_.end(), place);
  } else {
    order_.splice(order_.end(), order_, found->second.order);
  }
  auto& packets = found->second.packets;
  const auto is_ahead = [&](const Packet& packet) { return packet.timestamp > now && is_stale(packet.timestamp, now); };
  // Packets older than the oldest one that still counts stay old.
  std::ranges::replace_if(packets, is_ahead, is_ahead(packets.front()) ? Packet{} : packets.front());
  *std::ranges::min_element(packets, {}, &Packet::timestamp) = {timestamp, now};
  std::ranges::sort(packets, {}, &Packet::timestamp);
  return Verdict::fresh;
}

}  // namespace ripc::internal::resolver
