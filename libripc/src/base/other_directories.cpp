// SPDX-License-Identifier: Apache-2.0
#include "base/other_directories.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/runtime_directory.hpp"
#include "ripc/ripc.h"

namespace ripc::internal {

std::vector<OtherDirectory> other_runtime_directories(const std::string& own) {
  const std::string user = std::to_string(::geteuid());
  std::vector<std::string> paths{"/run/user/" + user + "/ripc", "/tmp/ripc-" + user};
  if (const char* xdg = ::secure_getenv("XDG_RUNTIME_DIR"); xdg != nullptr && xdg[0] == '/')
    paths.insert(paths.begin(), std::string(xdg) + "/ripc");

  std::vector<std::pair<dev_t, ino_t>> seen;
  struct stat info {};
  if (::stat(own.c_str(), &info) == 0) seen.emplace_back(info.st_dev, info.st_ino);
  std::vector<OtherDirectory> others;
  for (std::string& path : paths) {
    if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) continue;
    const std::pair place(info.st_dev, info.st_ino);
    if (std::find(seen.begin(), seen.end(), place) != seen.end()) continue;
    seen.push_back(place);
    // Opening a runtime directory would create what is missing in it.
    if (::lstat((path + "/contexts").c_str(), &info) != 0 || ::lstat((path + "/services").c_str(), &info) != 0)
      continue;
    const auto directory = RuntimeDirectory::open(path.c_str(), RIPC_PEERS_SAME_USER);
    if (!directory.ok()) continue;
    if (const std::size_t contexts = (*directory)->living_contexts(); contexts != 0)
      others.push_back({std::move(path), contexts});
  }
  return others;
}

std::string OtherDirectoriesHint::text() {
  const std::lock_guard lock(mutex_);
  if (monotonic_now() < valid_until_) return text_;
  std::string text;
  for (const OtherDirectory& other : other_runtime_directories(own_))
    text += (text.empty() ? "" : " ") + ("Programs of this user also meet in " + other.path) + ", and not in " + own_ +
            ": set RIPC_RUNTIME_DIR to the same directory for all.";
  text_ = std::move(text);
  valid_until_ = monotonic_now() + kPeriod;
  return text_;
}

}  // namespace ripc::internal
