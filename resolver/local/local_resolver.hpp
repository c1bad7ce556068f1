// SPDX-License-Identifier: Apache-2.0
// The local resolver finds the services of one host without a daemon: each has a record file in the runtime directory.
// A resolve() reads one file and probes one holder. No descriptor is kept, so 1,000 services cost 1,000 small files.
// The resolver remembers only the services in groups, as long as the directory does not change. Then members() is one
// stat() and one probe of each context that has members.
//
// A record counts while its holder's context is alive (RuntimeDirectory::probe). The next user of the ID replaces the
// record of a dead process, and any process that meets it removes it. The incarnation of a record is max(wall clock in
// nanoseconds, previous + 1): with a record there, it grows even if the clock is set back.
//
// Permissions decide who may do what. A record has the file mode of its context's peer policy. So a user that the
// policy admits may take an ID over. In a sticky directory (mode 1777) no one can replace a record of another user with
// the policy "same user", not even after its death: RIPC_PERMISSION.
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

// Thread-safe. A lock is held for some microseconds, unless its process is stopped. A call waits a second at most for
// one; then it is RIPC_TIMEOUT, with a sentence that says where to look.
class LocalResolver final : public spi::Resolver {
 public:
  // own_context: the context that this resolver works for; it counts as alive. Its socket must be there before the
  // first publish(), or others take its records for those of a dead process. Other contexts of this process are as
  // foreign as those of other processes. Sweeps (see below).
  LocalResolver(std::shared_ptr<RuntimeDirectory> directory, std::uint64_t own_context);
  ~LocalResolver() override;

  // Makes the socket that shows others that the own context lives, for a context without a transport that does; no one
  // answers there. Once, before the first publish(). As RuntimeDirectory::listen().
  Status show_life();

  std::string_view name() const noexcept override { return "local"; }

  // RIPC_NO_SERVICE: no record, or that of a dead holder, which is removed, or something that is not a record.
  // RIPC_PERMISSION: there is one, but this user may not read it. RIPC_VERSION_MISMATCH: a newer libripc wrote it.
  // RIPC_NO_DESCRIPTORS, RIPC_SYSTEM.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  // The record's context must be alive. A new registration passes the incarnation 0. A larger one than that of the
  // former holder is kept: a chain of resolvers needs the same one everywhere. The ID of a name has the
  // two top bits 10; no takeover takes it from a living service without that name.
  // RIPC_ID_IN_USE, RIPC_NAME_COLLISION, RIPC_INVALID_ARGUMENT (no ID, no context, not UTF-8 ...), RIPC_LIMIT (too many
  // addresses), RIPC_PERMISSION, RIPC_TIMEOUT, RIPC_NO_MEMORY (disk full), RIPC_NO_DESCRIPTORS, RIPC_CORRUPT (not a
  // plain file), RIPC_VERSION_MISMATCH, RIPC_SYSTEM.
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;

  // Removes the record if it has this context and incarnation. Should that fail (no descriptor left, locked), the next
  // call of any function tries again.
  void withdraw(const spi::ServiceRecord& record) noexcept override;

  // RIPC_FENCED: the file has another holder or incarnation, or there is none. Else the errors of publish().
  Status update(const spi::ServiceRecord& record) override;

  // Removes the records of dead members. The errors of list().
  Status members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) override;

  // Nothing to do: no address is cached, the next resolve() reads the file and probes its holder again.
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // By inotify on the directory of the records, in the loop's thread. The loop must outlive the resolver.
  // RIPC_NO_DESCRIPTORS (also fs.inotify.max_user_instances), RIPC_NO_MEMORY, RIPC_SYSTEM.
  // Of nothing that it does not look for.
  Status observe(EventLoop& loop, spi::Observer observer, spi::Observe what) override;

  // Visits in no particular order, without a lock held; removes the records of dead holders on the way.
  // RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_SYSTEM if the directory cannot be read; records that cannot be read are
  // left out.
  Status list(const spi::Visit& visit) override;

  // Removes the records of dead holders and files that their writers left half-made; returns how many.
  std::size_t sweep();

 private:
  // Every service that is in groups, and what the directory looked like before they were read.
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
  // What it takes to withdraw a record. Made when it is published, so that nothing stands in the way of its end.
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
