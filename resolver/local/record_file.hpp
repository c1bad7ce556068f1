// SPDX-License-Identifier: Apache-2.0
// The files that hold service records. A reader never sees half a record, and two writers never both win. SIGKILL at
// any instruction leaves files that the next process can use.
//
// A process that changes or removes a file holds an exclusive lock on it. After getting the lock, the process checks
// that the name still leads to this file. The lock is an OFD lock: it belongs to the open file, so it excludes threads
// too, and it ends with the process. A change writes a new file under a temporary name and renames it over the old one.
// Readers, who lock nothing, see the old text or the new. A new file is made the same way with a rename that does not
// replace. Temporary files are locked while they are written: one that can be locked has lost its writer, and anyone
// may remove it. If someone removes a file between its creation and its locking, the rename fails and the writer starts
// again.
//
// The rename is not allowed if the directory is sticky and the file belongs to another user. If that user's policy lets
// this process write the file, one write overwrites it in place, on space that is reserved before. So a full disk
// leaves the old text. Spaces pad the text to its old length, so the file need not be cut. A reader that sees parts of
// both texts notices the wrong check sum, and reads again with the lock. Locks are held for a few system calls; no
// descriptor is kept.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/fork_guard.hpp"
#include "base/runtime_directory.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal::resolver {

// A record file of a service, locked while the object lives. One thread.
class LockedRecord {
 public:
  // Waits for the lock, at most until the deadline. RIPC_NO_SERVICE: there is no file. RIPC_CORRUPT: it is not a plain
  // file. RIPC_PERMISSION: this user may not write it. RIPC_TIMEOUT: another process holds the lock.
  // RIPC_NO_DESCRIPTORS, RIPC_SYSTEM.
  static Result<LockedRecord> lock(const RuntimeDirectory& directory, ripc_service_id id, Deadline deadline);
  LockedRecord(LockedRecord&&) noexcept = default;
  LockedRecord& operator=(LockedRecord&&) = delete;
  ~LockedRecord();

  // At most kMaxRecordSize + 1 bytes; no one changes it while the lock is held.
  const std::string& text() const noexcept { return text_; }

  // `may_overwrite`: the old text was a record, so the file may be overwritten in place if it cannot be replaced.
  // RIPC_PERMISSION, RIPC_NO_MEMORY (disk full), RIPC_NO_DESCRIPTORS, RIPC_SYSTEM. Success releases the lock.
  Status replace(std::string_view text, bool may_overwrite);
  // Writes `vacant` over the record if the file cannot be removed.
  Status remove(std::string_view vacant, bool may_overwrite);

 private:
  LockedRecord(const RuntimeDirectory& directory, ripc_service_id id) : directory_(&directory), id_(id) {}
  Status overwrite(std::string_view text, bool allowed);
  void unlock() noexcept;

  const RuntimeDirectory* directory_;
  ripc_service_id id_;
  ForkGuard guard_;
  UniqueFd fd_;
  std::string text_;
};

// Makes the file of a service. RIPC_AGAIN: the file exists by now. Other errors as LockedRecord::replace().
Status create_record(const RuntimeDirectory& directory, ripc_service_id id, std::string_view text);

// Reads the text without a lock; at most kMaxRecordSize + 1 bytes. RIPC_NO_SERVICE, RIPC_CORRUPT, RIPC_PERMISSION,
// RIPC_NO_DESCRIPTORS, RIPC_SYSTEM like LockedRecord::lock().
Result<std::string> read_record(const RuntimeDirectory& directory, ripc_service_id id);

// Removes a temporary file if no one is writing it; true if it did.
bool remove_abandoned(const RuntimeDirectory& directory, const char* name) noexcept;

// For messages.
std::string record_path(const RuntimeDirectory& directory, ripc_service_id id);

}  // namespace ripc::internal::resolver
