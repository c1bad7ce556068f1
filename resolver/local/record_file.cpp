// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/record_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/backoff.hpp"
#include "resolver/local/service_record.hpp"

namespace ripc::internal::resolver {
namespace {

// A sweep by another process can make a writer start again, but only once.
constexpr int kAttempts = 64;
constexpr Nanoseconds kShortestLockPause = 50'000;
constexpr Nanoseconds kLongestLockPause = 2'000'000;
// Files here may be links, pipes or devices that someone else put there: never follow a link, never block, never get a
// controlling terminal.
constexpr int kSafeOpenFlags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

bool set_lock(int fd, short type) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_held_elsewhere(int error) noexcept { return error == EAGAIN || error == EACCES; }

Status not_a_record(const std::string& path) {
  return Status(RIPC_CORRUPT, path +
                                  " is not a plain file: something else than libripc wrote into the runtime "
                                  "directory. Remove it.");
}

Status file_error(int error, const char* call, const std::string& path) {
  switch (error) {
    case ENOENT:
      return Status(RIPC_NO_SERVICE, "There is no " + path + ": no service on this host has this ID.");
    case ELOOP:
    case EISDIR:
    case ENXIO:
    case ENODEV:
      return not_a_record(path);
    case EACCES:
    case EPERM:
    case EROFS:
      return Status(RIPC_PERMISSION,
                    std::string(call) + " " + path +
                        " is not allowed: it belongs to another user. Have that user's process end or "
                        "start again with RIPC_PEERS=group or RIPC_PEERS=any, have the file removed, or "
                        "take another ID.");
    case ENOLCK:
    case EOPNOTSUPP:
      return system_error(error, std::string(call) + " " + path,
                          "its file system may lack locks: set RIPC_RUNTIME_DIR to a directory on a local one");
    default:
      return system_error(error, std::string(call) + " " + path);
  }
}

Status locked_elsewhere(const std::string& path) {
  return Status(RIPC_TIMEOUT, "Another process keeps " + path + " locked: find it with `lslocks` or `fuser -v " + path +
                                  "` and see whether it is stopped, then try again.");
}

Status writing_error(int error, const RuntimeDirectory& directory, ripc_service_id id) {
  return RuntimeDirectory::creation_error(error, "Writing " + record_path(directory, id), directory.services_fd());
}

// Reads up to kMaxRecordSize + 1 bytes: one more than a record may have, to notice a file that is too large. Most have
// some hundred.
Result<std::string> read_all(int fd, const std::string& path) {
  std::string text;
  std::array<char, 4096> part;
  while (text.size() <= kMaxRecordSize) {
    const std::size_t wanted = std::min(part.size(), kMaxRecordSize + 1 - text.size());
    const ssize_t count = ::pread(fd, part.data(), wanted, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(errno, "Reading", path);
    if (count == 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// 0 or errno.
int write_all(int fd, std::string_view text) noexcept {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return ENOSPC;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

// Makes sure that the disk has room for a text of this size, and changes nothing otherwise. 0 or errno.
int reserve(int fd, std::size_t size) noexcept {
  while (::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) != 0) {
    if (errno == EOPNOTSUPP) return 0;  // the file system cannot promise it
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Whether the name leads to the open file. 0: yes, ENOENT: no, or no longer; else errno.
int is_current(int fd, int directory, const char* name) noexcept {
  struct stat opened {
  }, named{};
  if (::fstat(fd, &opened) != 0) return errno;
  if (::fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? 0 : ENOENT;
}

// Writes `text` to a new file and gives it the name, atomically. `replace`: replaces the file that has the name (the
// caller holds its lock); otherwise only if no file has it. Returns 0, EEXIST, or errno.
int publish_text(const RuntimeDirectory& directory, const char* name, std::string_view text, bool replace) {
  const int services = directory.services_fd();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const RuntimeDirectory::TemporaryName temporary = RuntimeDirectory::temporary_name();
    ForkGuard guard;
    UniqueFd fd = ForkGuard::open(
        guard, [&] { return ::openat(services, temporary.data(), O_RDWR | O_CREAT | O_EXCL | kSafeOpenFlags, 0600); });
    if (!fd) {
      if (errno == EEXIST) continue;
      return errno;
    }
    int error = 0;
    if (!set_lock(fd.get(), F_WRLCK)) {
      // A sweep holds the lock, and removes the file.
      error = is_held_elsewhere(errno) ? ENOENT : errno;
    } else if (::fchmod(fd.get(), directory.file_mode()) != 0) {
      error = errno;
    } else {
      error = write_all(fd.get(), text);
    }
    if (error == 0) {
      if (::renameat2(services, temporary.data(), services, name, replace ? 0 : RENAME_NOREPLACE) != 0) error = errno;
      // The file system has no RENAME_NOREPLACE.
      if (!replace && (error == EINVAL || error == ENOSYS)) {
        error = ::linkat(services, temporary.data(), services, name, 0) == 0 ? 0 : errno;
        ::unlinkat(services, temporary.data(), 0);
      }
    }
    if (error != 0) ::unlinkat(services, temporary.data(), 0);
    // Unlock explicitly: if the descriptor is still open elsewhere, closing it here does not end the lock.
    set_lock(fd.get(), F_UNLCK);
    guard.close(fd);
    if (error != ENOENT) return error;
  }
  return ENOENT;
}

}  // namespace

std::string record_path(const RuntimeDirectory& directory, ripc_service_id id) {
  return directory.path() + "/services/" + RuntimeDirectory::file_name(id).data();
}

// ---- LockedRecord --------------------------------------------------------------------------------------------

LockedRecord::~LockedRecord() { unlock(); }

void LockedRecord::unlock() noexcept {
  if (!fd_) return;
  set_lock(fd_.get(), F_UNLCK);
  guard_.close(fd_);
}

Result<LockedRecord> LockedRecord::lock(const RuntimeDirectory& directory, ripc_service_id id, Deadline deadline) {
  const RuntimeDirectory::FileName name = RuntimeDirectory::file_name(id);
  const std::string path = record_path(directory, id);
  Backoff pause{kShortestLockPause, kLongestLockPause};
  for (;;) {
    LockedRecord record(directory, id);
    record.fd_ = ForkGuard::open(
        record.guard_, [&] { return ::openat(directory.services_fd(), name.data(), O_RDWR | kSafeOpenFlags); });
    if (!record.fd_) {
      if (errno == EINTR) continue;
      return file_error(errno, "Opening", path);
    }
    struct stat info {};
    if (::fstat(record.fd_.get(), &info) != 0) return file_error(errno, "Looking at", path);
    if (!S_ISREG(info.st_mode)) return not_a_record(path);
    if (set_lock(record.fd_.get(), F_WRLCK)) {
      const int state = is_current(record.fd_.get(), directory.services_fd(), name.data());
      if (state == 0) {
        if (Status status = read_all(record.fd_.get(), path).move_to(record.text_); !status.ok()) return status;
        return record;
      }
      if (state != ENOENT) return file_error(state, "Looking at", path);
      // The file was replaced or removed before this process got the lock.
      if (!deadline.expired()) continue;
    } else if (!is_held_elsewhere(errno)) {
      return file_error(errno, "Locking", path);
    }
    if (deadline.expired()) return locked_elsewhere(path);
    record.unlock();
    pause_for(std::min(pause.next(), deadline.remaining()));
  }
}

Status LockedRecord::replace(std::string_view text, bool may_overwrite) {
  const int error = publish_text(*directory_, RuntimeDirectory::file_name(id_).data(), text, true);
  Status status;
  if (error == EPERM || error == EACCES) {
    status = overwrite(text, may_overwrite);
  } else if (error != 0) {
    status = writing_error(error, *directory_, id_);
  }
  if (status.ok()) unlock();
  return status;
}

Status LockedRecord::remove(std::string_view vacant, bool may_overwrite) {
  Status status;
  if (::unlinkat(directory_->services_fd(), RuntimeDirectory::file_name(id_).data(), 0) != 0) {
    const int error = errno;
    if (error == EPERM || error == EACCES) {
      status = overwrite(vacant, may_overwrite);
    } else if (error != ENOENT) {
      status = file_error(error, "Removing", record_path(*directory_, id_));
    }
  }
  if (status.ok()) unlock();
  return status;
}

Status LockedRecord::overwrite(std::string_view text, bool allowed) {
  struct stat info {};
  // A second name would mean that someone tries to make this process write to a file that serves another purpose.
  if (!allowed || ::fstat(fd_.get(), &info) != 0 || info.st_nlink != 1)
    return file_error(EACCES, "Replacing", record_path(*directory_, id_));
  std::string padded(text);
  padded.resize(std::max(padded.size(), text_.size()), ' ');
  int error = reserve(fd_.get(), padded.size());
  if (error == 0) error = write_all(fd_.get(), padded);
  // As after a rename: a process that remembers the directory sees that it has changed.
  static_cast<void>(::futimens(directory_->services_fd(), nullptr));
  return error == 0 ? Status() : writing_error(error, *directory_, id_);
}

// ---- Without a lock ------------------------------------------------------------------------------------------

Status create_record(const RuntimeDirectory& directory, ripc_service_id id, std::string_view text) {
  const int error = publish_text(directory, RuntimeDirectory::file_name(id).data(), text, false);
  if (error == 0) return {};
  if (error == EEXIST) return RIPC_AGAIN;
  return writing_error(error, directory, id);
}

Result<std::string> read_record(const RuntimeDirectory& directory, ripc_service_id id) {
  const RuntimeDirectory::FileName name = RuntimeDirectory::file_name(id);
  const UniqueFd fd(::openat(directory.services_fd(), name.data(), O_RDONLY | kSafeOpenFlags));
  if (!fd) return file_error(errno, "Reading", record_path(directory, id));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return file_error(errno, "Looking at", record_path(directory, id));
  if (!S_ISREG(info.st_mode)) return not_a_record(record_path(directory, id));
  return read_all(fd.get(), record_path(directory, id));
}

bool remove_abandoned(const RuntimeDirectory& directory, const char* name) noexcept {
  ForkGuard guard;
  UniqueFd fd =
      ForkGuard::open(guard, [&] { return ::openat(directory.services_fd(), name, O_RDWR | kSafeOpenFlags); });
  struct stat info {};
  if (!fd) return false;
  bool removed = false;
  if (::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && set_lock(fd.get(), F_WRLCK)) {
    removed = ::unlinkat(directory.services_fd(), name, 0) == 0;
    set_lock(fd.get(), F_UNLCK);
  }
  guard.close(fd);
  return removed;
}

}  // namespace ripc::internal::resolver
