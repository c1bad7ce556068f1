// SPDX-License-Identifier: Apache-2.0
// The runtime directories that other programs of this user may use by default: a login shell has XDG_RUNTIME_DIR, a
// service or a cron job often has not, and the two do not meet.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ripc {

struct OtherDirectory {
  std::string path;
  std::size_t contexts = 0;  // that live there; not 0
};

// Those of the usual places, but for `own`, that belong to this user and have living contexts. Makes nothing.
std::vector<OtherDirectory> other_runtime_directories(const std::string& own);

}  // namespace ripc
