// SPDX-License-Identifier: Apache-2.0
// How a service hears what peers send to many at once. docs/internals/groups.md.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::verbs {

namespace {

// Part of a completion queue that groups may have.
constexpr std::uint32_t kGroupsPart = 2;
// Of one link.
constexpr std::ptrdiff_t kMostTokens = 64;

bool is_same(const ibv_gid& one, const ibv_gid& other) noexcept {
  return std::memcmp(one.raw, other.raw, sizeof one.raw) == 0;
}

}  // namespace

void VerbsPort::join_group(const std::shared_ptr<DatagramSource>& source, std::uint64_t token, ripc_service_id group) {
  MembershipPointer membership = join_(source->session()->local.ip(), group);
  if (!membership) return;
  const std::lock_guard lock(mutex_);
  const auto tokens = std::count_if(hearings_.begin(), hearings_.end(),
                                    [&](const HearingPointer& hearing) { return hearing->source == source; });
  if (!at_.contains(source.get()) || tokens >= kMostTokens) return;
  hearings_.push_back(
      std::make_shared<Hearing>(Hearing{.source = source, .token = token, .membership = std::move(membership)}));
  attach_joined_locked();
}

void VerbsPort::leave_group(const remote::LinkSource& source, std::uint64_t token) noexcept {
  const std::lock_guard lock(mutex_);
  for (const HearingPointer& hearing : hearings_)
    hearing->is_over = hearing->is_over || (hearing->source.get() == &source && hearing->token == token);
  version_.fetch_add(1, std::memory_order_release);
}

void VerbsPort::attach_joined() {
  const std::lock_guard lock(mutex_);
  attach_joined_locked();
}

// A subnet manager that was told again who is in the group may have given it another number.
void VerbsPort::follow_locked(const Hearing& hearing) {
  const std::shared_ptr<const JoinedGroup> joined = hearing.membership->joined();
  const auto at = at_.find(hearing.source.get());
  if (!joined || at == at_.end()) return;
  const ibv_gid& gid = joined->way.grh.dgid;
  const std::uint16_t lid = joined->way.dlid;
  for (auto& attachment : at->second.receiver->attachments) {
    if (!is_same(attachment->gid, gid) || attachment->lid == lid) continue;
    const Library& library = attachment->library;
    ibv_qp* const pair = attachment->pair;
    if (library.attach_mcast(pair, &gid, lid) == 0) attachment = std::make_unique<Attachment>(library, pair, gid, lid);
  }
}

void VerbsPort::attach_joined_locked() {
  for (const HearingPointer& hearing : hearings_) {
    if (hearing->is_attached) follow_locked(*hearing);
    if (hearing->is_attached || hearing->is_over || !hearing->membership->joined()) continue;
    hearing->is_attached = attach_locked(*hearing);
    hearing->is_over = !hearing->is_attached;
  }
  version_.fetch_add(1, std::memory_order_release);
}

// For each datagram that the source may send there is a buffer, by whichever way it comes.
bool VerbsPort::attach_locked(Hearing& hearing) {
  const auto at = at_.find(hearing.source.get());
  if (at == at_.end()) return false;
  Receiver& receiver = *at->second.receiver;
  Buffers& groups = receiver.groups;
  const std::shared_ptr<const JoinedGroup> joined = hearing.membership->joined();
  if (!groups.queue && !open_groups(receiver, joined->queue_key).ok()) return false;
  if (receiver.groups_key != joined->queue_key) return false;
  const std::uint32_t budget = hears_locked(*hearing.source) ? 0 : at->second.budget;
  const std::uint32_t needed = groups.committed + budget + kReserve;
  if (needed > groups.slots) {
    const std::uint32_t missing = needed - groups.slots;
    if (needed > receiver.depth / kGroupsPart || receiver.own.slots + groups.slots + missing > receiver.depth ||
        !add_slots(receiver, groups, missing).ok())
      return false;
  }
  const ibv_gid& gid = joined->way.grh.dgid;
  const bool is_in = std::any_of(receiver.attachments.begin(), receiver.attachments.end(),
                                 [&](const auto& attachment) { return is_same(attachment->gid, gid); });
  if (!is_in) {
    const Library& library = *receiver.port.device->library;
    if (library.attach_mcast(groups.queue->pair(), &gid, joined->way.dlid) != 0) return false;
    receiver.attachments.push_back(std::make_unique<Attachment>(library, groups.queue->pair(), gid, joined->way.dlid));
  }
  groups.committed += budget;
  hearing.gid = gid;
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

// Whether there is a hearing of the source for which buffers were committed.
bool VerbsPort::hears_locked(const remote::LinkSource& source) const noexcept {
  return std::any_of(hearings_.begin(), hearings_.end(), [&](const HearingPointer& hearing) {
    return hearing->is_attached && hearing->source.get() == &source;
  });
}

// Takes out the hearings for which goes(hearing) says so, with what nobody needs without them.
std::vector<VerbsPort::HearingPointer> VerbsPort::forget_locked(const std::function<bool(const Hearing&)>& goes) {
  const auto first = std::stable_partition(hearings_.begin(), hearings_.end(),
                                           [&](const HearingPointer& hearing) { return !goes(*hearing); });
  std::vector<HearingPointer> gone(std::make_move_iterator(first), std::make_move_iterator(hearings_.end()));
  hearings_.erase(first, hearings_.end());
  for (const HearingPointer& hearing : gone) {
    const auto at = at_.find(hearing->source.get());
    if (!std::exchange(hearing->is_attached, false) || at == at_.end()) continue;
    Receiver& receiver = *at->second.receiver;
    const bool is_last =
        !hears_locked(*hearing->source) && std::none_of(gone.begin(), gone.end(), [&](const HearingPointer& other) {
          return other->is_attached && other->source == hearing->source;
        });
    if (is_last) receiver.groups.committed -= at->second.budget;
  }
  for (const auto& receiver : receivers_) {
    std::erase_if(receiver->attachments, [&](const auto& attachment) {
      return std::none_of(hearings_.begin(), hearings_.end(), [&](const HearingPointer& hearing) {
        return hearing->is_attached && is_same(attachment->gid, hearing->gid);
      });
    });
  }
  if (!gone.empty()) version_.fetch_add(1, std::memory_order_release);
  return gone;
}

}  // namespace ripc::verbs
