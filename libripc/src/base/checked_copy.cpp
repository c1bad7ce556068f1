// SPDX-License-Identifier: Apache-2.0
#include "base/checked_copy.hpp"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

namespace ripc::internal {

namespace {

using Transfer = ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

std::size_t copy(Transfer* transfer, std::byte* own, std::byte* foreign, std::size_t size, bool& is_allowed) noexcept {
  std::size_t done = 0;
  is_allowed = true;
  while (done < size) {
    const iovec here{own + done, size - done};
    const iovec there{foreign + done, size - done};
    const ssize_t result = transfer(::getpid(), &here, 1, &there, 1, 0);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0 && errno != EFAULT && errno != ENOMEM) is_allowed = false;
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
  }
  return done;
}

}  // namespace

std::size_t checked_read(std::byte* to, const std::byte* foreign, std::size_t size) noexcept {
  bool is_allowed = true;
  const std::size_t done = copy(process_vm_readv, to, const_cast<std::byte*>(foreign), size, is_allowed);
  if (is_allowed) return done;
  std::memcpy(to, foreign, size);
  return size;
}

std::size_t checked_write(std::byte* foreign, const std::byte* from, std::size_t size) noexcept {
  bool is_allowed = true;
  const std::size_t done = copy(process_vm_writev, const_cast<std::byte*>(from), foreign, size, is_allowed);
  if (is_allowed) return done;
  std::memcpy(foreign, from, size);
  return size;
}

}  // namespace ripc::internal
