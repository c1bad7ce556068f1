// SPDX-License-Identifier: Apache-2.0
// The local resolver finds the services of one host without a daemon: each has a record file in the runtime directory.
// A resolve() reads one file and probes one holder. No descriptor is kept, so 1,000 services cost 1,000 small files.
// The resolver remembers only the services in groups, until the directory changes. While it does not change, members()
// costs one stat() and one probe of each context that has members.
//
// A record counts while its holder's context is alive (RuntimeDirectory::probe). The next user of the ID replaces the
// record of a dead process, and any process that finds such a record removes it. The incarnation of a record is
// max(wall clock in nanoseconds, previous + 1): as long as there is a record, the incarnation grows even if the clock
// is set back.
//
// Permissions decide who may do what. A record has the file mode of its context's peer policy, so a user that the
// policy admits may take the ID over. In a sticky directory (mode 1777) no one can replace another user's record with
// the policy "same user", not even after its holder's death: RIPC_PERMISSION.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/runtime_directory.hpp"
#include "base/unique_fd.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

// Thread-safe. A lock is held for some microseconds, unless its process is stopped. A call waits at most a second for a
// lock; then it returns RIPC_TIMEOUT, with a sentence that says where to look.
class LocalResolver final : public spi::Resolver {
 public:
  // own_context: the context that this resolver works for; it counts as alive. Its socket must exist before the first
  // publish(), or others take its records for those of a dead process. Other contexts of this process are treated like
  // those of other processes. The constructor calls sweep().
  LocalResolver(std::shared_ptr<RuntimeDirectory> directory, std::uint64_t own_context);
  ~LocalResolver() override;

  // Makes the socket that shows others that the own context is alive, for a context without a transport that makes one;
  // no one answers there. Call it once, before the first publish(). Errors as RuntimeDirectory::listen().
  Status show_life();

  std::string_view name() const noexcept override { return "local"; }

  // RIPC_NO_SERVICE: there is no record, or something that is not a record, or that of a dead holder, which is removed.
  // RIPC_PERMISSION: there is one, but this user may not read it. RIPC_VERSION_MISMATCH: a newer libripc wrote it.
  // RIPC_NO_DESCRIPTORS, RIPC_SYSTEM.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  // The record's context must be alive. A new registration passes the incarnation 0. An incarnation larger than the
  // former holder's is kept: a chain of resolvers needs the same one everywhere. The ID of a name has the two top bits
  // 10; no takeover takes such an ID from a living service without that name.
  // RIPC_ID_IN_USE, RIPC_NAME_COLLISION, RIPC_INVALID_ARGUMENT (no ID, no context, not UTF-8 ...), RIPC_LIMIT (too many
  // addresses), RIPC_PERMISSION, RIPC_TIMEOUT, RIPC_NO_MEMORY (disk full), RIPC_NO_DESCRIPTORS, RIPC_CORRUPT (not a
  // plain file), RIPC_VERSION_MISMATCH, RIPC_SYSTEM.
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;

  // Removes the record if it has this context and incarnation. If that fails (no descriptor left, locked), the next
  // call of any function tries again.
  void withdraw(const spi::ServiceRecord& record) noexcept override;

  // RIPC_FENCED: the file has another holder or incarnation, or there is none. Else the errors of publish().
  Status update(const spi::ServiceRecord& record) override;

  // Removes the records of dead members. The errors of list().
  Status members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) override;

  // Does nothing: no address is cached, so the next resolve() reads the file and probes its holder anyway.
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // Uses inotify on the directory of the records, in the loop's thread. The loop must outlive the resolver.
  // RIPC_NO_DESCRIPTORS (also fs.inotify.max_user_instances), RIPC_NO_MEMORY, RIPC_SYSTEM.
  // Does nothing unless `what` is everything: no change arrives here unasked.
  Status observe(EventLoop& loop, spi::Observer observer, spi::Observe what) override;

  // Visits in no particular order, without holding a lock; removes the records of dead holders on the way.
  // RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_SYSTEM if the directory cannot be read; records that cannot be read are
  // left out.
  Status list(const spi::Visit& visit) override;

  // Removes the records of dead holders and files that their writers left unfinished; returns how many files it
  // removed.
  std::size_t sweep();

 private:
  // Every service that is in a group, and the state of the directory before they were read.
  struct Grouped {
    std::vector<spi::ServiceRecord> records;
    struct stat directory {};
    Nanoseconds read_at = 0;  // wall clock
  };
  bool is_alive(const spi::ServiceRecord& record) const noexcept;
  Result<std::shared_ptr<const Grouped>> grouped();
  Result<spi::ServiceRecord> read_whole(ripc_service_id id) const;
  Result<spi::ServiceRecord> remove_stale(ripc_service_id id, Deadline deadline);
  // RIPC_PERMISSION: no message reaches the holder.
  Status check_fence(const spi::ServiceRecord& record, const spi::ServiceRecord& holder) const;
  Status refuse_locked_out(const spi::ServiceRecord& record, bool takeover, Status status) const;
  // What is needed to withdraw a record. It is made when the record is published, so that a withdrawal needs no memory.
  struct Registration {
    ripc_service_id id;
    std::uint64_t context;
    std::uint64_t incarnation;
  };
  Status publish_as(std::list<Registration>& registration, spi::ServiceRecord& record, bool takeover,
                    std::vector<spi::ServiceRecord>* displaced);
  bool try_withdraw(const Registration& registration, Deadline deadline) noexcept;
  void withdraw_pending() noexcept;
  template <typename Visit>
  Status visit_all(std::size_t& removed, Nanoseconds lock_timeout, Visit&& visit);

  const std::shared_ptr<RuntimeDirectory> directory_;
  const std::uint64_t own_context_;
  UniqueFd life_;
  ForkGuard life_guard_;
  std::mutex mutex_;
  std::list<Registration> published_;
  std::list<Registration> pending_;         // withdrawn, but their files could not be removed yet
  std::shared_ptr<const Grouped> grouped_;  // nullptr: not asked for yet
  UniqueFd changes_;                        // invalid: no one observes
  EventLoop* observed_by_ = nullptr;
};

}  // namespace ripc::internal::resolver
