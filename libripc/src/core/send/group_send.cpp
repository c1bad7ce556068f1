// SPDX-License-Identifier: Apache-2.0
#include "core/send/group_send.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <memory_resource>
#include <new>

namespace ripc::internal::core {

namespace {

// Whether the channel leads to another registration of the service than the member.
bool leads_elsewhere(const spi::Channel& channel, const spi::ServiceRecord& member) noexcept {
  return channel.incarnation() != 0 && member.incarnation != 0 && channel.incarnation() != member.incarnation;
}

Status no_members(const GroupList& list) {
  if (!list.failure.ok()) return list.failure;
  return Status(RIPC_NO_SERVICE,
                "The group has no living member: let services join it (ripc_group_join), and check the group's name or "
                "number and that both sides use the same runtime directory or network.");
}

}  // namespace

// One message on its way to the members of a group.
struct GroupSend::Sending {
  Sending(ripc_service_id to, const wire::Plain& plain, Deadline until, ripc_group_outcome* report)
      : group(to), message(plain), deadline(until), outcome(report) {}

  const ripc_service_id group;
  const wire::Plain message;
  const Deadline deadline;
  ripc_group_outcome* const outcome;
  std::uint32_t taken = 0;
  std::uint32_t missed = 0;
  Status failure{};  // why nobody took it: no room, else the size, else the error of the last path
  // Members whose network may reach them with one packet.
  struct Reachable {
    GroupMember* member;
    std::shared_ptr<spi::Channel> channel;
  };
  // Large enough that a send to some dozens of members allocates nothing.
  std::array<std::byte, 8192> memory;
  std::pmr::monotonic_buffer_resource resource{memory.data(), memory.size()};
  std::pmr::vector<Reachable> together{&resource};
  std::pmr::vector<GroupMember*> without_channel{&resource};
  struct OneNetwork {
    std::pmr::vector<spi::Channel*> channels;
    std::pmr::vector<std::uint8_t> sent;
  } one_network{std::pmr::vector<spi::Channel*>(&resource), std::pmr::vector<std::uint8_t>(&resource)};

