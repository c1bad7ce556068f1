// SPDX-License-Identifier: Apache-2.0
// The runtime directories that other programs of this user may use by default. A login shell has XDG_RUNTIME_DIR, but a
// service or cron job often does not, so the two do not find each other.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace ripc::internal {

struct OtherDirectory {
  std::string path;
  std::size_t contexts = 0;  // living there; not 0
};

// The directories in the usual places, except `own`, that belong to this user and have living contexts. Creates
// nothing.
std::vector<OtherDirectory> other_runtime_directories(const std::string& own);

// What an error message says about these directories if nothing is found in `own`. Any thread.
class OtherDirectoriesHint {
 public:
  explicit OtherDirectoriesHint(std::string own) : own_(std::move(own)) {}
  // A sentence for each, "" if there are none. Looks only once per kPeriod, because a caller that finds nothing keeps
  // asking.
  std::string text();
  static constexpr Nanoseconds kPeriod = 1'000'000'000;

 private:
  const std::string own_;
  std::mutex mutex_;
  std::string text_;
  Nanoseconds valid_until_ = 0;
};

}  // namespace ripc::internal
