// SPDX-License-Identifier: Apache-2.0
#include "base/key_file.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/cluster_key.hpp"
#include "base/random.hpp"

namespace ripc::internal {
namespace {

constexpr std::string_view kFolder = "/ripc/";
constexpr const char* kOtherKeyFile =
    "make the folder writable for this user, or name another file: ripc key new -o FILE";
constexpr mode_t kFolderMode = 0700;

std::string absolute_path(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value == '/' ? std::string(value) : std::string();
}

std::string home_in_database() {
  constexpr std::size_t kMost = 1 << 20;
  for (std::vector<char> buffer(4096); buffer.size() <= kMost; buffer.resize(buffer.size() * 2)) {
    passwd entry{};
    passwd* found = nullptr;
    const int error = ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE) continue;
    return found != nullptr && found->pw_dir != nullptr && *found->pw_dir == '/' ? found->pw_dir : std::string();
  }
  return {};
}

// A key in the text of a key file; overwritten on destruction.
struct NewKey {
  std::array<char, 2 * ClusterKeys::kKeySize + 1> text{};

  NewKey() noexcept {
    std::array<std::uint64_t, ClusterKeys::kKeySize / sizeof(std::uint64_t)> secret;
    for (std::uint64_t& word : secret) word = random_u64();
    sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(secret.data()), sizeof secret);
    sodium_memzero(secret.data(), sizeof secret);
    text.back() = '\n';
  }
  ~NewKey() { sodium_memzero(text.data(), text.size()); }
  NewKey(const NewKey&) = delete;
  NewKey& operator=(const NewKey&) = delete;
};

// Removes the file with this name on destruction.
class Draft {
 public:
  explicit Draft(const std::string& path) : name_(path + ".XXXXXX"), fd_(::mkostemp(name_.data(), O_CLOEXEC)) {}
  ~Draft() {
    if (fd_) ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const char* name() const noexcept { return name_.c_str(); }
  bool write(std::string_view text, mode_t mode) const noexcept {
    if (!fd_ || ::fchmod(fd_.get(), mode) != 0) return false;
    while (!text.empty()) {
      const ssize_t count = ::write(fd_.get(), text.data(), text.size());
      if (count < 0 && errno != EINTR) return false;
      text.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    return ::fsync(fd_.get()) == 0;
  }

 private:
  std::string name_;
  UniqueFd fd_;
};

Status writing_error(int error, std::string_view call, std::string_view advice) {
  if (error == ENOMEM) advice = {};
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return system_error(error, call, is_full ? "free some space there, or name a file elsewhere" : advice);
}

}  // namespace

std::string default_key_path() { return default_path("cluster.key"); }

std::string default_path(std::string_view file) {
  std::string folder = absolute_path("XDG_CONFIG_HOME");
  if (folder.empty()) {
    folder = absolute_path("HOME");
    if (folder.empty()) folder = home_in_database();
    if (folder.empty()) return {};
    folder += "/.config";
  }
  return folder.append(kFolder).append(file);
}

Status make_key_folders(const std::string& path, std::string_view what, std::string_view advice) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (::mkdir(folder.c_str(), kFolderMode) == 0 || errno == EEXIST) continue;
    const int error = errno;
    // Even without the right to create it, the folder may exist.
    if (::access(folder.c_str(), F_OK) != 0)
      return writing_error(error, "Making the folder " + folder + " for the " + std::string(what), advice);
  }
  return {};
}

Status write_whole_file(const std::string& path, std::string_view text, mode_t mode, bool replace,
                        std::string_view what, std::string_view advice) {
  const std::string call = "Writing the " + std::string(what) + " " + path;
  const Draft draft(path);
  if (!draft.write(text, mode)) return writing_error(errno, call, advice);
  if ((replace ? ::rename(draft.name(), path.c_str()) : ::link(draft.name(), path.c_str())) == 0) return {};
  if (errno != EEXIST) return writing_error(errno, call, advice);
  return RIPC_EMPTY;
}

Status make_default_key_folders() { return make_key_folders(default_key_path(), "cluster key", kOtherKeyFile); }

Result<UniqueFd> lock_for_change(const std::string& path, std::string_view what, std::string_view advice) {
  UniqueFd lock(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  bool is_held = static_cast<bool>(lock);
  while (is_held && ::flock(lock.get(), LOCK_EX) != 0) is_held = errno == EINTR;
  if (is_held) return lock;
  // For example root, if root once changed a user's file.
  const std::string remedy = "if it is another user's, remove it; else " + std::string(advice);
  return writing_error(errno, "Locking " + path + ".lock to change the " + std::string(what), remedy);
}

Status make_key_file(const std::string& path, bool replace) {
  const NewKey key;
  Status status = write_whole_file(path, {key.text.data(), key.text.size()}, S_IRUSR | S_IWUSR, replace,
                                   "cluster key file", kOtherKeyFile);
  if (status.code() != RIPC_EMPTY) return status;
  return Status(RIPC_INVALID_ARGUMENT,
                "The file " + path +
                    " is there already: copy it to the other hosts. A new key in its place (--force) locks out every "
                    "program that still has the old one.");
}

}  // namespace ripc::internal
