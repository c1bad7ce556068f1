// SPDX-License-Identifier: Apache-2.0
// What the resolver knows about other contexts' services, and how it learns of changes.
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "resolver/zookeeper/directory_resolver.hpp"

namespace ripc::internal::resolver {
namespace {

// The most reads under way: enough to fill the connection, and few enough for other requests to have their turn.
constexpr std::size_t kAskedAtOnce = 256;

// Each member once: first those that are known, so that new ones do not displace them, then the others by their IDs.
std::vector<ripc_service_id> members_of(const std::vector<std::string>& names,
                                        const std::vector<ripc_service_id>& known) {
  std::vector<ripc_service_id> members;
  for (const std::string& name : names) {
    if (const ripc_service_id id = id_of_member(name); id != 0) members.push_back(id);
  }
  std::ranges::sort(members);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  std::stable_partition(members.begin(), members.end(),
                        [&](ripc_service_id id) { return std::ranges::binary_search(known, id); });
  return members;
}

}  // namespace

DirectoryResolver::Entry& DirectoryResolver::entry_of(ripc_service_id id) {
  if (const auto found = entries_.find(id); found != entries_.end()) {
    order_.splice(order_.end(), order_, found->second.order);
    return found->second;
  }
  make_room(1);
  std::list<ripc_service_id> place{id};
  Entry& entry = entries_[id];
  entry.order = place.begin();
  order_.splice(order_.end(), place);
  return entry;
}

// Removes the entries used longest ago, with their watches, until there is room for this many more. Those that someone
// waits for stay, and those whose answer brings a watch.
void DirectoryResolver::make_room(std::size_t more) {
  for (auto next = order_.begin(); next != order_.end() && entries_.size() + more > most_cached();) {
    const auto current = next++;
    const auto found = entries_.find(*current);
    const Entry& entry = found->second;
    if (entry.waiters != 0 || entry.is_under_way) continue;
    const auto own = own_.find(*current);
    if (entry.is_watched && (own == own_.end() || !own->second->is_watched)) directory_->forget(service_path(*current));
    // Most likely near the front, because what was used longest ago was asked for longest ago.
    if (entry.is_asked) to_ask_.erase(std::ranges::find(to_ask_, *current));
    entries_.erase(found);
    order_.erase(current);
  }
}

DirectoryResolver::Group& DirectoryResolver::group_of(ripc_service_id group) {
  if (groups_.size() >= options_.max_groups && groups_.count(group) == 0) {
    auto oldest = groups_.end();
    for (auto next = groups_.begin(); next != groups_.end(); ++next) {
      const bool is_free = next->second.waiters == 0 && !next->second.is_under_way;
      if (is_free && (oldest == groups_.end() || next->second.used < oldest->second.used)) oldest = next;
    }
    if (oldest != groups_.end()) {
      if (oldest->second.is_watched) directory_->forget(group_path(oldest->first));
      groups_.erase(oldest);
    }
  }
  Group& known = groups_[group];
  known.used = monotonic_now();
  return known;
}

void DirectoryResolver::ask(ripc_service_id id, Entry& entry) {
  if (entry.is_asked) return;
  to_ask_.push_back(id);
  entry.is_asked = true;
  entry.refusal.clear();
  ask_waiting();
}

// While there is no link, the questions stay in the queue.
void DirectoryResolver::ask_waiting() {
  while (is_linked_ && asking_ < kAskedAtOnce && !to_ask_.empty()) {
    const ripc_service_id id = to_ask_.front();
    const auto found = entries_.find(id);
    if (found != entries_.end()) {
      // After a failed send, the answer of a lagging server would not help.
      if (found->second.is_doubtful) directory_->sync({});
      directory_->get(service_path(id), Directory::Read::watched,
                      [this, id](const Directory::Answer& answer) { answered(id, answer); });
      found->second.is_under_way = found->second.is_watched = true;
      ++asking_;
      ++counters_.reads;
    }
    to_ask_.pop_front();
  }
}

void DirectoryResolver::ask_group(ripc_service_id group, Group& known) {
  if (known.is_asked) return;
  known.refusal.clear();
  if (is_linked_) {  // otherwise link_up() asks
    directory_->children(group_path(group), true,
                         [this, group](const Directory::Answer& answer) { group_answered(group, answer); });
    ++counters_.reads;
    known.is_under_way = known.is_watched = true;
  }
  known.is_asked = true;
}

RecordCheck DirectoryResolver::check(const Directory::Node& node, ripc_service_id id, spi::ServiceRecord& record) {
  spi::Refusals refusals;
  const RecordCheck verdict =
      decode_record(node.data, id, node.owner, options_.credentials, options_.hash_name, record, refusals);
  const Lock lock(mutex_);
  counters_.refusals += refusals;
  switch (verdict) {
    case RecordCheck::good:
    case RecordCheck::unproven:
    case RecordCheck::not_permitted:
      break;
    case RecordCheck::malformed:
      ++counters_.malformed;
      if (options_.credentials.keys) security::Counters::add(options_.credentials.counters->packets_forged);
      break;
    case RecordCheck::other_version:
      ++counters_.other_version;
      break;
    case RecordCheck::unsigned_one:
      ++counters_.unsigned_ones;
      break;
    case RecordCheck::signed_one:
      ++counters_.signed_ones;
      break;
    case RecordCheck::forged:
      ++counters_.forged;
      break;
    case RecordCheck::replayed:
      ++counters_.refusals.not_permitted;
      security::Counters::add(options_.credentials.counters->records_refused);
      break;
  }
  return verdict;
}

void DirectoryResolver::tell(const spi::Change& change) {
  spi::Observer observer;
  {
    const std::lock_guard lock(mutex_);
    observer = observer_;
  }
  if (observer) observer(change);
}

bool DirectoryResolver::displaces_known(const spi::ServiceRecord& record, const Entry& entry) const {
  if (!spi::may_displace(record, *entry.record, options_.credentials)) return false;
  // A takeover makes the incarnation larger, whatever the clocks say, so a smaller one is from before the takeover. But
  // if the known holder ended unnoticed, one with a slower clock may have come: then sends to the known holder fail.
  const bool is_later = record.context == entry.record->context ? record.incarnation >= entry.record->incarnation
                                                                : spi::displaces(record, *entry.record);
  if (is_later || entry.is_doubtful) return true;
  security::Counters::add(options_.credentials.counters->records_refused);
  return false;
}

// If there is no memory for the answer, no further questions are asked until link_up() asks anew.
void DirectoryResolver::answered(ripc_service_id id, const Directory::Answer& answer) try {
  {
    const std::lock_guard lock(mutex_);
    --asking_;
  }
  take_answer(id, answer);
} catch (const std::bad_alloc&) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(id); found != entries_.end())
    found->second.is_asked = found->second.is_under_way = false;
  changed_.notify_all();
  throw;
}

