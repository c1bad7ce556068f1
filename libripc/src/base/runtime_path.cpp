// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_path.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>

namespace ripc::internal {
namespace {

constexpr mode_t kNewDirectoryMode = 0700;
constexpr const char* kOtherDirectory = "or set RIPC_RUNTIME_DIR to a directory of yours";

const char* environment(const char* name) noexcept {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// The XDG rules say to ignore a path that is not absolute. A path of another user (left over from su or sudo) would mix
// the files of two users.
bool usable_as_xdg(const char* path) noexcept {
  struct stat info {};
  return path != nullptr && path[0] == '/' && ::stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid();
}

Result<std::string> absolute(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.front() == '/') return path;
  std::array<char, PATH_MAX> current;
  if (::getcwd(current.data(), current.size()) == nullptr)
    return system_error(errno, "Asking for the current directory", "name the runtime directory by an absolute path");
  return std::string(current.data()) + "/" + path;
}

Status check_default(const std::string& path, const struct stat& info, std::uint32_t peer_policy) {
  if (info.st_uid != ::geteuid())
    return Status(RIPC_PERMISSION, path + " belongs to user " + std::to_string(info.st_uid) + ", not to this user (" +
                                       std::to_string(::geteuid()) + "): somebody else made it. Have it removed, " +
                                       kOtherDirectory + ".");
  const bool others_may = (info.st_mode & S_IWOTH) != 0 && peer_policy != RIPC_PEERS_ANY;
  const bool group_may = (info.st_mode & S_IWGRP) != 0 && peer_policy == RIPC_PEERS_SAME_USER;
  if (others_may || group_may)
    return Status(RIPC_PERMISSION, path +
                                       " may be written to by users that this context does not talk to. Run `chmod " +
                                       (group_may ? "go-w " : "o-w ") + path + "`, " + kOtherDirectory + ".");
  return {};
}

Status open_error(int error, const RuntimePath& chosen) {
  struct stat link {};
  if (chosen.is_default && ::lstat(chosen.path.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
    return Status(
        RIPC_PERMISSION,
        chosen.path + " is a symbolic link: somebody else may have put it there. Remove it, " + kOtherDirectory + ".");
  const std::string call = "Opening the runtime directory " + chosen.path;
  if (error == ENOTDIR) {
    const std::string text = call + " failed: it is not a directory. Remove what is there, " + kOtherDirectory + ".";
    return Status(chosen.is_default ? RIPC_PERMISSION : RIPC_INVALID_ARGUMENT, text);
  }
  if (error == ENOENT) return system_error(error, call, "create its parent directory first, or name another one");
  if (error == EACCES || error == EPERM)
    return system_error(error, call, "have its owner admit this user, or set RIPC_RUNTIME_DIR to a directory of yours");
  return system_error(error, call);
}

}  // namespace

Result<RuntimePath> choose_runtime_path(const char* argument) {
  const char* named = argument != nullptr && *argument != '\0' ? argument : environment("RIPC_RUNTIME_DIR");
  RuntimePath chosen;
  if (named != nullptr) {
    Result<std::string> path = absolute(named);
    if (!path.ok()) return path.status();
    chosen.path = std::move(*path);
    return chosen;
  }
  chosen.is_default = true;
  const char* xdg = environment("XDG_RUNTIME_DIR");
  chosen.path =
      usable_as_xdg(xdg) ? std::string(xdg) + "/ripc" : std::string("/tmp/ripc-") + std::to_string(::geteuid());
  return chosen;
}

Result<UniqueFd> open_runtime_path(const RuntimePath& chosen, std::uint32_t peer_policy, struct stat& info) {
  if (::mkdir(chosen.path.c_str(), kNewDirectoryMode) != 0) {
    const int error = errno;
    // Even without the right to create it, the directory may exist.
    if (error != EEXIST && ::access(chosen.path.c_str(), F_OK) != 0) {
      if (error == ENOSPC || error == EDQUOT)
        return Status(RIPC_NO_MEMORY, "Creating the runtime directory " + chosen.path +
                                          " failed: the disk or its quota is full. Free some space, " +
                                          kOtherDirectory + ".");
      return open_error(error, chosen);
    }
  }
  const int flags = O_DIRECTORY | O_CLOEXEC | (chosen.is_default ? O_NOFOLLOW : 0);
  UniqueFd fd(::open(chosen.path.c_str(), O_RDONLY | flags));
  // Users may be able to write to a directory that they cannot list.
  if (!fd && errno == EACCES) fd.reset(::open(chosen.path.c_str(), O_PATH | flags));
  if (!fd) return open_error(errno, chosen);
  if (::fstat(fd.get(), &info) != 0) return open_error(errno, chosen);
  if (chosen.is_default) {
    if (Status status = check_default(chosen.path, info, peer_policy); !status.ok()) return status;
  }
  return fd;
}

}  // namespace ripc::internal
