// SPDX-License-Identifier: Apache-2.0
// Reading and writing another process's memory (process_vm_readv, process_vm_writev), without ever touching a process
// that merely inherited the peer's number.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::shm {

// Opens a descriptor that names the process at the other end of a Unix socket, whatever happens to its number. Empty if
// the process is not visible from here (another PID namespace) or gone.
UniqueFd open_peer_process(int socket, pid_t pid) noexcept;

class PeerProcess {
 public:
  // pid 0: the process is not visible from here; every access is then refused.
  PeerProcess(UniqueFd process, pid_t pid) noexcept : process_(std::move(process)), pid_(pid) {}

  // RIPC_OK; RIPC_UNSUPPORTED (not visible, or the kernel forbids it: permanent for this peer); RIPC_PEER_DEAD;
  // RIPC_CANCELLED (the peer has no such memory any more). Any thread.
  ripc_status read(std::uint64_t address, std::span<std::byte> to) const noexcept;
  ripc_status write(std::uint64_t address, std::span<const std::byte> from) const noexcept;

 private:
  bool exited() const noexcept;
  ripc_status transfer(std::uint64_t address, std::byte* local, std::size_t size, bool writing) const noexcept;

  UniqueFd process_;
  pid_t pid_;
};

// Copies memory of this process that the application may have unmapped meanwhile: RIPC_CANCELLED instead of a fault.
// RIPC_NO_DESCRIPTORS, where the kernel forbids the way that needs none.
ripc_status copy_own_memory(std::byte* to, const std::byte* from, std::size_t size) noexcept;

}  // namespace ripc::shm
