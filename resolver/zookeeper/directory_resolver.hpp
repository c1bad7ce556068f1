// SPDX-License-Identifier: Apache-2.0
// Finds and publishes services through a directory (directory.hpp). docs/internals/zookeeper.md has the details.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "resolver/zookeeper/directory.hpp"
#include "resolver/zookeeper/node_record.hpp"
#include "security/credentials.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

struct DirectoryOptions {
  security::Credentials credentials;  // no keys: nothing is authenticated
  spi::NameHash hash_name;            // must be set
  std::size_t max_cached = 16384;     // services that are watched, present or not; fewer if their paths are long
  std::size_t max_groups = 1024;
  // publish() waits this long for the directory, also for one that has not been reached since the start.
  Nanoseconds patience = 1'000'000'000;
  // Whether resolve() waits until its deadline for a service that is not there. False if another resolver is asked
  // next.
  bool waits_for_services = true;
};

struct DirectoryCounters {
  std::uint64_t reads = 0;  // of nodes and of groups
  std::uint64_t writes = 0;
  std::uint64_t sessions_lost = 0;  // after each, everything was made anew
  std::uint64_t fenced = 0;         // own services that another context has taken over
  std::uint64_t not_permitted = 0;  // requests that the servers refused
  // Members beyond the limit of a group, counted each time that the group was read.
  std::uint64_t members_left_out = 0;
  // Records that were ignored:
  std::uint64_t malformed = 0;
  std::uint64_t other_version = 0;
  std::uint64_t unsigned_ones = 0;  // we have a key, it has no MAC
  std::uint64_t signed_ones = 0;    // it has a MAC, but we have no key to check it
  std::uint64_t forged = 0;         // its MAC, or its signature, is wrong
  spi::Refusals refusals;           // the trust file does not allow it; groups of a record, too

  std::uint64_t ignored() const noexcept {
    return malformed + other_version + unsigned_ones + signed_ones + forged + refusals.unproven +
           refusals.not_permitted;
  }
};

struct DirectoryState {
  bool is_linked = false;
  std::string trouble;        // why it is not linked
  std::size_t services = 0;   // of others, in the cache
  std::size_t published = 0;  // own ones that the directory has
  std::size_t unsettled = 0;  // own ones that the directory does not have yet
  std::size_t unwatched = 0;  // own ones beyond the limit of watches
  DirectoryCounters counters;
};

// Thread-safe. No call needs the context's responder, so the responder may call too.
class DirectoryResolver final : public spi::Resolver, private Directory::Listener {
 public:
  // Starts the directory, and does not wait for it. Errors as Directory::start().
  static Result<std::unique_ptr<DirectoryResolver>> create(std::unique_ptr<Directory> directory,
                                                           const DirectoryOptions& options, std::uint64_t own_context);
  // Ends the session, and with it all published services. No other call may be running.
  ~DirectoryResolver() override;

  std::string_view name() const noexcept override { return directory_->name(); }

  // Looks in the cache first, even while no server answers; else asks until the deadline. RIPC_NO_SERVICE: there is no
  // such service. RIPC_TIMEOUT: no server has answered. RIPC_VERSION_MISMATCH: another version of libripc published it.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;
  // Asks the directory, whatever the cache knows.
  Result<spi::ServiceRecord> successor(const spi::ServiceRecord& former, Deadline deadline) override;

  // Waits for the directory, but not longer than options.patience. If no server answers by then, the service is
  // published as soon as one does; if someone else has the ID then, the larger incarnation wins. Random IDs do not
  // wait. RIPC_ID_IN_USE, RIPC_NAME_COLLISION, RIPC_LIMIT, RIPC_INVALID_ARGUMENT, RIPC_PERMISSION (the servers refuse
  // it).
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;
  // Does not wait. RIPC_FENCED: another context has the ID.
  Status update(const spi::ServiceRecord& record) override;
  void withdraw(const spi::ServiceRecord& record) noexcept override;

  // The next resolve() asks again, at most ten times a second.
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // The first call for a group waits for the directory; then it is watched.
  Status members(ripc_service_id id, Deadline deadline, const spi::Visit& visit) override;

  Status observe(EventLoop& loop, spi::Observer observer, spi::Observe what) override;

  // RIPC_TIMEOUT: no server has answered for ten seconds.
  Status list(const spi::Visit& visit) override;

  DirectoryState state() const;

 private:
  // A service that someone asked for. The entry stays true until its watch fires.
  struct Entry {
    std::optional<spi::ServiceRecord> record;  // nullopt: absent, or not known
    std::uint64_t created = 0;                 // of its node; never decreases in a session
    std::int32_t version = 0;
    std::uint64_t session = 0;  // in which the node was read
    bool is_known = false;
    bool is_asked = false;             // waits in to_ask_, or is_under_way
    bool is_under_way = false;         // was asked and not answered yet
    bool is_watched = false;           // the servers may have a watch
    bool is_doubtful = false;          // a send to it failed since it was read
    bool is_untold = false;            // the observer lacks the last change
    bool is_of_other_version = false;  // there is a record, but only another version of libripc can read it
    Nanoseconds confirmed_at = 0;
    unsigned waiters = 0;
    std::string refusal;
    std::list<ripc_service_id>::iterator order;
  };
  struct Group {
    std::vector<ripc_service_id> members;
    bool is_known = false;
    bool is_asked = false;  // waits for the link, or is_under_way
    bool is_under_way = false;
    bool is_watched = false;  // the servers may have a watch
    unsigned waiters = 0;
    Nanoseconds used = 0;
    std::string refusal;
  };
  // A service of this context.
  struct Own {
    explicit Own(ripc_service_id of) noexcept : id(of) {}