void DirectoryResolver::take_answer(ripc_service_id id, const Directory::Answer& answer) {
  using Outcome = Directory::Outcome;
  std::optional<spi::ServiceRecord> record;
  RecordCheck verdict = RecordCheck::good;
  if (answer.outcome == Outcome::done) {
    record.emplace();
    verdict = check(answer.node, id, *record);
    if (verdict != RecordCheck::good) record.reset();
  }
  std::optional<spi::ServiceRecord> kept = record;  // the entry changes without taking memory
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      ask_waiting();
      return;
    }
    Entry& entry = found->second;
    entry.is_under_way = false;
    const bool was_known = entry.is_known;
    // The server lags behind another one.
    const bool is_older = answer.outcome == Outcome::done && entry.session == session_ &&
                          (answer.node.created < entry.created ||
                           (answer.node.created == entry.created && answer.node.version < entry.version));
    if (answer.outcome == Outcome::unknown || is_older) {
      to_ask_.push_back(id);
      if (is_older) entry.is_doubtful = true;
      ask_waiting();
      return;
    }
    entry.is_asked = false;
    if (answer.outcome == Outcome::refused) {
      ++counters_.not_permitted;
      entry.refusal = answer.reason;
    } else {
      const auto is_same = [&] {
        return entry.record.has_value() == record.has_value() &&
               (!record || (answer.node.created == entry.created && answer.node.version == entry.version &&
                            record->incarnation == entry.record->incarnation));
      };
      const bool is_old = record && entry.record && !displaces_known(*record, entry);
      if (is_old) ++counters_.refusals.not_permitted;
      // The holder writes its record again. If it is gone, sends to it fail.
      if (is_old || (verdict == RecordCheck::replayed && !entry.is_doubtful)) {
        record = kept = entry.record;
      } else {
        entry.is_untold = was_known && (entry.is_untold || !is_same());
      }
      is_news = entry.is_untold;
      entry.is_known = true;
      entry.is_doubtful = false;
      entry.confirmed_at = monotonic_now();
      if (answer.outcome == Outcome::done) {
        entry.created = answer.node.created;
        entry.version = answer.node.version;
        entry.session = session_;
      }
      entry.record = std::move(kept);
      entry.is_of_other_version = verdict == RecordCheck::other_version;
    }
    make_room(0);
    ask_waiting();
    changed_.notify_all();
  }
  if (!is_news) return;
  tell({.id = id, .now = record ? &*record : nullptr});
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(id); found != entries_.end()) found->second.is_untold = false;
}

