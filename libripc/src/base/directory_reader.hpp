// SPDX-License-Identifier: Apache-2.0
// Reads the names in a directory.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>

namespace ripc::internal {

// One pass over a directory, in the kernel's order; needs one descriptor while it lives. Files that come or go during
// the pass may be seen or not. Removing what was just read is allowed. One thread.
class DirectoryReader {
 public:
  // `directory` may be an O_PATH descriptor; it is only used during the call.
  explicit DirectoryReader(int directory) noexcept {
    const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) stream_.reset(::fdopendir(fd));
    if (stream_ == nullptr) {
      error_ = errno;
      if (fd >= 0) ::close(fd);
    }
  }

  // The next name, valid until the next call; nullptr at the end or after an error.
  const char* next() noexcept {
    if (stream_ == nullptr) return nullptr;
    errno = 0;
    const dirent* entry = ::readdir(stream_.get());
    if (entry != nullptr) return entry->d_name;
    error_ = errno;
    return nullptr;
  }
  // errno of what went wrong; 0: nothing.
  int error() const noexcept { return error_; }

 private:
  std::unique_ptr<DIR, int (*)(DIR*)> stream_{nullptr, &::closedir};
  int error_ = 0;
};

}  // namespace ripc::internal
