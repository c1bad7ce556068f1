// SPDX-License-Identifier: Apache-2.0
#include "file/served_directory.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cli::file {
namespace {

// Without O_NONBLOCK, opening a FIFO would block the service.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

FileStatus to_status(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return FileStatus::no_such_file;
    case EACCES:
    case EPERM:
      return FileStatus::no_permission;
    case EXDEV:
    case ELOOP:
      return FileStatus::outside;
    case ENXIO:
    case ENODEV:
      return FileStatus::not_regular;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return FileStatus::no_memory;
    default:
      return FileStatus::io_error;
  }
}

std::uint64_t nanoseconds(const timespec& time) noexcept {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

ripc::Result<ServedDirectory> ServedDirectory::open(const std::string& path) {
  Descriptor root(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root)
    return ripc::Error(RIPC_INVALID_ARGUMENT,
                       "Cannot serve '" + path + "': " + std::strerror(errno) + ". Name a directory that exists.");
  // O_PATH opens even a directory that this process may not enter, where it could read no file.
  if (::faccessat(root.get(), ".", R_OK | X_OK, AT_EACCESS) != 0)
    return ripc::Error(RIPC_PERMISSION, "Cannot serve '" + path + "': " + std::strerror(errno) +
                                            ". Give this user the right to read and enter it (chmod u+rx), or run "
                                            "as its owner.");
  return ServedDirectory(std::move(root));
}

int ServedDirectory::open_beneath(const std::string& path) const {
  open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  constexpr int kAttempts = 8;  // EAGAIN: something was renamed while the kernel looked
  long fd = -1;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    fd = syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof(how));
    if (fd >= 0 || errno != EAGAIN) break;
  }
  // Old kernels do not know the call, and some sandboxes forbid it (with EPERM, which a file would not give here).
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return open_step_by_step(path);
  return static_cast<int>(fd);
}

int ServedDirectory::open_step_by_step(const std::string& path) const {
  Descriptor directory;
  std::size_t start = 0;
  while (true) {
    const std::size_t slash = path.find('/', start);
    const std::string part = path.substr(start, slash == std::string::npos ? slash : slash - start);
    const int at = directory ? directory.get() : root_.get();
    if (part == "..") {
      errno = EXDEV;
      return -1;
    }
    if (slash == std::string::npos) return openat(at, part.empty() ? "." : part.c_str(), kOpenFlags | O_NOFOLLOW);
    start = slash + 1;
    if (part.empty() || part == ".") continue;
    const int next = openat(at, part.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (next < 0) return -1;
    directory.reset(next);
  }
}

FileStatus ServedDirectory::open_file(std::string_view path, OpenFile& file) const {
  if (path.empty() || path.find('\0') != std::string_view::npos) return FileStatus::bad_request;
  if (path.front() == '/') return FileStatus::outside;
  file.descriptor.reset(open_beneath(std::string(path)));
  if (!file.descriptor) return to_status(errno);
  return refresh(file);
}

FileStatus ServedDirectory::refresh(OpenFile& file) {
  struct stat status = {};
  if (fstat(file.descriptor.get(), &status) != 0) return FileStatus::io_error;
  if (S_ISDIR(status.st_mode)) return FileStatus::is_directory;
  if (!S_ISREG(status.st_mode)) return FileStatus::not_regular;
  const std::array<std::uint64_t, 5> identity = {
      static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
      static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
  file.size = static_cast<std::uint64_t>(status.st_size);
  file.version = XXH3_64bits(identity.data(), sizeof(identity)) | 1;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  constexpr std::uint64_t kSettled = 1'000'000'000;
  file.is_settled = nanoseconds(now) > nanoseconds(status.st_ctim) + kSettled;
  return FileStatus::ok;
}

}  // namespace cli::file
