// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/process_memory.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace ripc::shm {

namespace {
// The kernel moves at most about 2 GiB in one call.
constexpr std::size_t kLargestStep = std::size_t{1} << 30;
}  // namespace

UniqueFd open_peer_process(int socket, pid_t pid) noexcept {
  if (pid <= 0) return UniqueFd();
  int process = -1;
  socklen_t size = sizeof process;
  // Exact since Linux 6.5; before that the number is all there is, and the peer is known to be alive at this moment.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process, &size) == 0) return UniqueFd(process);
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool PeerProcess::exited() const noexcept {
  pollfd descriptor{process_.get(), POLLIN, 0};
  return poll(&descriptor, 1, 0) != 0;
}

ripc_status PeerProcess::read(std::uint64_t address, std::span<std::byte> to) const noexcept {
  return transfer(address, to.data(), to.size(), false);
}

ripc_status PeerProcess::write(std::uint64_t address, std::span<const std::byte> from) const noexcept {
  return transfer(address, const_cast<std::byte*>(from.data()), from.size(), true);
}

ripc_status PeerProcess::transfer(std::uint64_t address, std::byte* local, std::size_t size,
                                  bool writing) const noexcept {
  if (!process_ || pid_ <= 0) return RIPC_UNSUPPORTED;
  std::size_t done = 0;
  while (done < size) {
    // The number cannot pass to another process before the old one is seen as exited here.
    if (exited()) return RIPC_PEER_DEAD;
    const std::size_t step = std::min(size - done, kLargestStep);
    const iovec here{local + done, step};
    const iovec there{reinterpret_cast<void*>(address + done), step};  // NOLINT: an address of the peer
    const ssize_t moved =
        writing ? process_vm_writev(pid_, &here, 1, &there, 1, 0) : process_vm_readv(pid_, &here, 1, &there, 1, 0);
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

bool copy_own_memory(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  const iovec here{to, size};
  const iovec there{const_cast<std::byte*>(from), size};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
}

}  // namespace ripc::shm
