// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/groups/group_sender.hpp"

#include <algorithm>
#include <new>

#include "base/random.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"

namespace ripc::internal::verbs {

namespace {

using wire::datagram::Header;
using wire::datagram::Kind;

constexpr Nanoseconds kAskPause = 60'000'000'000;
// A member that has not joined in this time counts as not joined, and is asked again after the pause.
constexpr Nanoseconds kJoinPatience = 2'000'000'000;
constexpr Nanoseconds kRetryPause = 60'000'000'000;
// Between two rounds, while members come and go.
constexpr Nanoseconds kRoundPause = 100'000'000;

template <typename Round>
bool has_links(const Round& round, const std::vector<std::uint32_t>& links) noexcept {
  return std::ranges::equal(round.members, links,
                            [](const auto& member, std::uint32_t link) { return member.link == link; });
}

// A member that did not learn of it would keep its place in the round as long as the link exists.
template <typename Round>
void end_round(Round& round) {
  for (const auto& member : round.members) {
    if (const auto session = member.session.lock())
      session->stream.tell(wire::session_control::LeaveGroup{.link = member.link, .token = round.token});
  }
  round = Round();
}

}  // namespace

void GroupSender::send(ripc_service_id group, std::span<spi::Channel* const> channels, const wire::Plain& message,
                       std::span<std::uint8_t> sent) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!sender_) return;
    const DevicePort& port = sender_->port();
    const std::size_t limit = port.ethernet ? port.mtu : std::min<std::size_t>(port.mtu, kMostOfGroup);
    if (message.packet_size() + wire::datagram::kHeaderSize > limit) return;
    Group& known = group_locked(group);
    if (!is_ready_locked(group, known)) return;
    take_present_locked(channels);
    prepare_locked(group, known);
    if (known.active.token != 0) send_round_locked(known, message, sent);
  } catch (const std::bad_alloc&) {
    // The caller then sends to each channel.
  }
}

// ---- Groups --------------------------------------------------------------------------------------------------

GroupSender::Group& GroupSender::group_locked(ripc_service_id id) {
  if (groups_.size() >= kMostGroups && !groups_.contains(id)) {
    const auto oldest = std::ranges::min_element(
        groups_, [](const auto& one, const auto& other) { return one.second.last_use < other.second.last_use; });
    end_round(oldest->second.active);
    end_round(oldest->second.pending);
    groups_.erase(oldest);
  }
  Group& group = groups_[id];
  group.last_use = ++uses_;
  return group;
}

// Whether something can be sent to the group's address.
bool GroupSender::is_ready_locked(ripc_service_id id, Group& group) {
  std::shared_ptr<const JoinedGroup> joined = group.membership ? group.membership->joined() : nullptr;
  if (!joined) {
    const Nanoseconds now = monotonic_now();
    if (now < group.ask_at) return false;
    group.ask_at = now + kAskPause;
    join_(id, [weak = weak_from_this(), id](MembershipPointer membership) {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard lock(self->mutex_);
      if (const auto found = self->groups_.find(id); found != self->groups_.end())
        found->second.membership = std::move(membership);
    });
    return false;
  }
  if (joined == group.joined) return true;
  const Result<DatagramRoute> route = sender_->route_to_group(joined->address, joined->queue_pair, joined->queue_key);
  if (!route.ok()) return false;
  group.route = *route;
  group.joined = std::move(joined);
  return true;
}

// ---- Rounds --------------------------------------------------------------------------------------------------

void GroupSender::take_present_locked(std::span<spi::Channel* const> channels) {
  present_.clear();
  for (std::size_t index = 0; index < channels.size(); ++index) {
    // Core gives the channels whose multicast() is this one.
    auto* const channel = static_cast<DatagramChannel*>(channels[index]);
    if (channel->alive() && channel->is_in_groups()) present_.push_back({channel->link(), index, channel});
  }
  std::ranges::sort(present_, [](const auto& one, const auto& other) { return one.link < other.link; });
}

