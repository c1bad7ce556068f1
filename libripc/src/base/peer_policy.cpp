// SPDX-License-Identifier: Apache-2.0
#include "base/peer_policy.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "base/directory_reader.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

namespace {

// NOLINTBEGIN(cert-err34-c): the kernel writes these numbers, and they fit
// Checks the effective number in a line of /proc/PID/status such as "Uid:\t1000\t1000\t1000\t1000".
bool has_effective(const char* status, const char* label, unsigned wanted) noexcept {
  const char* const line = std::strstr(status, label);
  unsigned real = 0;
  unsigned effective = 0;
  return line != nullptr && std::sscanf(line + std::strlen(label), "%u%u", &real, &effective) == 2 &&
         effective == wanted;
}
// NOLINTEND(cert-err34-c)

bool runs_with_group(uid_t user, gid_t group) noexcept {
  const UniqueFd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!proc) return false;
  DirectoryReader names(proc.get());
  while (const char* const name = names.next()) {
    if (*name < '1' || *name > '9') continue;
    const UniqueFd process(::openat(proc.get(), name, O_PATH | O_DIRECTORY | O_CLOEXEC));
    const UniqueFd file(::openat(process.get(), "status", O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> status;  // the numbers are among the first lines
    const ssize_t size = file ? ::read(file.get(), status.data(), status.size() - 1) : -1;
    if (size <= 0) continue;
    status[static_cast<std::size_t>(size)] = '\0';
    if (has_effective(status.data(), "\nUid:", user) && has_effective(status.data(), "\nGid:", group)) return true;
  }
  return false;
}

}  // namespace

bool PeerPolicy::admits(uid_t user, gid_t group) const noexcept {
  if (user == ::geteuid() || user == 0 || admits_all()) return true;
  return policy_ == RIPC_PEERS_SAME_GROUP && group == ::getegid();
}

bool PeerPolicy::admits(uid_t user) const noexcept {
  if (user == ::geteuid() || user == 0 || admits_all()) return true;
  return policy_ == RIPC_PEERS_SAME_GROUP && runs_with_group(user, ::getegid());
}

}  // namespace ripc::internal
