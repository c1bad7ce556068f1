// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/process_memory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace ripc::internal::shm {

namespace {
// The kernel moves at most about 2 GiB in one call.
constexpr std::size_t kLargestStep = std::size_t{1} << 30;

constexpr std::size_t kPage = 4096;
// Stays in the second-level cache.
constexpr std::size_t kDetourStep = std::size_t{64} << 10;

// The kernel copies with "rep movsb". That takes four times as long when the target's offset in its page is a few bytes
// past the source's (measured: docs/performance/long-messages.md). This is the case for a page-aligned buffer that is
// sent to memory from malloc().
bool in_slow_distance(std::uint64_t to, std::uint64_t from) {
  const std::uint64_t distance = (to - from) % kPage;
  return distance != 0 && distance < 32;
}

// Returns the bytes moved, or -1 with errno.
ssize_t move(pid_t pid, std::byte* local, std::uint64_t address, std::size_t size, bool writing) {
  const iovec here{local, size};
  const iovec there{reinterpret_cast<void*>(address), size};  // NOLINT: an address of the peer
  return writing ? process_vm_writev(pid, &here, 1, &there, 1, 0) : process_vm_readv(pid, &here, 1, &there, 1, 0);
}

// For a kernel or seccomp profile that does not even let a process read itself with process_vm_readv(). System calls do
// not fault on unmapped memory. write() and read() are never forbidden, and work for a process that no one may trace.
ripc_status copy_by_pipe(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return RIPC_NO_DESCRIPTORS;
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  while (size != 0) {
    // Takes what the pipe can hold at a time.
    ssize_t taken = ::write(in.get(), from, size);
    if (taken <= 0) return RIPC_CANCELLED;
    from += taken;
    size -= static_cast<std::size_t>(taken);
    while (taken > 0) {
      const ssize_t given = ::read(out.get(), to, static_cast<std::size_t>(taken));
      if (given <= 0) return RIPC_CANCELLED;
      to += given;
      taken -= given;
    }
  }
  return RIPC_OK;
}

// An intermediate buffer at a good distance from both ends: two fast copies instead of a slow one.
class Detour {
 public:
  // There is no buffer if it is not needed, or if memory is short.
  Detour(bool needed, std::uint64_t address) {
    if (!needed) return;
    memory_.reset(new (std::nothrow) std::byte[kDetourStep + kPage]);
    if (!memory_) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.get());
    step_ = memory_.get() + (address + kPage / 2 - begin) % kPage;
  }

  bool taken() const { return step_ != nullptr; }

  // As move(), at most kDetourStep bytes. The application may have unmapped its memory: that is EFAULT here too.
  ssize_t move(pid_t pid, std::byte* local, std::uint64_t address, std::size_t size, bool writing) const {
    size = std::min(size, kDetourStep);
    if (writing) {
      if (copy_own_memory(step_, local, size) != RIPC_OK) return failed();
      return shm::move(pid, step_, address, size, true);
    }
    const ssize_t moved = shm::move(pid, step_, address, size, false);
    if (moved > 0 && copy_own_memory(local, step_, static_cast<std::size_t>(moved)) != RIPC_OK) return failed();
    return moved;
  }

 private:
  static ssize_t failed() {
    errno = EFAULT;
    return -1;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::byte* step_ = nullptr;
};
}  // namespace

UniqueFd open_peer_process(int socket, pid_t pid) noexcept {
  if (pid <= 0) return UniqueFd();
  int process = -1;
  socklen_t size = sizeof process;
  // Exact since Linux 6.5. Before that there is only the process ID, and the peer is known to be alive at this moment.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process, &size) == 0) return UniqueFd(process);
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

PeerProcess::PeerProcess(UniqueFd process, pid_t pid) noexcept
    : process_(std::move(process)), pid_(pid), reach_(probe()) {}

// The kernel checks permission before the address, and nothing is mapped at 0.
Reach PeerProcess::probe() const noexcept {
  if (!process_ || pid_ <= 0) return Reach::not_visible;
  std::byte byte{};
  if (move(pid_, &byte, 0, 1, false) >= 0 || errno == EFAULT || errno == ESRCH) return Reach::direct;
  if (move(getpid(), &byte, 0, 1, false) < 0 && errno != EFAULT) return Reach::no_system_call;
  return Reach::not_traceable;
}

bool PeerProcess::exited() const noexcept {
  pollfd descriptor{process_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&descriptor, 1, 0);
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

ripc_status PeerProcess::read(std::uint64_t address, std::span<std::byte> to) const noexcept {
  return transfer(address, to.data(), to.size(), false);
}

ripc_status PeerProcess::write(std::uint64_t address, std::span<const std::byte> from) const noexcept {
  return transfer(address, const_cast<std::byte*>(from.data()), from.size(), true);
}

ripc_status PeerProcess::transfer(std::uint64_t address, std::byte* local, std::size_t size,
                                  bool writing) const noexcept {
  if (reach_ != Reach::direct) return RIPC_UNSUPPORTED;
  const auto here = reinterpret_cast<std::uintptr_t>(local);
  const Detour detour(size >= kDetourStep && in_slow_distance(writing ? address : here, writing ? here : address),
                      address);
  std::size_t done = 0;
  while (done < size) {
    // The process ID cannot pass to another process before this check sees that the old one has exited.
    if (exited()) return RIPC_PEER_DEAD;
    const std::size_t left = std::min(size - done, kLargestStep);
    const ssize_t moved = detour.taken() ? detour.move(pid_, local + done, address + done, left, writing)
                                         : move(pid_, local + done, address + done, left, writing);
    if (moved > 0) {
      done += static_cast<std::size_t>(moved);
      continue;
    }
    if (moved == 0 || errno == EFAULT) return exited() ? RIPC_PEER_DEAD : RIPC_CANCELLED;
    if (errno == ESRCH) return RIPC_PEER_DEAD;
    return RIPC_UNSUPPORTED;
  }
  return exited() ? RIPC_PEER_DEAD : RIPC_OK;
}

ripc_status copy_own_memory(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  const iovec here{to, size};
  const iovec there{const_cast<std::byte*>(from), size};
  const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  if (copied < 0 && errno != EFAULT) return copy_by_pipe(to, from, size);
  return copied == static_cast<ssize_t>(size) ? RIPC_OK : RIPC_CANCELLED;
}

}  // namespace ripc::internal::shm
