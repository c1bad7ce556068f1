// SPDX-License-Identifier: Apache-2.0
// What the multicast resolver's thread sends: replies, lists in portions, announcements.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/random.hpp"
#include "resolver/multicast/multicast_resolver.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr Nanoseconds kRepeat = 1'000'000'000;
// All contexts receive a question for all services at once; their replies spread over this time.
constexpr Nanoseconds kListSpread = 30'000'000;
// The same for the members of a group: there are few contexts, and a sender is waiting.
constexpr Nanoseconds kMembersSpread = 10'000'000;
constexpr std::size_t kListPortion = 16;  // packets
constexpr Nanoseconds kListPause = 2'000'000;
constexpr std::size_t kMaxListReplies = 64;

}  // namespace

void MulticastResolver::reply(const spi::MulticastPacket& packet, spi::MulticastNetwork& network,
                              const spi::PeerAddress& to) {
  const spi::PacketHeader& asked = packet.header;
  if (asked.id == 0 || is_group(asked.id)) {
    reply_with_list(asked, network, to);
    return;
  }
  Bytes bytes;
  {
    const std::lock_guard lock(mutex_);
    const Nanoseconds now = monotonic_now();
    const spi::ServiceRecord* record = nullptr;
    if (const auto own = published_.find(asked.id); own != published_.end() && !own->second.is_superseded)
      record = &own->second.record;
    if (const auto wanted = probing_.find(asked.id); record == nullptr && asked.is_probe && wanted != probing_.end()) {
      // Both contexts want the ID: the first one keeps it.
      const spi::ServiceRecord& ours = wanted->second;
      if (std::pair(ours.incarnation, own_context_) < std::pair(asked.number, asked.context)) record = &ours;
    }
    if (record == nullptr) return;
    if (!reply_limit_.take(now)) {
      ++counters_.limited;
      return;
    }
    spi::PacketHeader header = new_header(spi::PacketType::reply);
    header.nonce = asked.nonce;
    header.id = asked.id;
    header.is_last = true;
    spi::PacketBuilder builder(header, spi::Seal(options_.credentials));
    if (!builder.add(*record, false)) return;
    bytes = builder.finish();
    if (bytes.size() > network.packet_limit()) {
      // Sent over a network that can carry it. An announcement during a question counts as an answer. A record that is
      // not ours yet is not announced.
      if (!probing_.contains(asked.id)) schedule(*record, false);
      return;
    }
    ++counters_.replies_sent;
  }
  const spi::SentPackets sent = network.send_to(to, bytes);
  const std::lock_guard lock(mutex_);
  count(sent);
}

void MulticastResolver::reply_with_list(const spi::PacketHeader& asked, spi::MulticastNetwork& network,
                                        const spi::PeerAddress& to) {
  const std::lock_guard lock(mutex_);
  const bool is_for_group = asked.id != 0;
  const auto is_wanted = [&](const auto& own) {
    return !own.second.is_superseded && own.second.record.is_in(asked.id);
  };
  if (is_for_group && std::ranges::none_of(published_, is_wanted)) return;
  const Nanoseconds now = monotonic_now();
  if (list_replies_.size() >= kMaxListReplies || !(is_for_group ? reply_limit_ : list_limit_).take(now)) {
    ++counters_.limited;
    return;
  }
  const Nanoseconds spread = is_for_group ? kMembersSpread : kListSpread;
  list_replies_.push_back({.network = &network,
                           .to = to,
                           .nonce = asked.nonce,
                           .group = asked.id,
                           .due = now + random_u64() % spread,
                           .after = 0,
                           .number = 0});
}

// is_last_chance: the resolver is ending; only withdrawals are announced now.
void MulticastResolver::announce_due(bool is_last_chance) {
  std::vector<Bytes> packets;
  std::unique_lock lock(mutex_);
  const Nanoseconds now = monotonic_now();
  const auto is_due = [&](const Announcement& announcement, Nanoseconds time) {
    return is_last_chance ? announcement.is_gone : announcement.due <= time;
  };
  if (std::ranges::none_of(announcements_, [&](const auto& entry) { return is_due(entry.second, now); })) return;
  const std::size_t limit = std::min(spi::kFullPacket, limits().common);
  std::optional<spi::PacketBuilder> builder;
  const auto finish = [&] {
    if (builder && !builder->empty()) packets.push_back(builder->finish());
    builder.reset();
  };
  // The first announcement that is due takes along those that came while it waited; otherwise each would cost a packet.
  const Nanoseconds until = now + kGather;
  for (const auto& [id, announcement] : announcements_) {
    if (!is_due(announcement, until)) continue;
    if (!builder) builder.emplace(new_header(spi::PacketType::announcement), spi::Seal(options_.credentials), limit);
    if (!builder->add(announcement.record, announcement.is_gone)) {
      finish();
      builder.emplace(new_header(spi::PacketType::announcement), spi::Seal(options_.credentials), limit);
      static_cast<void>(builder->add(announcement.record, announcement.is_gone));
    }
  }
  finish();
  // From here on there is memory for all of them.
  for (auto entry = announcements_.begin(); entry != announcements_.end();) {
    const auto current = entry++;
    Announcement& announcement = current->second;
    if (!is_due(announcement, until)) continue;
    announcement.due = now + kRepeat;
    if (--announcement.rounds == 0) announcements_.erase(current);
  }
  lock.unlock();
  spi::SentPackets total;
  for (const Bytes& packet : packets) {
    for (const auto& network : networks_) {
      // At least one network carries the packet: see check_packet_record().
      if (packet.size() <= network->packet_limit()) total += network->send_to_groups(packet);
    }
  }
  lock.lock();
  counters_.announcements_sent += packets.size();
  count(total);
}

void MulticastResolver::reply_lists_due() {
  std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < list_replies_.size();) {
    // A copy, stored back only if there was memory for all of this portion.
    ListReply job = list_replies_[i];
    const Nanoseconds now = monotonic_now();
    if (job.due > now) {
      ++i;
      continue;
    }
    std::vector<Bytes> packets;
    const std::size_t largest = std::min(spi::kMaxPacket, job.network->packet_limit());
    auto position = published_.upper_bound(job.after);
    bool is_last = false;
    while (!is_last && packets.size() < kListPortion) {
      spi::PacketHeader header = new_header(spi::PacketType::reply);
      header.nonce = job.nonce;
      header.id = job.group;
      header.number = job.number++;
      spi::PacketBuilder builder(header, spi::Seal(options_.credentials), std::min(spi::kFullPacket, largest), largest);
      for (; position != published_.end(); ++position) {
        const auto& [record, is_superseded] = position->second;
        const bool is_wanted = !is_superseded && (job.group == 0 || record.is_in(job.group));
        if (is_wanted && !builder.add(record, false)) {
          if (!builder.empty()) break;
          // Too large for this network: sent over one that can carry it.
          schedule(record, false);
        }
        job.after = position->first;
      }
      is_last = position == published_.end();
      packets.push_back(builder.finish(is_last));
    }
    job.due = now + kListPause;
    counters_.replies_sent += packets.size();
    spi::MulticastNetwork& network = *job.network;
    const spi::PeerAddress to = job.to;
    // Only this thread changes the list, so the position stays valid.
    if (is_last || job.number > 0xffff) {
      list_replies_.erase(list_replies_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      list_replies_[i++] = job;
    }
    lock.unlock();
    spi::SentPackets total;
    for (const Bytes& packet : packets) total += network.send_to(to, packet);
    lock.lock();
    count(total);
  }
}

}  // namespace ripc::internal::resolver