  // Called before the message is sent to the first member. Afterwards only connecting allocates.
  void reserve(std::size_t members) {
    together.reserve(members);
    without_channel.reserve(members);
    one_network.channels.reserve(members);
    one_network.sent.reserve(members);
  }
  void start() noexcept {
    taken = missed = 0;
    failure = Status();
    together.clear();
    without_channel.clear();
  }
  void took() noexcept { ++taken; }
  // Records what became of the message to a member, with or without a channel.
  void settle(GroupMember& member, ripc_status status) noexcept {
    if (status == RIPC_OK) {
      took();
    } else if (is_gone(status) || status == RIPC_NO_SERVICE) {
      without_channel.push_back(&member);
    } else {
      missed_by(member, status);
    }
  }
  void missed_by(const GroupMember& member, Status why) noexcept {
    if (outcome != nullptr && outcome->missed != nullptr && missed < outcome->missed_capacity)
      outcome->missed[missed] = member.record().id;
    ++missed;
    const auto rank = [](ripc_status status) { return status == RIPC_AGAIN ? 2 : status == RIPC_TOO_LARGE ? 1 : 0; };
    if (failure.ok() || rank(why.code()) >= rank(failure.code())) failure = std::move(why);
  }
};

Status GroupSend::send(const SendArguments& arguments) {
  const bool is_short =
      std::ranges::all_of(arguments.items, [](const ripc_item& item) { return item.kind <= RIPC_ITEM_SHORT; });
  if (!is_short || !arguments.returns.empty())
    return Status(RIPC_UNSUPPORTED,
                  "A group takes short items only: send a short message that says what to fetch, or send to each of "
                  "ripc_group_members().");
  if (arguments.unordered)
    return Status(RIPC_UNSUPPORTED,
                  "A group takes no RIPC_SEND_UNORDERED: leave it out, or send to each of ripc_group_members().");
  wire::Plain message;
  if (!make_plain(sender_.id(), arguments.items, arguments.tag, message)) return RIPC_TOO_LARGE;
  Sending sending(arguments.to, message, Deadline::after(timeout_), arguments.outcome);
  std::shared_ptr<const GroupList> list = groups_.members(arguments.to);
  send_to_members(*list, sending);
  if (sending.taken == 0 && is_gone(sending.failure.code())) {
    // All known members are gone, so nobody has the message yet: send it to those that replaced them.
    list = groups_.members(arguments.to);
    sending.start();
    send_to_members(*list, sending);
  }
  if (arguments.outcome != nullptr) {
    arguments.outcome->members = static_cast<std::uint32_t>(list->members.size() + list->left_out);
    arguments.outcome->taken = sending.taken;
  }
  if (sending.taken != 0) return {};
  return list->members.empty() ? no_members(*list) : sending.failure;
}

// Once some members have the message, a lack of memory only means that others miss it.
void GroupSend::send_to_members(const GroupList& list, Sending& sending) {
  sending.reserve(list.members.size());
  for (const std::shared_ptr<GroupMember>& member : list.members) {
    const ripc_status status = send_to_member(*member, sending, false);
    if (status != RIPC_PENDING) sending.settle(*member, status);
  }
  if (!sending.together.empty()) send_together(sending);
  for (GroupMember* member : sending.without_channel) {
    Status status;
    try {
      status = connect_and_send(*member, sending);
    } catch (const std::bad_alloc&) {
      status = RIPC_NO_MEMORY;
    }
    if (status.ok()) {
      sending.took();
    } else {
      sending.missed_by(*member, std::move(status));
    }
  }
}

void GroupSend::send_together(Sending& sending) noexcept {
  auto& all = sending.together;
  std::ranges::sort(all, [](const auto& one, const auto& other) {
    return std::less<>()(one.channel->multicast(), other.channel->multicast());
  });
  auto& [channels, sent] = sending.one_network;
  for (auto first = all.begin(); first != all.end();) {
    spi::Multicast* const by = first->channel->multicast();
    const auto end = std::find_if(first, all.end(), [&](const auto& one) { return one.channel->multicast() != by; });
    channels.clear();
    std::transform(first, end, std::back_inserter(channels), [](const auto& one) { return one.channel.get(); });
    sent.assign(channels.size(), 0);
    if (channels.size() > 1) by->send(sending.group, channels, sending.message, sent);
    if (std::ranges::any_of(sent, [](std::uint8_t one) { return one != 0; })) add(sender_.counters().group_packets);
    for (std::size_t index = 0; first != end; ++index, ++first) {
      if (sent[index] != 0) sender_.counters().count_plain(ThreadEpoch::current(), sending.message.bytes);
      sending.settle(*first->member, sent[index] != 0 ? RIPC_OK : send_to_member(*first->member, sending));
    }
  }
}

// Sends over the existing channel. RIPC_NO_SERVICE: there is none. RIPC_PEER_DEAD, RIPC_CLOSED: the channel was
// unusable, and is dropped. RIPC_PENDING, only without `alone`: nothing was sent yet, and the member is now in
// sending.together.
ripc_status GroupSend::send_to_member(GroupMember& member, Sending& sending, bool alone) {
  const spi::ServiceRecord& record = member.record();
  const std::size_t size = sending.message.packet_size();
  std::shared_ptr<spi::Channel> useless;
  ripc_status status = RIPC_OK;
  for (int attempt = 0;; ++attempt) {
    std::shared_ptr<spi::Channel> narrow;
    {
      ThreadEpoch::Record& thread = ThreadEpoch::current();
      const ThreadEpoch::Section section(thread);
      const std::shared_ptr<spi::Channel>* channel = paths_.routes().find(record.id);
      if (channel == nullptr) return RIPC_NO_SERVICE;
      if (leads_elsewhere(**channel, record)) {
        status = RIPC_CLOSED;
        if ((*channel)->incarnation() < record.incarnation) useless = *channel;
      } else if (size > (*channel)->packet_limit()) {
        status = RIPC_TOO_LARGE;
      } else if (size > (*channel)->ready_limit()) {
        // A path may become narrow again at once, any number of times.
        status = RIPC_TOO_LARGE;
        if (attempt < kAttempts) narrow = *channel;
      } else if (!alone && (*channel)->multicast() != nullptr) {
        sending.together.push_back({&member, *channel});
        return RIPC_PENDING;
      } else {
        status = sender_.send_by(**channel, {.message = sending.message}, thread);
        if (is_gone(status)) useless = *channel;
      }
    }
    if (!narrow) break;
    status = narrow->widen(size);
    if (status == RIPC_OK) continue;
    if (is_gone(status)) useless = narrow;
    break;
  }
  if (useless) paths_.drop(*useless);
  return status;
}

Status GroupSend::connect_and_send(GroupMember& member, Sending& sending) {
  const Nanoseconds now = monotonic_now();
  if (!member.may_try(now))
    return Status(RIPC_PEER_DEAD,
                  "No member of the group could be reached lately; they are tried again after a pause. Check that "
                  "their processes run and the network lets them be reached: `ripc resolve` with the group tells.");
  Result<std::shared_ptr<spi::Channel>> channel =
      paths_.connect_to(member.record(), Deadline::after(sending.deadline.remaining() / 2));
  Status status = channel.ok() ? Status(send_to_member(member, sending)) : channel.status();
  if (status.ok()) {
    member.succeeded();
  } else if (status.code() != RIPC_AGAIN && status.code() != RIPC_TOO_LARGE && status.code() != RIPC_NO_MEMORY) {
    member.failed(now);
    if (is_gone(status.code()) || status == RIPC_NO_SERVICE) {
      lose_member(member, sending.group);
      // A missing member does not mean that the group has none.
      if (status == RIPC_NO_SERVICE) status = Status(RIPC_PEER_DEAD, std::string(status.text()));
    }
  }
  return status;
}

void GroupSend::lose_member(const GroupMember& member, ripc_service_id group) {
  resolver_.invalidate(member.record());
  groups_.outdate(group);
}

Result<std::size_t> GroupSend::short_limit(ripc_service_id group, std::size_t items) {
  const Deadline deadline = Deadline::after(timeout_);
  const std::shared_ptr<const GroupList> list = groups_.members(group);
  std::size_t limit = SIZE_MAX;
  Status failure;
  for (const std::shared_ptr<GroupMember>& member : list->members) {
    const Nanoseconds now = monotonic_now();
    std::shared_ptr<spi::Channel> channel = paths_.known_channel(member->record().id);
    if (!channel && member->may_try(now)) {
      Result<std::shared_ptr<spi::Channel>> made =
          paths_.connect_to(member->record(), Deadline::after(deadline.remaining() / 2));
      if (made.ok()) {
        channel = std::move(*made);
      } else {
        failure = made.status();
        member->failed(now);
        lose_member(*member, group);
      }
    }
    if (channel) limit = std::min(limit, channel->packet_limit());
  }
  if (limit != SIZE_MAX) return room_for_items(limit, items);
  if (list->members.empty()) return no_members(*list);
  return failure.ok() ? Status(RIPC_PEER_DEAD) : failure;
}

Result<bool> GroupSend::has_room(ripc_service_id group, bool request) {
  const std::shared_ptr<const GroupList> list = groups_.members(group);
  if (list->members.empty()) return no_members(*list);
  bool any_channel = false;
  for (const std::shared_ptr<GroupMember>& member : list->members) {
    const std::shared_ptr<spi::Channel> channel = paths_.known_channel(member->record().id);
    if (!channel) {
      if (member->may_try(monotonic_now())) return true;
      continue;
    }
    any_channel = true;
    if (channel->has_room(request)) return true;
  }
  return !any_channel;
}

}  // namespace ripc::internal::core