    const ripc_service_id id;
    spi::ServiceRecord record;
    std::optional<spi::ServiceRecord> former;  // the established record that publish() is replacing
    bool is_former_wanted = false;             // and it was not withdrawn meanwhile
    bool is_wanted = true;                     // false: it is to be withdrawn
    bool takes_over = false;
    bool is_established = false;  // publish() has succeeded
    bool is_new = true;           // this session has written nothing of it into the directory
    bool is_fenced = false;
    bool is_queued = false;   // in to_settle_
    bool is_busy = false;     // a step is under way
    bool is_watched = false;  // has one of the watches for own services, also while the session is being made anew
    bool is_in_sync = false;  // reads are no older than the beginning of this step
    std::uint64_t goal = 1;   // counts the changes that were wanted
    std::uint64_t reached = 0;
    std::uint64_t failed = 0;  // goals up to this one; `failure` says why
    std::uint64_t step_goal = 0;
    std::uint64_t steps = 0;  // begun
    unsigned attempts = 0;
    unsigned rewrites = 0;
    Status failure;
    std::vector<spi::ServiceRecord> displaced;
  };
  using OwnPointer = std::shared_ptr<Own>;
  using Lock = std::unique_lock<std::mutex>;
  class Waiting;

  DirectoryResolver(std::unique_ptr<Directory> directory, DirectoryOptions options, std::uint64_t own_context);

  // directory_resolver.cpp: calls of the application
  Status not_there(ripc_service_id id) const;
  Status of_other_version(ripc_service_id id) const;
  Status not_reached(std::string_view what) const;
  // When no one waits for the directory any more; UINT64_MAX: it is linked.
  Nanoseconds unreachable_at() const noexcept;
  bool is_unreachable(Nanoseconds now) const noexcept { return unreachable_at() <= now; }
  void wait(Lock& lock, Nanoseconds until);
  const spi::ServiceRecord* own_record(ripc_service_id id) const noexcept;

  // directory_cache.cpp: what is known of other contexts' services. The lock is held.
  std::size_t most_cached() const noexcept { return std::min(options_.max_cached, most_watches_ - own_watches_); }
  Entry& entry_of(ripc_service_id id);
  Group& group_of(ripc_service_id group);
  void make_room(std::size_t more);
  void ask(ripc_service_id id, Entry& entry);
  void ask_group(ripc_service_id group, Group& known);
  void ask_waiting();
  bool displaces_known(const spi::ServiceRecord& record, const Entry& entry) const;
  RecordCheck check(const Directory::Node& node, ripc_service_id id, spi::ServiceRecord& record);
  // Without the lock.
  void answered(ripc_service_id id, const Directory::Answer& answer);
  void take_answer(ripc_service_id id, const Directory::Answer& answer);
  void group_answered(ripc_service_id group, const Directory::Answer& answer);
  void tell(const spi::Change& change);
  // Directory::Listener, without the lock.
  void link_up(std::uint64_t session, bool is_new) override;
  void link_down() override;
  void changed(std::string_view path) override;

  // directory_publisher.cpp: own services. The lock is held, except in `..._answered`.
  void end(const OwnPointer& own);
  void settle(const OwnPointer& own);
  void settle_waiting();
  void read(const OwnPointer& own);
  void write(const OwnPointer& own, const Directory::Node* former, const std::vector<ripc_service_id>& groups);
  void remove(const OwnPointer& own, const Directory::Node& node, const std::vector<ripc_service_id>& groups);
  void watch_own(const OwnPointer& own);
  void give_watch_back(Own& own) noexcept;
  void read_answered(const OwnPointer& own, const Directory::Answer& answer);
  void write_answered(const OwnPointer& own, const Directory::Answer& answer);
  void compare(const OwnPointer& own, const Directory::Answer& answer, std::optional<spi::ServiceRecord>& winner);
  static void restore(Own& own) noexcept;
  void fail(const OwnPointer& own, Status failure);
  void end_step(const OwnPointer& own, bool is_reached);
  void put_back(const OwnPointer& own);
  template <typename Step>
  void step(const OwnPointer& own, const Step& take);
  void forget(const OwnPointer& own);
  bool is_refused(const OwnPointer& own, const Directory::Answer& answer);

  const std::unique_ptr<Directory> directory_;
  const DirectoryOptions options_;
  const std::uint64_t own_context_;
  const std::size_t most_watches_;  // of services

  mutable std::mutex mutex_;  // guards all below; not held while other objects are called
  std::condition_variable changed_;
  spi::Observer observer_;
  bool is_linked_ = false;
  std::uint64_t session_ = 0;
  Nanoseconds down_since_;
  DirectoryCounters counters_;
  std::unordered_map<ripc_service_id, Entry> entries_;
  std::list<ripc_service_id> order_;  // used longest ago first
  std::deque<ripc_service_id> to_ask_;
  std::size_t asking_ = 0;
  std::unordered_map<ripc_service_id, Group> groups_;
  std::unordered_map<ripc_service_id, OwnPointer> own_;
  std::size_t own_watches_ = 0;
  std::deque<OwnPointer> to_settle_;
  std::size_t settling_ = 0;
};

}  // namespace ripc::internal::resolver
