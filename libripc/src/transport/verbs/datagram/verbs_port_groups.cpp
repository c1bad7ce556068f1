// SPDX-License-Identifier: Apache-2.0
// How a service receives what peers send to many at once. docs/internals/groups.md.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {

namespace {

// Groups may use one part in this many of a completion queue.
constexpr std::uint32_t kGroupsPart = 2;
// Of one link.
constexpr std::ptrdiff_t kMostTokens = 64;

bool is_same(const ibv_gid& one, const ibv_gid& other) noexcept {
  return std::memcmp(one.raw, other.raw, sizeof one.raw) == 0;
}

}  // namespace

void VerbsPort::join_group(const std::shared_ptr<DatagramSource>& source, std::uint64_t token, ripc_service_id group) {
  MembershipPointer membership = join_(source->session()->local().ip(), group);
  if (!membership) return;
  const std::lock_guard lock(mutex_);
  const auto tokens = std::count_if(group_joins_.begin(), group_joins_.end(),
                                    [&](const GroupJoinPointer& join) { return join->source == source; });
  if (!at_.contains(source.get()) || tokens >= kMostTokens) return;
  group_joins_.push_back(
      std::make_shared<GroupJoin>(GroupJoin{.source = source, .token = token, .membership = std::move(membership)}));
  attach_joined_locked();
}

void VerbsPort::leave_group(const remote::LinkSource& source, std::uint64_t token) noexcept {
  const std::lock_guard lock(mutex_);
  for (const GroupJoinPointer& join : group_joins_)
    join->is_over = join->is_over || (join->source.get() == &source && join->token == token);
  version_.fetch_add(1, std::memory_order_release);
}

void VerbsPort::attach_joined() {
  const std::lock_guard lock(mutex_);
  attach_joined_locked();
}

// A subnet manager that was told the members again may have given the group another number.
void VerbsPort::follow_locked(const GroupJoin& join) {
  const std::shared_ptr<const JoinedGroup> joined = join.membership->joined();
  const auto at = at_.find(join.source.get());
  if (!joined || at == at_.end()) return;
  const ibv_gid& gid = joined->address.grh.dgid;
  const std::uint16_t lid = joined->address.dlid;
  for (auto& attachment : at->second.receiver->attachments) {
    if (!is_same(attachment->gid, gid) || attachment->lid == lid) continue;
    const VerbsLibrary& library = attachment->library;
    ibv_qp* const pair = attachment->pair;
    if (library.attach_mcast(pair, &gid, lid) == 0) attachment = std::make_unique<Attachment>(library, pair, gid, lid);
  }
}

void VerbsPort::attach_joined_locked() {
  for (const GroupJoinPointer& join : group_joins_) {
    if (join->is_attached) follow_locked(*join);
    if (join->is_attached || join->is_over || !join->membership->joined()) continue;
    join->is_attached = attach_locked(*join);
    join->is_over = !join->is_attached;
  }
  version_.fetch_add(1, std::memory_order_release);
}

// There must be a buffer for each datagram that the source may send, whichever way it comes.
bool VerbsPort::attach_locked(GroupJoin& join) {
  const auto at = at_.find(join.source.get());
  if (at == at_.end() || at->second.receiver == nullptr) return false;
  Receiver& receiver = *at->second.receiver;
  Buffers& groups = receiver.groups;
  const std::shared_ptr<const JoinedGroup> joined = join.membership->joined();
  if (!groups.queue && !open_groups(receiver, joined->queue_key).ok()) return false;
  if (receiver.groups_key != joined->queue_key) return false;
  const std::uint32_t budget = has_joined_locked(*join.source) ? 0 : at->second.budget;
  const std::uint32_t needed = groups.committed + budget + kReserve;
  if (needed > groups.slots) {
    const std::uint32_t missing = needed - groups.slots;
    if (needed > receiver.depth / kGroupsPart || receiver.own.slots + groups.slots + missing > receiver.depth ||
        !add_slots(receiver, groups, missing).ok())
      return false;
  }
  const ibv_gid& gid = joined->address.grh.dgid;
  const bool is_in = std::any_of(receiver.attachments.begin(), receiver.attachments.end(),
                                 [&](const auto& attachment) { return is_same(attachment->gid, gid); });
  if (!is_in) {
    const VerbsLibrary& library = *receiver.port.device->library;
    if (library.attach_mcast(groups.queue->pair(), &gid, joined->address.dlid) != 0) return false;
    receiver.attachments.push_back(
        std::make_unique<Attachment>(library, groups.queue->pair(), gid, joined->address.dlid));
  }
  groups.committed += budget;
  join.gid = gid;
  return true;
}

Status VerbsPort::open_groups(Receiver& receiver, std::uint32_t key) {
  Result<std::unique_ptr<DatagramQueue>> queue = DatagramQueue::create(
      receiver.port, receiver.registrar->device(),
      {.receives = std::max(receiver.depth / kGroupsPart, 1U), .key = key, .receives_of = receiver.own.queue.get()});
  if (!queue.ok()) return queue.status();
  receiver.groups.queue = std::move(*queue);
  receiver.groups.of_groups = true;
  receiver.groups_key = key;
  return {};
}

// Whether there is a join of the source for which buffers were committed.
bool VerbsPort::has_joined_locked(const remote::LinkSource& source) const noexcept {
  return std::any_of(group_joins_.begin(), group_joins_.end(),
                     [&](const GroupJoinPointer& join) { return join->is_attached && join->source.get() == &source; });
}

// Removes the joins for which goes(join) is true, and what nobody needs without them.
std::vector<VerbsPort::GroupJoinPointer> VerbsPort::forget_locked(const std::function<bool(const GroupJoin&)>& goes) {
  const auto first = std::stable_partition(group_joins_.begin(), group_joins_.end(),
                                           [&](const GroupJoinPointer& join) { return !goes(*join); });
  std::vector<GroupJoinPointer> gone(std::make_move_iterator(first), std::make_move_iterator(group_joins_.end()));
  group_joins_.erase(first, group_joins_.end());
  for (const GroupJoinPointer& join : gone) {
    const auto at = at_.find(join->source.get());
    if (!std::exchange(join->is_attached, false) || at == at_.end()) continue;
    Receiver& receiver = *at->second.receiver;
    const bool is_last =
        !has_joined_locked(*join->source) && std::none_of(gone.begin(), gone.end(), [&](const GroupJoinPointer& other) {
          return other->is_attached && other->source == join->source;
        });
    if (is_last) receiver.groups.committed -= at->second.budget;
  }
  for (const auto& receiver : receivers_) {
    std::erase_if(receiver->attachments, [&](const auto& attachment) {
      return std::none_of(group_joins_.begin(), group_joins_.end(), [&](const GroupJoinPointer& join) {
        return join->is_attached && is_same(attachment->gid, join->gid);
      });
    });
  }
  if (!gone.empty()) version_.fetch_add(1, std::memory_order_release);
  return gone;
}

}  // namespace ripc::internal::verbs