const GroupSender::Present* GroupSender::find_present_locked(std::uint32_t link) const noexcept {
  const auto found = std::ranges::lower_bound(present_, link, {}, &Present::link);
  return found == present_.end() || found->link != link ? nullptr : &*found;
}

// Makes sure that there will be a round of all links that are present.
void GroupSender::prepare_locked(ripc_service_id id, Group& group) {
  candidates_.clear();
  for (const Present& present : present_) {
    if (candidates_.size() < kMostMembers && !std::ranges::binary_search(group.not_joined, present.link))
      candidates_.push_back(present.link);
  }
  const bool is_complete = group.active.token != 0 && has_links(group.active, candidates_);
  if (is_complete && group.pending.token == 0 && group.not_joined.empty()) return;
  const Nanoseconds now = monotonic_now();
  if (now >= group.retry_at) group.not_joined.clear();
  Round& pending = group.pending;
  if (pending.token != 0) {
    if (std::ranges::all_of(pending.members, [](const Member& one) { return one.has_joined; })) {
      end_round(group.active);
      group.active = std::exchange(pending, Round());
    } else if (now - pending.began >= kJoinPatience) {
      for (const Member& member : pending.members) {
        if (!member.has_joined)
          group.not_joined.insert(std::ranges::lower_bound(group.not_joined, member.link), member.link);
      }
      group.retry_at = now + kRetryPause;
      end_round(pending);
    } else if (is_complete || (!has_links(pending, candidates_) && now >= group.round_at)) {
      end_round(pending);
    } else {
      greet_locked(group, pending, now);
    }
    return;
  }
  if (!is_complete && candidates_.size() > 1 && now >= group.round_at) begin_round_locked(id, group, now);
}

void GroupSender::begin_round_locked(ripc_service_id id, Group& group, Nanoseconds now) {
  Round round;
  round.token = random_u64() | 1;
  round.began = now;
  round.greet_at = now + round.greet_pause.next();
  for (const std::uint32_t link : candidates_) {
    const remote::SessionPointer& session = find_present_locked(link)->channel->session();
    const wire::session_control::JoinGroup question{.link = link, .token = round.token, .group = id};
    round.members.push_back({.link = link, .session = {}, .has_joined = false});
    if (session->stream.send(question) == RIPC_OK) round.members.back().session = session;
  }
  group.round_at = now + kRoundPause;
  group.pending = std::move(round);
}

void GroupSender::greet_locked(const Group& group, Round& round, Nanoseconds now) noexcept {
  if (now < round.greet_at) return;
  round.greet_at = now + round.greet_pause.next();
  (void)sender_->send(group.route, {.kind = Kind::multicast, .token = round.token}, {});
}

void GroupSender::joined(std::uint32_t link, std::uint64_t token) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, group] : groups_) {
    if (group.pending.token != token) continue;
    for (Member& member : group.pending.members) member.has_joined = member.has_joined || member.link == link;
  }
}

void GroupSender::left(std::uint32_t link) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, group] : groups_) {
    for (Round* const round : {&group.active, &group.pending}) {
      if (std::ranges::any_of(round->members, [&](const Member& one) { return one.link == link; })) end_round(*round);
    }
  }
}

void GroupSender::give_up() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, group] : groups_) {
    end_round(group.active);
    end_round(group.pending);
  }
  groups_.clear();
  sender_.reset();
}

void GroupSender::send_round_locked(Group& group, const wire::Plain& message, std::span<std::uint8_t> sent) {
  Round& round = group.active;
  channels_.clear();
  for (const Member& member : round.members) {
    const Present* const present = find_present_locked(member.link);
    if (present == nullptr) return;
    channels_.push_back(present->channel);
  }
  wire::Encoder encoder(wire::PacketKind::message, message.tag, message.source);
  if (!wire::add_items(message, encoder)) return;
  const Header header{.kind = Kind::multicast, .sequence = round.sequence + 1, .token = round.token};
  if (!DatagramChannel::send_together(channels_, *sender_, group.route, header, encoder.finish())) return;
  ++round.sequence;
  for (const Member& member : round.members) sent[find_present_locked(member.link)->index] = 1;
}

}  // namespace ripc::internal::verbs
