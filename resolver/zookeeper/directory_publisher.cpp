// SPDX-License-Identifier: Apache-2.0
// Own services: what is wanted is compared with what the directory has, and the difference is written, step by step.
// Each step ends with an answer of the directory. After a lost connection the service waits for the next one, and is
// then read first.
#include <algorithm>
#include <new>
#include <utility>

#include "base/group_id.hpp"
#include "base/plain_text.hpp"
#include "resolver/zookeeper/directory_resolver.hpp"
#include "spi/holder_rules.hpp"
#include "spi/record_rights.hpp"
#include "spi/service_packet.hpp"

namespace ripc::internal::resolver {
namespace {

using WriteKind = Directory::Write::Kind;

// The most steps under way.
constexpr std::size_t kSettledAtOnce = 256;
// The most attempts in a row: others change the same folder at the same time, but not for ever.
constexpr unsigned kMostAttempts = 64;
// How often a record that is not authentic is replaced in each session, since someone else writes there too.
constexpr unsigned kMaxRewrites = 8;

bool is_same_record(const spi::ServiceRecord& one, const spi::ServiceRecord& other) noexcept {
  return one.context == other.context && one.incarnation == other.incarnation && one.pid == other.pid &&
         one.name == other.name && one.addresses == other.addresses && one.groups == other.groups;
}

}  // namespace

// ---- Calls of the application --------------------------------------------------------------------------------

Status DirectoryResolver::publish(spi::ServiceRecord& record, bool takeover,
                                  std::vector<spi::ServiceRecord>* displaced) {
  if (Status status = spi::check_packet_record(record, options_.hash_name, spi::Seal(options_.credentials));
      !status.ok())
    return status;
  if (Status status = spi::check_own_rights(record, options_.credentials); !status.ok()) return status;
  // Allocate first, so that a service is not known without its record.
  spi::ServiceRecord wanted = record;
  wanted.member = spi::own_member(options_.credentials);
  Lock lock(mutex_);
  const auto former = own_.find(record.id);
  const bool is_again = former != own_.end();
  const OwnPointer own = is_again ? former->second : std::make_shared<Own>(record.id);
  if (!is_again) own_.emplace(record.id, own);
  const bool was_established = is_again && own->is_wanted && !own->is_fenced;
  std::uint64_t last_known = 0;
  if (was_established && own->record.incarnation >= record.incarnation) last_known = own->record.incarnation;
  if (const auto known = entries_.find(record.id); known != entries_.end() && known->second.record)
    last_known = std::max(last_known, known->second.record->incarnation);
  if (was_established) own->former = std::move(own->record);
  own->is_former_wanted = was_established;
  own->record = std::move(wanted);
  own->record.incarnation = spi::next_incarnation(record.incarnation, last_known);
  own->is_wanted = true;
  own->takes_over = takeover;
  // A takeover succeeds even from a holder that has just displaced this context.
  own->is_established = was_established && !takeover;
  own->is_fenced = false;
  own->displaced.clear();
  const std::uint64_t goal = is_again ? ++own->goal : own->goal;
  try {
    settle(own);
    const bool waits = takeover || !is_random(record.id);
    const Deadline deadline = Deadline::after(options_.patience);
    while (waits) {
      const Nanoseconds now = monotonic_now();
      if (own->reached >= goal || own->failed >= goal || own->is_fenced || now >= deadline.at() || is_unreachable(now))
        break;
      wait(lock, std::min(deadline.at(), unreachable_at()));
    }
    if (displaced != nullptr) displaced->insert(displaced->end(), own->displaced.begin(), own->displaced.end());
  } catch (const std::bad_alloc&) {
    // It may have been published already.
    if (own->former) {
      restore(*own);
      settle(own);
    } else {
      end(own);
    }
    throw;
  }
  if (own->failed >= goal) return own->failure;
  own->former.reset();
  if (own->is_fenced) return RIPC_ID_IN_USE;
  own->is_established = true;
  record.incarnation = own->record.incarnation;
  return {};
}

Status DirectoryResolver::update(const spi::ServiceRecord& record) {
  if (Status status = spi::check_packet_record(record, options_.hash_name, spi::Seal(options_.credentials));
      !status.ok())
    return status;
  if (Status status = spi::check_own_rights(record, options_.credentials); !status.ok()) return status;
  const Lock lock(mutex_);
  const auto found = own_.find(record.id);
  if (found == own_.end() || found->second->is_fenced || !found->second->is_wanted ||
      found->second->record.incarnation != record.incarnation)
    return RIPC_FENCED;
  // Allocate first, so that a service keeps its record if there is no memory.
  spi::ServiceRecord wanted = record;
  wanted.member = found->second->record.member;
  std::swap(found->second->record, wanted);
  ++found->second->goal;
  try {
    settle(found->second);
  } catch (const std::bad_alloc&) {
    std::swap(found->second->record, wanted);
    // The new record may have been written already.
    ++found->second->goal;
    throw;
  }
  return {};
}

void DirectoryResolver::withdraw(const spi::ServiceRecord& record) noexcept try {
  const Lock lock(mutex_);
  const auto found = own_.find(record.id);
  if (found == own_.end()) return;
  const OwnPointer own = found->second;
  if (own->record.incarnation == record.incarnation) {
    end(own);
  } else if (own->former && own->former->incarnation == record.incarnation) {
    own->is_former_wanted = false;
  }
} catch (const std::bad_alloc&) {
  // The node ends with the session, or is withdrawn in the next one.
}

void DirectoryResolver::end(const OwnPointer& own) {
  own->is_wanted = false;
  ++own->goal;
  if (own->is_fenced) {
    forget(own);
  } else {
    settle(own);
  }
}

// ---- Steps ---------------------------------------------------------------------------------------------------

void DirectoryResolver::settle(const OwnPointer& own) {
  if (own->is_busy) return;
  if (!own->is_queued) {
    to_settle_.push_back(own);
    own->is_queued = true;
    own->is_in_sync = false;
    own->attempts = 0;
  }
  // Also if it was queued before: there may have been no memory to go on.
  settle_waiting();
}

// While there is no link, the services stay in the queue.
void DirectoryResolver::settle_waiting() {
  while (is_linked_ && settling_ < kSettledAtOnce && !to_settle_.empty()) {
    const OwnPointer own = to_settle_.front();
    own->step_goal = own->goal;
    // Most IDs have no holder, and making the node shows whether that is so.
    if (own->is_new && own->is_wanted && !own->takes_over) {
      write(own, nullptr, {});
    } else {
      read(own);
    }
    // The directory has been asked, and the rest allocates no memory.
    to_settle_.pop_front();
    own->is_queued = false;
    own->is_busy = true;
    ++own->steps;
    ++settling_;
  }
}

// If there is no memory for a step, link_up() settles the service anew. A question that was asked has had all it needs.
template <typename Step>
void DirectoryResolver::step(const OwnPointer& own, const Step& take) {
  const std::uint64_t steps = [&] {
    const Lock lock(mutex_);
    return own->steps;
  }();
  try {
    take();
  } catch (const std::bad_alloc&) {
    const Lock lock(mutex_);
    // Another step of this service may be under way by now.
    if (own->steps == steps && std::exchange(own->is_busy, false)) --settling_;
    throw;
  }
}

void DirectoryResolver::read(const OwnPointer& own) {
  ++counters_.reads;
  directory_->get(service_path(own->id), Directory::Read::exact,
                  [this, own](const Directory::Answer& answer) { step(own, [&] { read_answered(own, answer); }); });
}

// former: the node that the new one replaces. groups: those in which this session's record there is a member.
void DirectoryResolver::write(const OwnPointer& own, const Directory::Node* former,
                              const std::vector<ripc_service_id>& groups) {
  const spi::ServiceRecord& record = own->record;
  const std::string path = service_path(record.id);
  const bool is_ours = former != nullptr && former->owner == session_;
  // Someone may have removed or overwritten the service's node, but not this session's in its groups. They would stand
  // in the way for ever.
  if (own->attempts != 0 && groups.empty()) {
    for (const ripc_service_id group : record.groups)
      directory_->commit(session_, {{WriteKind::drop, member_path(group, record.id, session_), {}, {}}}, {});
  }
  std::vector<Directory::Write> writes;
  if (former != nullptr && !is_ours) writes.push_back({WriteKind::remove, path, {}, *former});
  writes.push_back({is_ours ? WriteKind::replace : WriteKind::create, path,
                    encode_record(record, session_, options_.credentials), is_ours ? *former : Directory::Node{}});
  for (const ripc_service_id group : record.groups) {
    if (!std::binary_search(groups.begin(), groups.end(), group))
      writes.push_back({WriteKind::add, member_path(group, record.id, session_), {}, {}});
  }
  for (const ripc_service_id group : groups) {
    if (!record.is_in(group)) writes.push_back({WriteKind::drop, member_path(group, record.id, session_), {}, {}});
  }
  own->is_new = false;
  ++counters_.writes;
  directory_->commit(session_, std::move(writes),
                     [this, own](const Directory::Answer& answer) { step(own, [&] { write_answered(own, answer); }); });
}

void DirectoryResolver::remove(const OwnPointer& own, const Directory::Node& node,
                               const std::vector<ripc_service_id>& groups) {
  std::vector<Directory::Write> writes;
  writes.push_back({WriteKind::remove, service_path(own->id), {}, node});
  for (const ripc_service_id group : groups)
    writes.push_back({WriteKind::drop, member_path(group, own->id, session_), {}, {}});
  ++counters_.writes;
  directory_->commit(session_, std::move(writes),
                     [this, own](const Directory::Answer& answer) { step(own, [&] { write_answered(own, answer); }); });
}

// Watches the own node, so that its end is reported, whoever ends it. Own services get half of the watches. The first
// ones keep theirs as long as they are held, also in later sessions. One without a watch notices its end when a peer
// fences it, or in the next settling, where it gets a watch if one is free by then.
void DirectoryResolver::watch_own(const OwnPointer& own) {
  if (!own->is_watched && own_watches_ >= most_watches_ / 2) return;
  if (!std::exchange(own->is_watched, true)) {
    ++own_watches_;
    make_room(0);
  }
  ++counters_.reads;
  const ripc_service_id id = own->id;
  directory_->get(service_path(id), Directory::Read::watched,
                  [this, own, id, session = session_](const Directory::Answer& answer) {
                    const Lock lock(mutex_);
                    const bool is_ours = answer.outcome == Directory::Outcome::done && answer.node.owner == session;
                    const auto current = own_.find(id);
                    if (is_ours || current == own_.end() || current->second != own || own->is_fenced) return;
                    ++own->goal;
                    settle(own);
                  });
}

void DirectoryResolver::put_back(const OwnPointer& own) {
  --settling_;
  own->is_busy = false;
  settle(own);
}

void DirectoryResolver::end_step(const OwnPointer& own, bool is_reached) {
  --settling_;
  own->is_busy = false;
  if (is_reached) own->reached = own->step_goal;
  if (is_reached && own->reached < own->goal) settle(own);
  settle_waiting();
  changed_.notify_all();
}

void DirectoryResolver::forget(const OwnPointer& own) {
  const auto found = own_.find(own->id);
  if (found == own_.end() || found->second != own) return;
  give_watch_back(*own);
  own_.erase(found);
}

void DirectoryResolver::give_watch_back(Own& own) noexcept {
  if (std::exchange(own.is_watched, false)) --own_watches_;
}

// What was there before publish() is wanted again, unless it was withdrawn meanwhile. It has to be compared with what
// the directory has by now.
void DirectoryResolver::restore(Own& own) noexcept {
  own.record = std::move(*own.former);
  own.former.reset();
  own.is_wanted = own.is_former_wanted;
  own.is_established = true;
  ++own.goal;
}

// A service that was established waits for the next session, because someone may correct the access list.
void DirectoryResolver::fail(const OwnPointer& own, Status failure) {
  own->failure = std::move(failure);
  own->failed = own->goal;
  const bool is_restored = own->former && own->is_wanted;
  if (is_restored) restore(*own);
  if (!own->is_established) forget(own);
  end_step(own, false);
  if (is_restored) settle(own);
}

bool DirectoryResolver::is_refused(const OwnPointer& own, const Directory::Answer& answer) {
  if (answer.outcome != Directory::Outcome::refused) return false;
  ++counters_.not_permitted;
  fail(own, Status(RIPC_PERMISSION, "The directory " + directory_->text() + " does not let this process publish " +
                                        id_text(own->id) + " (" + answer.reason +
                                        "): check the access list of its folder."));
  return true;
}

void DirectoryResolver::write_answered(const OwnPointer& own, const Directory::Answer& answer) {
  using Outcome = Directory::Outcome;
  const Lock lock(mutex_);
  if (is_refused(own, answer)) return;
  if (answer.outcome == Outcome::unknown) return put_back(own);
  if (answer.outcome != Outcome::done) {
    if (++own->attempts <= kMostAttempts) return read(own);
    return fail(own, Status(RIPC_SYSTEM, "The service ID " + id_text(own->id) +
                                             " cannot be published: others keep changing its node in the directory " +
                                             directory_->text() + ". Find and stop them."));
  }
  // More may be wanted by now than was written, or the service may have been withdrawn meanwhile.
  if (!own->is_wanted && own->step_goal == own->goal) {
    forget(own);
  } else if (own->is_wanted) {
    watch_own(own);
  }
  end_step(own, true);
}

void DirectoryResolver::read_answered(const OwnPointer& own, const Directory::Answer& answer) {
  using Outcome = Directory::Outcome;
  std::optional<spi::ServiceRecord> winner;
  {
    const Lock lock(mutex_);
    if (is_refused(own, answer)) return;
    if (answer.outcome == Outcome::unknown) return put_back(own);
    own->step_goal = own->goal;
    if (answer.outcome == Outcome::absent && own->is_wanted) return write(own, nullptr, {});
    if (answer.outcome == Outcome::absent) {
      forget(own);
      return end_step(own, true);
    }
  }
  compare(own, answer, winner);
  if (winner) tell({.id = winner->id, .now = &*winner});
}

// Called without the lock. winner: the context that has taken the ID over.
void DirectoryResolver::compare(const OwnPointer& own, const Directory::Answer& answer,
                                std::optional<spi::ServiceRecord>& winner) {
  spi::ServiceRecord holder;
  const bool is_good = check(answer.node, own->id, holder) == RecordCheck::good;
  const Lock lock(mutex_);
  own->step_goal = own->goal;
  const bool is_ours = answer.node.owner == session_;
  const std::vector<ripc_service_id> groups = is_ours && is_good ? holder.groups : std::vector<ripc_service_id>();
  if (!own->is_wanted) {
    if (is_ours) return remove(own, answer.node, is_good ? groups : own->record.groups);
    forget(own);
    return end_step(own, true);
  }
  // A context without a listed identity cannot check its own record, but it knows what it wrote.
  const auto is_present = [&] {
    return is_good ? is_same_record(holder, own->record)
                   : answer.node.data == encode_record(own->record, session_, options_.credentials);
  };
  if (is_ours && is_present()) {
    watch_own(own);
    return end_step(own, true);
  }
  if (!is_ours) own->displaced.clear();
  if (is_good && (is_ours || holder.context == own_context_)) return write(own, &answer.node, groups);
  // Replaces a record that someone else may write again.
  const auto rewrite = [&](const char* what_it_is) {
    // Another attempt of this step is the same rewrite.
    if (own->attempts != 0 || ++own->rewrites <= kMaxRewrites) return write(own, &answer.node, groups);
    fail(own, Status(RIPC_ID_IN_USE, "The service ID " + id_text(own->id) + " has a record in the directory " +
                                         directory_->text() + what_it_is));
  };
  if (!is_good) return rewrite(" that is not of this cluster: give each cluster a folder of its own.");
  if (own->is_established) {
    // This service was there before, so only a larger incarnation could displace it.
    const bool is_allowed = spi::may_displace(holder, own->record, options_.credentials);
    if (!is_allowed) {
      ++counters_.refusals.not_permitted;
      return rewrite(" that another member writes again and again: stop one of the two services.");
    }
    if (!spi::displaces(holder, own->record)) return write(own, &answer.node, groups);
    ++counters_.fenced;
    own->is_fenced = true;
    give_watch_back(*own);
    for (const ripc_service_id group : own->record.groups)
      directory_->commit(session_, {{WriteKind::drop, member_path(group, own->id, session_), {}, {}}}, {});
    Entry& entry = entry_of(own->id);
    ask(own->id, entry);
    entry.record = holder;
    winner = holder;
    return end_step(own, true);
  }
  Status status = spi::check_holder(own->record, holder, own->takes_over);
  if (status.ok()) status = spi::check_displacing(own->record, holder, options_.credentials);
  if (!status.ok()) {
    if (std::exchange(own->is_in_sync, true)) return fail(own, std::move(status));
    // A lagging server may still show a holder that is gone.
    directory_->sync({});
    return read(own);
  }
  own->record.incarnation = spi::next_incarnation(own->record.incarnation, holder.incarnation);
  own->displaced.push_back(std::move(holder));
  write(own, &answer.node, groups);
}

}  // namespace ripc::internal::resolver
