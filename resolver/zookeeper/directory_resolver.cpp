// SPDX-License-Identifier: Apache-2.0
#include "resolver/zookeeper/directory_resolver.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/plain_text.hpp"
#include "base/timed_wait.hpp"
#include "spi/service_packet.hpp"

namespace ripc::internal::resolver {
namespace {

// A doubtful record that the directory has confirmed is not asked for again within this time.
constexpr Nanoseconds kConfirmedFor = 100'000'000;
// A list gives up when nothing has come for this long.
constexpr Nanoseconds kListSilence = 10'000'000'000;
// The most reads under way at a time: they share round trips, and share the connection with other requests.
constexpr std::size_t kListedAtOnce = 256;
// A read whose connection is lost is made again over the next one.
constexpr unsigned kListAttempts = 4;

Nanoseconds half_way(Nanoseconds now, Nanoseconds until) noexcept {
  return until == UINT64_MAX || until <= now ? until : now + (until - now) / 2;
}

}  // namespace

// Counts a thread that waits for an entry or a group, which is kept meanwhile.
class DirectoryResolver::Waiting {
 public:
  explicit Waiting(unsigned& waiters) noexcept : waiters_(waiters) { ++waiters_; }
  ~Waiting() { --waiters_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  unsigned& waiters_;
};

DirectoryResolver::DirectoryResolver(std::unique_ptr<Directory> directory, DirectoryOptions options,
                                     std::uint64_t own_context)
    : directory_(std::move(directory)),
      options_(std::move(options)),
      own_context_(own_context),
      most_watches_(directory_->most_watches(kServicePathSize) - options_.max_groups),
      down_since_(monotonic_now()) {}

Result<std::unique_ptr<DirectoryResolver>> DirectoryResolver::create(std::unique_ptr<Directory> directory,
                                                                     const DirectoryOptions& options,
                                                                     std::uint64_t own_context) {
  std::unique_ptr<DirectoryResolver> resolver(new DirectoryResolver(std::move(directory), options, own_context));
  if (Status started = resolver->directory_->start(*resolver); !started.ok()) return started;
  return resolver;
}

DirectoryResolver::~DirectoryResolver() { directory_->stop(); }

Status DirectoryResolver::not_there(ripc_service_id id) const {
  return Status(RIPC_NO_SERVICE, "The service ID " + id_text(id) + " is not in the directory " + directory_->text() +
                                     ": start the service, or check the ID and RIPC_ZOOKEEPER on both hosts.");
}

Status DirectoryResolver::of_other_version(ripc_service_id id) const {
  return Status(RIPC_VERSION_MISMATCH, "Another version of libripc has published the service ID " + id_text(id) +
                                           " in the directory " + directory_->text() +
                                           ": run the same libripc on both hosts.");
}

Status DirectoryResolver::not_reached(std::string_view what) const {
  const std::string trouble = directory_->trouble();
  return Status(RIPC_TIMEOUT, std::string(what) + " could not be looked up in the directory " + directory_->text() +
                                  (trouble.empty() ? "" : ", " + trouble) +
                                  ": see whether most of its servers run (ripc doctor asks each).");
}

Nanoseconds DirectoryResolver::unreachable_at() const noexcept {
  return is_linked_ ? UINT64_MAX : Deadline::after(options_.patience, down_since_).at();
}

void DirectoryResolver::wait(Lock& lock, Nanoseconds until) {
  if (const Nanoseconds now = monotonic_now(); until > now) wait_at_most(changed_, lock, until - now);
}

const spi::ServiceRecord* DirectoryResolver::own_record(ripc_service_id id) const noexcept {
  const auto found = own_.find(id);
  if (found == own_.end()) return nullptr;
  const Own& own = *found->second;
  return own.is_wanted && own.is_established && !own.is_fenced ? &own.record : nullptr;
}

// ---- Resolve -------------------------------------------------------------------------------------------------

Result<spi::ServiceRecord> DirectoryResolver::resolve(ripc_service_id id, Deadline deadline) {
  Lock lock(mutex_);
  if (const spi::ServiceRecord* own = own_record(id)) return *own;
  Entry& entry = entry_of(id);
  const Waiting waiting(entry.waiters);
  const Nanoseconds began = monotonic_now();
  if (!entry.is_known || (entry.is_doubtful && entry.confirmed_at + kConfirmedFor < began)) ask(id, entry);
  // If other resolvers are asked next, they get some of the time.
  const Nanoseconds end = options_.waits_for_services ? deadline.at() : half_way(began, deadline.at());
  for (;;) {
    const bool is_open = entry.is_asked && is_linked_;
    if (entry.record && !(entry.is_doubtful && is_open)) return *entry.record;
    if (!entry.refusal.empty())
      return Status(RIPC_PERMISSION, "The directory " + directory_->text() + " does not let this process look up " +
                                         id_text(id) + " (" + entry.refusal +
                                         "): check the access list of its folder.");
    if (entry.is_of_other_version && !is_open) return of_other_version(id);
    if (entry.is_known && !entry.record && is_linked_ && !options_.waits_for_services) return not_there(id);
    const Nanoseconds now = monotonic_now();
    if (is_unreachable(now) && !options_.waits_for_services) return not_reached("The service ID " + id_text(id));
    if (now >= end) break;
    wait(lock, options_.waits_for_services ? end : std::min(end, unreachable_at()));
  }
  if (entry.record) return *entry.record;
  if (entry.is_of_other_version) return of_other_version(id);
  if (entry.is_known && is_linked_) return not_there(id);
  if (deadline.at() == 0)
    return Status(RIPC_NO_SERVICE, "There was no time left to look up the service ID " + id_text(id) +
                                       ": allow a longer resolve_timeout.");
  return not_reached("The service ID " + id_text(id));
}

Result<spi::ServiceRecord> DirectoryResolver::successor(const spi::ServiceRecord& former, Deadline deadline) {
  Lock lock(mutex_);
  const auto is_over = [&](Nanoseconds now) { return now >= deadline.at() || is_unreachable(now); };
  if (const auto found = own_.find(former.id); found != own_.end() && !found->second->is_fenced) {
    const OwnPointer own = found->second;
    const std::uint64_t goal = ++own->goal;
    settle(own);
    while (own->reached < goal && own->failed < goal && !own->is_fenced && !is_over(monotonic_now()))
      wait(lock, std::min(deadline.at(), unreachable_at()));
    if (!own->is_fenced) return RIPC_NO_SERVICE;
  }
  Entry& entry = entry_of(former.id);
  const Waiting waiting(entry.waiters);
  if (!entry.record || !spi::displaces(*entry.record, former)) {
    entry.is_doubtful = true;
    ask(former.id, entry);
    while (entry.is_asked && !is_over(monotonic_now())) wait(lock, std::min(deadline.at(), unreachable_at()));
  }
  if (entry.record && spi::displaces(*entry.record, former)) return *entry.record;
  return RIPC_NO_SERVICE;
}

void DirectoryResolver::invalidate(const spi::ServiceRecord& record) noexcept {
  const Lock lock(mutex_);
  const auto found = entries_.find(record.id);
  if (found == entries_.end()) return;
  const std::optional<spi::ServiceRecord>& known = found->second.record;
  if (known && known->context == record.context && known->incarnation <= record.incarnation)
    found->second.is_doubtful = true;
}

Status DirectoryResolver::observe(EventLoop&, spi::Observer observer, spi::Observe) {
  const Lock lock(mutex_);
  observer_ = std::move(observer);
  return {};
}

// ---- Members and list ----------------------------------------------------------------------------------------

Status DirectoryResolver::members(ripc_service_id id, Deadline deadline, const spi::Visit& visit) {
  std::vector<spi::ServiceRecord> found;
  {
    Lock lock(mutex_);
    Group& group = group_of(id);
    const Waiting waiting(group.waiters);
    if (!group.is_known) ask_group(id, group);
    // The cache may have let go of some.
    for (const ripc_service_id member : group.members) {
      const bool is_missing = !entries_.contains(member);
      if (Entry& entry = entry_of(member); is_missing) ask(member, entry);
    }
    const auto is_open = [&] {
      const auto is_unknown = [&](ripc_service_id member) {
        const auto entry = entries_.find(member);
        return entry != entries_.end() && !entry->second.is_known && entry->second.is_asked;
      };
      return !group.is_known || std::any_of(group.members.begin(), group.members.end(), is_unknown);
    };
    for (;;) {
      if (!group.refusal.empty())
        return Status(RIPC_PERMISSION, "The directory " + directory_->text() +
                                           " does not let this process see a group (" + group.refusal +
                                           "): check the access list of its folder.");
      const Nanoseconds now = monotonic_now();
      if (!is_open() || now >= deadline.at() || is_unreachable(now)) break;
      wait(lock, std::min(deadline.at(), unreachable_at()));
    }
    for (const auto& [own_id, own] : own_) {
      if (const spi::ServiceRecord* record = own_record(own_id); record != nullptr && record->is_in(id))
        found.push_back(*record);
    }
    for (const ripc_service_id member : group.members) {
      const auto entry = entries_.find(member);
      if (entry == entries_.end() || !entry->second.record || !entry->second.record->is_in(id)) continue;
      if (own_record(member) == nullptr) found.push_back(*entry->second.record);
    }
    if (!group.is_known && !is_linked_ && !deadline.expired()) {
      lock.unlock();
      for (const spi::ServiceRecord& record : found) visit(record);
      return not_reached("The members of a group");
    }
  }
  for (const spi::ServiceRecord& record : found) visit(record);
  return {};
}

namespace {

// A list under way. The directory's thread may still have its questions when the asker is gone.
struct Listing {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<ripc_service_id> to_read;
  std::vector<std::pair<ripc_service_id, Directory::Node>> found;
  std::size_t under_way = 0;
  std::size_t folders = 0;
  std::uint64_t progress = 0;
  std::string refusal;
  bool is_given_up = false;
};

void list_more(Directory& directory, const std::shared_ptr<Listing>& listing);

void list_one(Directory& directory, const std::shared_ptr<Listing>& listing, ripc_service_id id, unsigned attempts) {
  directory.get(service_path(id), Directory::Read::plain, [&directory, listing, id, attempts](const auto& answer) {
    {
      const std::lock_guard lock(listing->mutex);
      if (listing->is_given_up) return;
      ++listing->progress;
      if (answer.outcome != Directory::Outcome::unknown || attempts == kListAttempts) {
        --listing->under_way;
        if (answer.outcome == Directory::Outcome::done) listing->found.emplace_back(id, answer.node);
        if (answer.outcome == Directory::Outcome::refused) listing->refusal = answer.reason;
        listing->changed.notify_all();
      }
    }
    if (answer.outcome == Directory::Outcome::unknown && attempts < kListAttempts)
      list_one(directory, listing, id, attempts + 1);
    list_more(directory, listing);
  });
}

void list_more(Directory& directory, const std::shared_ptr<Listing>& listing) {
  std::vector<ripc_service_id> next;
  {
    const std::lock_guard lock(listing->mutex);
    while (listing->under_way < kListedAtOnce && !listing->to_read.empty()) {
      next.push_back(listing->to_read.front());
      listing->to_read.pop_front();
      ++listing->under_way;
    }
  }
  for (const ripc_service_id id : next) list_one(directory, listing, id, 1);
}

void list_folder(Directory& directory, const std::shared_ptr<Listing>& listing, unsigned number, unsigned attempts) {
  directory.children(service_folder(number), false, [&directory, listing, number, attempts](const auto& answer) {
    if (answer.outcome == Directory::Outcome::unknown && attempts < kListAttempts)
      return list_folder(directory, listing, number, attempts + 1);
    {
      const std::lock_guard lock(listing->mutex);
      if (listing->is_given_up) return;
      ++listing->progress;
      --listing->folders;
      if (answer.outcome == Directory::Outcome::refused) listing->refusal = answer.reason;
      for (const std::string& name : answer.children) {
        if (const ripc_service_id id = id_of_service("/s/" + name); id != 0) listing->to_read.push_back(id);
      }
      listing->changed.notify_all();
    }
    list_more(directory, listing);
  });
}

}  // namespace

Status DirectoryResolver::list(const spi::Visit& visit) {
  {
    Lock lock(mutex_);
    while (!is_linked_ && !is_unreachable(monotonic_now())) wait(lock, unreachable_at());
    if (!is_linked_) return not_reached("The services");
  }
  const auto listing = std::make_shared<Listing>();
  listing->folders = kServiceFolders;
  for (unsigned number = 0; number < kServiceFolders; ++number) list_folder(*directory_, listing, number, 1);
  std::unique_lock lock(listing->mutex);
  const auto is_done = [&] { return listing->folders == 0 && listing->under_way == 0 && listing->to_read.empty(); };
  while (!is_done()) {
    const std::uint64_t progress = listing->progress;
    const auto is_changed = [&] { return is_done() || listing->progress != progress; };
    if (listing->changed.wait_for(lock, std::chrono::nanoseconds(kListSilence), is_changed)) continue;
    listing->is_given_up = true;
    return not_reached("The services");
  }
  const auto found = std::move(listing->found);
  const std::string refusal = std::move(listing->refusal);
  lock.unlock();
  for (const auto& [id, node] : found) {
    spi::ServiceRecord record;
    if (check(node, id, record) == RecordCheck::good) visit(record);
  }
  if (refusal.empty()) return {};
  return Status(RIPC_PERMISSION, "The directory " + directory_->text() + " does not let this process list services (" +
                                     refusal + "): check the access list of its folder.");
}

DirectoryState DirectoryResolver::state() const {
  DirectoryState state;
  state.trouble = directory_->trouble();
  const Lock lock(mutex_);
  state.is_linked = is_linked_;
  state.counters = counters_;
  state.services = static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& item) { return item.second.record.has_value(); }));
  for (const auto& [id, own] : own_) {
    const bool is_published = own->reached == own->goal;
    ++(is_published ? state.published : state.unsettled);
    if (is_published && !own->is_watched && !own->is_fenced) ++state.unwatched;
  }
  return state;
}

}  // namespace ripc::internal::resolver
