// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_directory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "base/directory_reader.hpp"
#include "base/peer_policy.hpp"
#include "base/random.hpp"
#include "base/runtime_path.hpp"

namespace ripc::internal {
namespace {

constexpr int kBacklog = 512;
// Another process's sweep may remove what is just being made; then this process makes it again. A sweep looks at each
// name once, so a handful of attempts would normally do. But next to a process that sweeps without a pause on a busy
// machine, 64 attempts have failed. An attempt takes 10 us.
constexpr int kAttempts = 1024;

// The address of `name` in the directory behind `fd`. False if it does not fit.
bool socket_address(bool through_proc, int fd, const std::string& path, const char* name,
                    sockaddr_un& address) noexcept {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = through_proc
                         ? snprintf(address.sun_path, sizeof address.sun_path, "/proc/thread-self/fd/%d/%s", fd, name)
                         : snprintf(address.sun_path, sizeof address.sun_path, "%s/contexts/%s", path.c_str(), name);
  return length > 0 && static_cast<std::size_t>(length) < sizeof address.sun_path;
}

UniqueFd open_socket(ForkGuard& guard) {
  return ForkGuard::open(guard, [] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

const sockaddr* generic(const sockaddr_un& address) noexcept { return reinterpret_cast<const sockaddr*>(&address); }

// Whether the kernel's links from descriptors to files (/proc) work here.
bool proc_works(int fd) noexcept {
  std::array<char, 48> path;
  snprintf(path.data(), path.size(), "/proc/thread-self/fd/%d/.", fd);
  struct stat through {
  }, direct{};
  return ::stat(path.data(), &through) == 0 && ::fstat(fd, &direct) == 0 && through.st_dev == direct.st_dev &&
         through.st_ino == direct.st_ino;
}

Status path_too_long(const std::string& path) {
  return Status(RIPC_LIMIT, "The path " + path +
                                " is too long for a Unix socket while /proc is not mounted: mount /proc, or choose a "
                                "runtime directory with a path of at most 60 bytes.");
}

}  // namespace

Status RuntimeDirectory::creation_error(int error, const std::string& what, int directory) {
  if (error == ENOSPC || error == EDQUOT)
    return Status(RIPC_NO_MEMORY,
                  what +
                      " failed: the disk, its inodes or a quota are used up. Free some space there, or set "
                      "RIPC_RUNTIME_DIR to another directory.");
  struct stat info {};
  if (error == ENOENT && ::fstat(directory, &info) == 0 && info.st_nlink == 0)
    return Status(RIPC_SYSTEM, what +
                                   " failed: the directory was deleted while in use. Make a new context, and keep "
                                   "whatever cleans up away from it.");
  if (error == EACCES || error == EPERM || error == EROFS)
    return Status(RIPC_PERMISSION, what + " failed: " + strerrordesc_np(error) +
                                       ". Have its owner let this user write there, or set RIPC_RUNTIME_DIR to "
                                       "another directory.");
  return system_error(error, what);
}

RuntimeDirectory::TemporaryName RuntimeDirectory::temporary_name() noexcept {
  TemporaryName name{};
  snprintf(name.data(), name.size(), "%s%016llx", kTemporaryPrefix.data(),
           static_cast<unsigned long long>(random_u64()));
  return name;
}

RuntimeDirectory::FileName RuntimeDirectory::file_name(std::uint64_t number) noexcept {
  FileName name{};
  snprintf(name.data(), name.size(), "%016llx", static_cast<unsigned long long>(number));
  return name;
}

std::optional<std::uint64_t> RuntimeDirectory::number_of(std::string_view name) noexcept {
  if (name.size() != 16 || name.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number, 16);
  return number;
}

mode_t RuntimeDirectory::file_mode() const noexcept {
  return peer_policy_ == RIPC_PEERS_SAME_GROUP ? 0660 : peer_policy_ == RIPC_PEERS_ANY ? 0666 : 0600;
}

// ---- Opening -------------------------------------------------------------------------------------------------

Result<std::shared_ptr<RuntimeDirectory>> RuntimeDirectory::open(const char* path, std::uint32_t peer_policy) {
  if (peer_policy > RIPC_PEERS_ANY)
    return Status(RIPC_INVALID_ARGUMENT,
                  "The peer policy " + std::to_string(peer_policy) + " is none of ripc_peer_policy: 0, 1 or 2.");
  Result<RuntimePath> chosen = choose_runtime_path(path);
  if (!chosen.ok()) return chosen.status();
  struct stat info {};
  Result<UniqueFd> base = open_runtime_path(*chosen, peer_policy, info);
  if (!base.ok()) return base.status();

  std::shared_ptr<RuntimeDirectory> directory(new RuntimeDirectory);
  directory->path_ = std::move(chosen->path);
  directory->peer_policy_ = peer_policy;
  directory->base_fd_ = std::move(*base);
  if (Status status = directory->open_all(info.st_mode & 07777, info.st_gid); !status.ok()) return status;
  return directory;
}

Status RuntimeDirectory::open_all(mode_t mode, gid_t group) {
  // Cleaners of temporary directories (systemd-tmpfiles) leave a locked directory and everything below it alone. It
  // does not matter if the lock is not available.
  static_cast<void>(::flock(base_fd_.get(), LOCK_SH | LOCK_NB));
  for (auto [name, fd] : {std::pair{"contexts", &contexts_fd_}, std::pair{"services", &services_fd_}}) {
    if (Status status = open_subdirectory(name, mode, group).move_to(*fd); !status.ok()) return status;
  }
  through_proc_ = proc_works(contexts_fd_.get());
  probe_socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe_socket_) return system_error(errno, "Creating a Unix socket");
  return {};
}

Result<UniqueFd> RuntimeDirectory::open_subdirectory(const char* name, mode_t mode, gid_t group) {
  int error = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    UniqueFd fd(::openat(base_fd_.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd) return fd;
    error = errno;
    if (error != ENOENT) break;
    if (Status status = create_subdirectory(name, mode, group); !status.ok()) return status;
  }
  const std::string full = path_ + "/" + name;
  if (error == ENOTDIR || error == ELOOP)
    return Status(RIPC_PERMISSION, full +
                                       " is not a directory: something else wrote into the runtime directory. Remove "
                                       "it, or set RIPC_RUNTIME_DIR to another directory.");
  return system_error(error, "Opening " + full, "have its owner admit this user, or set RIPC_RUNTIME_DIR");
}

// Completes the directory under a temporary name first. So no other process finds one that it may not use yet, and no
// half-made one stays if this process dies. Also returns RIPC_OK if another process was first: the caller looks again.
Status RuntimeDirectory::create_subdirectory(const char* name, mode_t mode, gid_t group) {
  const TemporaryName temporary = temporary_name();
  if (::mkdirat(base_fd_.get(), temporary.data(), 0700) != 0)
    return creation_error(errno, "Creating a directory in the runtime directory " + path_, base_fd_.get());
  const UniqueFd fd(::openat(base_fd_.get(), temporary.data(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  Status status;
  // The lock tells a sweep that the directory is being made. A sweep may remove it before that; then it is made again.
  if (fd) static_cast<void>(::flock(fd.get(), LOCK_EX | LOCK_NB));
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    // ENOENT: another process swept it away.
    if (errno != ENOENT)
      status = creation_error(errno, "Opening a new directory in the runtime directory " + path_, base_fd_.get());
  } else {
    // Only a member of the group may do this; otherwise the directory keeps this process's group.
    if (info.st_gid != group) static_cast<void>(::fchown(fd.get(), static_cast<uid_t>(-1), group));
    if (::fchmod(fd.get(), mode) != 0) {
      status = creation_error(errno, "Setting the permissions of a directory in the runtime directory " + path_,
                              base_fd_.get());
    } else if (::renameat2(base_fd_.get(), temporary.data(), base_fd_.get(), name, RENAME_NOREPLACE) == 0) {
      return {};
    } else if (errno == EINVAL || errno == ENOSYS) {
      // This file system lacks RENAME_NOREPLACE. A plain rename could replace a directory that others already have
      // open. A directory with the wrong permissions for a moment is better.
      if (::mkdirat(base_fd_.get(), name, mode & 0777) == 0) {
        const UniqueFd made(::openat(base_fd_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!made || ::fchmod(made.get(), mode) != 0)
          status = creation_error(errno, "Setting the permissions of a directory in the runtime directory " + path_,
                                  base_fd_.get());
      } else if (errno != EEXIST) {
        status = creation_error(errno, "Creating a directory in the runtime directory " + path_, base_fd_.get());
      }
    } else if (errno != EEXIST && errno != ENOENT) {
      status = creation_error(errno, "Renaming a new directory in the runtime directory " + path_, base_fd_.get());
    }
  }
  ::unlinkat(base_fd_.get(), temporary.data(), AT_REMOVEDIR);
  return status;
}

// ---- Sockets -------------------------------------------------------------------------------------------------

Result<UniqueFd> RuntimeDirectory::listen(std::uint64_t context, ForkGuard* guard) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ForkGuard own_guard;
    UniqueFd fd = open_socket(own_guard);
    if (!fd) return system_error(errno, "Creating the socket of a context");
    const TemporaryName temporary = temporary_name();
    const Status status = bind_and_listen(fd.get(), context, temporary.data());
    if (status.ok()) {
      if (guard != nullptr) *guard = std::move(own_guard);
      return fd;
    }
    const int error = errno;
    ::unlinkat(contexts_fd_.get(), temporary.data(), 0);
    own_guard.close(fd);
    if (!(status == RIPC_AGAIN)) return status;
    errno = error;
  }
  return creation_error(ENOENT, "Creating a socket in the runtime directory " + path_, contexts_fd_.get());
}

// RIPC_AGAIN if the temporary name was swept away by another process: start again with a new socket.
Status RuntimeDirectory::bind_and_listen(int fd, std::uint64_t context, const char* temporary) {
  sockaddr_un address;
  if (!socket_address(through_proc_, contexts_fd_.get(), path_, temporary, address)) return path_too_long(path_);
  const mode_t mode = file_mode();
  // bind() gives the file the socket's own mode less the umask, so it is never wider than it may be.
  if (::fchmod(fd, mode) != 0) return system_error(errno, "Setting the permissions of a socket");
  if (::bind(fd, generic(address), sizeof address) != 0) {
    if (errno == EADDRINUSE) return RIPC_AGAIN;
    return creation_error(errno, "Creating a socket in the runtime directory " + path_, contexts_fd_.get());
  }
  struct stat info {};
  if (::fstatat(contexts_fd_.get(), temporary, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status(RIPC_AGAIN) : system_error(errno, "Looking at a new socket");
  }
  // The umask may have taken bits away. The call must not follow links: in a directory that others may write to, the
  // name could be another file's by now.
  if ((info.st_mode & 0777) != mode && ::fchmodat(contexts_fd_.get(), temporary, mode, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return RIPC_AGAIN;
    return system_error(errno, "Setting the permissions of a socket",
                        "set the umask of this process so that the users it talks to keep read and write");
  }
  if (::listen(fd, kBacklog) != 0) return system_error(errno, "Listening on the socket of a context");
  if (::renameat(contexts_fd_.get(), temporary, contexts_fd_.get(), file_name(context).data()) != 0) {
    if (errno == ENOENT) return RIPC_AGAIN;
    return creation_error(errno, "Naming a socket in the runtime directory " + path_, contexts_fd_.get());
  }
  return {};
}

Result<UniqueFd> RuntimeDirectory::connect(std::uint64_t context, ForkGuard* guard) {
  const FileName name = file_name(context);
  sockaddr_un address;
  if (!socket_address(through_proc_, contexts_fd_.get(), path_, name.data(), address)) return path_too_long(path_);
  ForkGuard own_guard;
  UniqueFd fd = open_socket(own_guard);
  if (!fd) return system_error(errno, "Creating a socket");
  int result;
  do {
    result = ::connect(fd.get(), generic(address), sizeof address);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    if (guard != nullptr) *guard = std::move(own_guard);
    return fd;
  }
  const int error = errno;
  own_guard.close(fd);
  const std::string socket = path_ + "/contexts/" + name.data();
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
      return Status(RIPC_PEER_DEAD,
                    "Nobody listens on " + socket +
                        ": the process that held it has ended, runs on another host, or has another runtime "
                        "directory. Resolve the service again.");
    case EAGAIN:
      return Status(RIPC_AGAIN, "Too many processes wait to be accepted on " + socket +
                                    ": try again soon; if it lasts, see whether its process is stopped.");
    case EACCES:
      return Status(RIPC_PERMISSION, "This user may not connect to " + socket +
                                         ": start the process that owns it with RIPC_PEERS=group or RIPC_PEERS=any, in "
                                         "a runtime directory that admits both users.");
    case EPROTOTYPE:
      return Status(RIPC_CORRUPT, socket +
                                      " is not the socket of a libripc context: something else wrote into the "
                                      "runtime directory. Remove it.");
    default:
      return system_error(error, "Connecting to " + socket);
  }
}

void RuntimeDirectory::remove_context(std::uint64_t context) noexcept {
  ::unlinkat(contexts_fd_.get(), file_name(context).data(), 0);
}

// ---- Liveness and sweeping -----------------------------------------------------------------------------------

Liveness RuntimeDirectory::probe(std::uint64_t context) const noexcept { return probe_name(file_name(context).data()); }

// Connects with a socket of the wrong type. The kernel first looks for a socket that is bound to the file.
// ECONNREFUSED: there is none, because its process is gone. Then the kernel compares the types. EPROTOTYPE: there is
// one. So the probe makes no connection, does not wake the context, and leaves the probing socket unconnected. A full
// backlog or a stopped process does not matter. A socket that is bound but does not listen yet counts as alive.
Liveness RuntimeDirectory::probe_name(const char* name) const noexcept {
  sockaddr_un address;
  if (!socket_address(through_proc_, contexts_fd_.get(), path_, name, address)) return Liveness::unknown;
  if (::connect(probe_socket_.get(), generic(address), sizeof address) == 0) {
    // A datagram socket: libripc did not make it, but somebody did.
    sockaddr_un nobody{};
    nobody.sun_family = AF_UNSPEC;
    static_cast<void>(::connect(probe_socket_.get(), generic(nobody), sizeof nobody));
    return Liveness::unknown;
  }
  switch (errno) {
    case EPROTOTYPE:
      return Liveness::alive;
    case ECONNREFUSED:
    case ENOENT:
      return Liveness::dead;
    default:
      return Liveness::unknown;
  }
}

std::optional<uid_t> RuntimeDirectory::stranger_at(std::uint64_t context) const noexcept {
  const FileName name = file_name(context);
  struct stat info {};
  if (::fstatat(contexts_fd_.get(), name.data(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
  const bool is_admitted = ::faccessat(contexts_fd_.get(), name.data(), W_OK, AT_EACCESS) == 0 || errno != EACCES;
  if (is_admitted && PeerPolicy(peer_policy_).admits(info.st_uid, info.st_gid)) return {};
  return info.st_uid;
}

std::size_t RuntimeDirectory::living_contexts() const noexcept {
  std::size_t living = 0;
  DirectoryReader reader(contexts_fd_.get());
  while (const char* name = reader.next()) {
    if (number_of(name) && probe_name(name) == Liveness::alive) ++living;
  }
  return living;
}

std::size_t RuntimeDirectory::sweep() noexcept { return sweep_contexts() + sweep_base(); }

// The name of a context's socket can be removed as soon as no socket is bound to it: a socket is bound before it gets
// the name, and the id is not reused. A temporary name can be removed too. If its maker is just in the middle of
// bind(), it starts again. So nothing depends on the age of a file.
std::size_t RuntimeDirectory::sweep_contexts() noexcept {
  std::size_t removed = 0;
  DirectoryReader reader(contexts_fd_.get());
  while (const char* name = reader.next()) {
    if (!number_of(name) && !std::string_view(name).starts_with(kTemporaryPrefix)) continue;
    if (probe_name(name) == Liveness::dead && ::unlinkat(contexts_fd_.get(), name, 0) == 0) ++removed;
  }
  return removed;
}

// Removes half-made sub-directories whose makers are gone.
std::size_t RuntimeDirectory::sweep_base() noexcept {
  std::size_t removed = 0;
  DirectoryReader reader(base_fd_.get());
  while (const char* name = reader.next()) {
    if (!std::string_view(name).starts_with(kTemporaryPrefix)) continue;
    const UniqueFd fd(::openat(base_fd_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (::unlinkat(base_fd_.get(), name, AT_REMOVEDIR) == 0) ++removed;
  }
  return removed;
}

}  // namespace ripc::internal
