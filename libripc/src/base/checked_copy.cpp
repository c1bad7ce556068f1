// SPDX-License-Identifier: Apache-2.0
#include "base/checked_copy.hpp"

#include <errno.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace ripc::internal {

namespace {

// How many bytes `step` copied until memory was missing; nullopt: the kernel does not copy this way. A step copies from
// byte `done` on.
template <typename Step>
std::optional<std::size_t> copy_in_steps(std::size_t size, const Step& step) noexcept {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t result = step(done);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0 && errno != EFAULT && errno != ENOMEM) return std::nullopt;
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
  }
  return done;
}

// A write past this file size limit would not just fail: the kernel would end the process with SIGXFSZ.
bool may_write_file(std::size_t size) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= size;
}

}  // namespace

std::byte* CheckedCopy::scratch(std::size_t size) noexcept try {
  if (!was_tried_) {
    was_tried_ = true;
    Result<SharedMemory> made = create_shared_memory("ripc-copy", size, PeerAccess::read_write);
    if (made.ok()) scratch_ = std::move(*made);
  }
  return scratch_.mapping && may_write_file(size) ? scratch_.mapping.data() : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

off_t CheckedCopy::place_of(const std::byte* own, std::size_t size) const noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(own) - reinterpret_cast<std::uintptr_t>(scratch_.mapping.data());
  const std::size_t room = scratch_.mapping.size();
  return place < room && size <= room - place ? static_cast<off_t>(place) : -1;
}

std::size_t CheckedCopy::read(std::byte* to, const std::byte* foreign, std::size_t size) const noexcept {
  return copy(to, const_cast<std::byte*>(foreign), size, false);
}

std::size_t CheckedCopy::write(std::byte* foreign, const std::byte* from, std::size_t size) const noexcept {
  return copy(const_cast<std::byte*>(from), foreign, size, true);
}

std::size_t CheckedCopy::copy(std::byte* own, std::byte* foreign, std::size_t size, bool writing) const noexcept {
  std::optional<std::size_t> copied;
  if (const off_t place = place_of(own, size); place >= 0) {
    const int file = scratch_.fd.get();
    copied = copy_in_steps(size, [&](std::size_t done) {
      const off_t at = place + static_cast<off_t>(done);
      return writing ? ::pread(file, foreign + done, size - done, at) : ::pwrite(file, foreign + done, size - done, at);
    });
  }
  if (!copied) {
    copied = copy_in_steps(size, [&](std::size_t done) {
      const iovec here{own + done, size - done};
      const iovec there{foreign + done, size - done};
      const auto transfer = writing ? process_vm_writev : process_vm_readv;
      return transfer(::getpid(), &here, 1, &there, 1, 0);
    });
  }
  if (copied) return *copied;
  std::memcpy(writing ? foreign : own, writing ? own : foreign, size);
  return size;
}

}  // namespace ripc::internal