void DirectoryResolver::group_answered(ripc_service_id group, const Directory::Answer& answer) {
  using Outcome = Directory::Outcome;
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found == groups_.end()) return;
    Group& known = found->second;
    known.is_asked = known.is_under_way = false;
    if (answer.outcome == Outcome::unknown) {
      ask_group(group, known);
      return;
    }
    if (answer.outcome == Outcome::refused) {
      ++counters_.not_permitted;
      known.refusal = answer.reason;
    } else {
      std::vector<ripc_service_id> members = members_of(answer.children, known.members);
      if (const std::size_t limit = most_cached() / 2; members.size() > limit) {
        counters_.members_left_out += members.size() - limit;
        members.resize(limit);
      }
      std::ranges::sort(members);
      is_news = known.is_known;
      known.is_known = true;
      known.members = std::move(members);
      for (const ripc_service_id id : known.members) {
        if (Entry& entry = entry_of(id); !entry.is_known) ask(id, entry);
      }
    }
    changed_.notify_all();
  }
  if (is_news) tell({.id = group});
}

// ---- What the directory tells --------------------------------------------------------------------------------

void DirectoryResolver::link_up(std::uint64_t session, bool is_new) {
  const std::lock_guard lock(mutex_);
  is_linked_ = true;
  const std::uint64_t former = std::exchange(session_, session);
  if (is_new && former != 0) {
    ++counters_.sessions_lost;
    // A new session may use a server that lags behind the one of the former session.
    directory_->sync({});
    for (auto& [id, entry] : entries_) ask(id, entry);
    for (auto& [group, known] : groups_) known.is_asked = true;
  }
  for (auto& [group, known] : groups_) {
    if (!known.is_asked) continue;
    known.is_asked = false;
    ask_group(group, known);
  }
  if (is_new) {
    for (auto& [id, own] : own_) {
      own->is_new = true;
      own->rewrites = 0;
    }
  }
  for (auto& [id, own] : own_) {
    if (is_new || own->reached < own->goal) settle(own);
  }
  ask_waiting();
  settle_waiting();
  changed_.notify_all();
}

void DirectoryResolver::link_down() {
  const std::lock_guard lock(mutex_);
  is_linked_ = false;
  down_since_ = monotonic_now();
  changed_.notify_all();
}

void DirectoryResolver::changed(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (const ripc_service_id group = id_of_group(path); group != 0) {
    if (const auto known = groups_.find(group); known != groups_.end()) ask_group(group, known->second);
    return;
  }
  const ripc_service_id id = id_of_service(path);
  if (const auto entry = entries_.find(id); entry != entries_.end()) {
    // An answer that is on its way comes after this event, so it includes the change.
    ask(id, entry->second);
  }
  if (const auto found = own_.find(id); found != own_.end()) {
    Own& own = *found->second;
    if (!own.is_wanted || own.is_fenced) return;
    ++own.goal;
    settle(found->second);
  }
}

}  // namespace ripc::internal::resolver
