// SPDX-License-Identifier: Apache-2.0
// The runtime directory: where the contexts of one host meet. It holds
//
//   contexts/<16 hex digits>   the Unix socket of a context, named by its id; it listens while the context lives
//   services/<16 hex digits>   the record of a service, named by its ID; the local resolver writes it
//   .new-...                   in each of the three directories: a file that is just being made
//
// Whether a context is alive is not written down; the kernel is asked whether the context's socket exists and is bound.
// The answer is right even after kill -9, across PID and mount namespaces, and when process numbers are reused. A
// context id is random and used for one context only.
//
// Unix sockets are bound and connected through /proc/thread-self/fd/N/NAME, so that the 108 bytes of a socket address
// do not limit the directory's path. Where /proc is not mounted the directory's path must be short.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

enum class Liveness {
  alive,
  dead,
  unknown,  // this process may not ask: assume that it is alive
};

// Thread-safe; shared by the shm transport and the local resolver of a context.
class RuntimeDirectory {
 public:
  // path: NULL or "": $RIPC_RUNTIME_DIR, else $XDG_RUNTIME_DIR/ripc (if $XDG_RUNTIME_DIR is an absolute path of a
  // directory that belongs to this user), else /tmp/ripc-UID. A directory that is missing is created with mode 0700;
  // its parent must exist. A default directory must belong to this user and be no link. Only users that `peer_policy`
  // (ripc_peer_policy) admits may have the right to write to it. Else: RIPC_PERMISSION. A directory that the caller or
  // environment names is used as it is; contexts and services in it get its permission bits when they are made.
  // RIPC_PERMISSION, RIPC_INVALID_ARGUMENT, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY (disk full), RIPC_SYSTEM.
  static Result<std::shared_ptr<RuntimeDirectory>> open(const char* path, std::uint32_t peer_policy);
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;

  const std::string& path() const noexcept { return path_; }  // absolute
  std::uint32_t peer_policy() const noexcept { return peer_policy_; }
  // Permission bits of the sockets and records made here: 0600, 0660 or 0666, depending on the policy.
  mode_t file_mode() const noexcept;
  // The directory of the records, for the ...at() calls. Borrowed.
  int services_fd() const noexcept { return services_fd_.get(); }

  // Makes the socket of a context: SOCK_SEQPACKET, non-blocking, and listening before its name is visible. With
  // `guard`, the socket is registered there before any fork can happen. Without it, a fork between this call and the
  // caller's own ForkGuard may leave the socket in a child. The same applies to connect().
  // RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY (disk full), RIPC_PERMISSION, RIPC_LIMIT (path too long), RIPC_SYSTEM.
  Result<UniqueFd> listen(std::uint64_t context, ForkGuard* guard = nullptr);

  // Connects to a context; the socket is non-blocking. RIPC_PEER_DEAD (nobody is there), RIPC_AGAIN (too many
  // connections wait to be accepted: try again), RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_CORRUPT (not a context's
  // socket), RIPC_LIMIT, RIPC_SYSTEM.
  Result<UniqueFd> connect(std::uint64_t context, ForkGuard* guard = nullptr);

  // Asks whether a context is alive. The context does not notice, and no descriptor is needed.
  Liveness probe(std::uint64_t context) const noexcept;

  // The user who owns a context's socket, if that user and this one do not both admit each other. Then no path leads
  // there.
  std::optional<uid_t> stranger_at(std::uint64_t context) const noexcept;

  // How many contexts are alive, as probe() tells.
  std::size_t living_contexts() const noexcept;

  // Removes the socket's name. Only for one's own context.
  void remove_context(std::uint64_t context) noexcept;

  // Removes what dead contexts left: sockets and half-made files and directories; returns how many. The records of
  // their services are removed by LocalResolver::sweep(). Never touches what belongs to a living context, or to an
  // unknown one.
  std::size_t sweep() noexcept;

  // The names of files that are just being made. Each call returns a different name.
  static constexpr std::string_view kTemporaryPrefix = ".new-";
  using TemporaryName = std::array<char, 32>;
  static TemporaryName temporary_name() noexcept;

  // The status for a file that could not be made in this open directory.
  static Status creation_error(int error, const std::string& what, int directory);

  // File names: 16 lower-case hexadecimal digits.
  using FileName = std::array<char, 17>;
  static FileName file_name(std::uint64_t number) noexcept;
  static std::optional<std::uint64_t> number_of(std::string_view file_name) noexcept;

 private:
  RuntimeDirectory() = default;
  Status open_all(mode_t mode, gid_t group);
  Result<UniqueFd> open_subdirectory(const char* name, mode_t mode, gid_t group);
  Status create_subdirectory(const char* name, mode_t mode, gid_t group);
  Status bind_and_listen(int fd, std::uint64_t context, const char* temporary);
  Liveness probe_name(const char* name) const noexcept;
  std::size_t sweep_contexts() noexcept;
  std::size_t sweep_base() noexcept;

  std::string path_;
  std::uint32_t peer_policy_ = 0;
  bool through_proc_ = true;
  UniqueFd base_fd_;
  UniqueFd contexts_fd_;
  UniqueFd services_fd_;
  UniqueFd probe_socket_;  // never connected
};

}  // namespace ripc::internal
