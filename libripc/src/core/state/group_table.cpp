// SPDX-License-Identifier: Apache-2.0
#include "core/state/group_table.hpp"

#include <algorithm>
#include <utility>

namespace ripc::internal::core {

namespace {

constexpr Nanoseconds kFirstMemberPause = 1'000'000'000;
constexpr Nanoseconds kLongestMemberPause = 60'000'000'000;
// Refreshing an empty list costs only the question, and someone is waiting for the first member.
constexpr Nanoseconds kEmptyRefresh = 10'000'000;

}  // namespace

void GroupMember::failed(Nanoseconds now) noexcept {
  const Nanoseconds pause =
      std::clamp(2 * pause_.load(std::memory_order_relaxed), kFirstMemberPause, kLongestMemberPause);
  pause_.store(pause, std::memory_order_relaxed);
  next_try_.store(now + pause, std::memory_order_relaxed);
}

// The lock is held.
GroupTable::Entry& GroupTable::entry(ripc_service_id group, Nanoseconds now) {
  if (entries_.size() >= kMaxRemembered && !entries_.contains(group)) {
    entries_.erase(std::ranges::min_element(
        entries_, [](const auto& one, const auto& other) { return one.second.used < other.second.used; }));
  }
  Entry& entry = entries_[group];
  entry.used = now;
  return entry;
}

std::shared_ptr<const GroupList> GroupTable::members(ripc_service_id group) {
  const Nanoseconds now = monotonic_now();
  std::shared_ptr<const GroupList> former;
  std::uint64_t changes = 0;
  {
    const std::lock_guard lock(mutex_);
    Entry& known = entry(group, now);
    if (known.list && now < known.due) return known.list;
    // Other threads use the old list meanwhile.
    known.due = now + refresh_;
    former = known.list;
    changes = known.changes;
  }
  std::shared_ptr<const GroupList> list = ask(group, former, former ? Deadline::after(0) : Deadline::after(timeout_));
  const std::lock_guard lock(mutex_);
  Entry& known = entry(group, now);
  known.list = list;
  if (known.changes != changes) {
    known.due = 0;
  } else if (list->members.empty()) {
    known.due = monotonic_now() + std::min(refresh_, kEmptyRefresh);
  } else {
    known.due = monotonic_now() + refresh_;
  }
  return list;
}

std::shared_ptr<const GroupList> GroupTable::known(ripc_service_id group) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = entries_.find(group);
    if (known == entries_.end() || !known->second.list) return nullptr;
  }
  return members(group);
}

std::shared_ptr<const GroupList> GroupTable::ask(ripc_service_id group, const std::shared_ptr<const GroupList>& former,
                                                 Deadline deadline) {
  auto list = std::make_shared<GroupList>();
  std::unordered_map<ripc_service_id, std::shared_ptr<GroupMember>> present;
  if (former != nullptr) {
    for (const auto& member : former->members) present.emplace(member->record().id, member);
  }
  list->failure = resolver_.members(group, deadline, [&](const spi::ServiceRecord& record) {
    const auto known = present.find(record.id);
    const bool is_same = known != present.end() && known->second->record().incarnation == record.incarnation &&
                         known->second->record().addresses == record.addresses;
    list->members.push_back(is_same ? known->second : std::make_shared<GroupMember>(record));
  });
  // A failed read says nothing new about any member.
  if (former != nullptr && !list->failure.ok()) return former;
  if (list->members.size() > kMaxMembers) {
    // New members do not displace the present ones.
    std::ranges::sort(list->members, [](const auto& one, const auto& other) {
      return std::pair(one->record().incarnation, one->record().id) <
             std::pair(other->record().incarnation, other->record().id);
    });
    list->left_out = list->members.size() - kMaxMembers;
    list->members.resize(kMaxMembers);
  }
  return list;
}

void GroupTable::outdate(ripc_service_id group) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(group);
  if (known == entries_.end()) return;
  known->second.due = 0;
  ++known->second.changes;
}

}  // namespace ripc::internal::core
