// SPDX-License-Identifier: Apache-2.0
// Which runtime directory a process uses, and whether it may be trusted.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

struct RuntimePath {
  std::string path;         // absolute
  bool is_default = false;  // nobody named it: it must be safe by itself
};

// argument, else $RIPC_RUNTIME_DIR, else $XDG_RUNTIME_DIR/ripc, else /tmp/ripc-UID; see RuntimeDirectory::open(). A
// set-user-ID program ignores the environment.
Result<RuntimePath> choose_runtime_path(const char* argument);

// Opens the directory, and creates it with mode 0700 if it is missing. Does the checks that a default directory needs
// first.
Result<UniqueFd> open_runtime_path(const RuntimePath& chosen, std::uint32_t peer_policy, struct stat& info);

}  // namespace ripc::internal
