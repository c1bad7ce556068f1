// SPDX-License-Identifier: Apache-2.0
// Reading and writing another process's memory (process_vm_readv, process_vm_writev), without ever touching a process
// that merely reuses the peer's process ID.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.hpp"
#include "wire/shm_control.hpp"

namespace ripc::internal::shm {

// Opens a descriptor that names the process at the other end of a Unix socket, even if its process ID is reused. Empty
// if the process is not visible from here (another PID namespace) or gone.
UniqueFd open_peer_process(int socket, pid_t pid) noexcept;

// Whether one process may read and write another's memory, and if not, why. The numbers are those of docs/wire.md.
enum class Reach : std::uint8_t {
  direct,
  other_user,      // see ControlConnection
  not_visible,     // it lives in another PID namespace
  not_traceable,   // the kernel forbids it: it is not dumpable, or has rights of its own; Yama; a security module
  no_system_call,  // process_vm_readv(2) is missing or forbidden
};
static_assert(static_cast<std::uint32_t>(Reach::no_system_call) == wire::shm_control::kMaxReach);

class PeerProcess {
 public:
  // pid 0: the process is not visible from here. Without Reach::direct every access is refused.
  PeerProcess(UniqueFd process, pid_t pid) noexcept;
  // A process that is not to be accessed, whatever the kernel allows.
  explicit PeerProcess(Reach reach) noexcept : pid_(0), reach_(reach) {}

  Reach reach() const noexcept { return reach_; }
  // False also if the kernel has not named the process.
  bool is_running() const noexcept { return process_ && !exited(); }

  // RIPC_OK; RIPC_UNSUPPORTED (not visible, or the kernel forbids it: permanent for this peer); RIPC_PEER_DEAD;
  // RIPC_CANCELLED (the peer has no such memory any more). Any thread.
  ripc_status read(std::uint64_t address, std::span<std::byte> to) const noexcept;
  ripc_status write(std::uint64_t address, std::span<const std::byte> from) const noexcept;

 private:
  Reach probe() const noexcept;
  bool exited() const noexcept;
  ripc_status transfer(std::uint64_t address, std::byte* local, std::size_t size, bool writing) const noexcept;

  UniqueFd process_;
  pid_t pid_;
  Reach reach_;
};

// Copies memory of this process that the application may have unmapped meanwhile: RIPC_CANCELLED instead of a fault.
// RIPC_NO_DESCRIPTORS: none are left, and the kernel forbids the way that needs no descriptor.
ripc_status copy_own_memory(std::byte* to, const std::byte* from, std::size_t size) noexcept;

}  // namespace ripc::internal::shm
