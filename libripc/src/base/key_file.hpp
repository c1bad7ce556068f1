// SPDX-License-Identifier: Apache-2.0
// Where a user's keys are, and how new key files are written.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// $XDG_CONFIG_HOME/ripc/cluster.key, else .config/ripc/cluster.key below $HOME. If $HOME is not set, the user database
// gives the home directory. Variables that hold no absolute path are ignored; a set-user-ID program ignores both.
// Empty: this user has no home.
std::string default_key_path();
// The same for another file in the same folder.
std::string default_path(std::string_view file);

// Creates the missing folders above the file, with mode 0700. `what`: "cluster key", for messages. RIPC_PERMISSION,
// RIPC_NO_MEMORY, RIPC_SYSTEM.
Status make_key_folders(const std::string& path, std::string_view what, std::string_view advice);
// Does this for the default cluster key.
Status make_default_key_folders();

// Locks a file that is to be read and rewritten: waits until nobody else, in this process or another, is changing it.
// The lock is a file next to it, which stays. Other users cannot open the lock file, so they cannot block anyone. The
// errors of write_whole_file().
Result<UniqueFd> lock_for_change(const std::string& path, std::string_view what, std::string_view advice);

// Writes a file with this text and mode; a reader sees all of it or nothing. `what`: "cluster key file", for messages.
// RIPC_EMPTY: the file exists and `replace` is not set. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY,
// RIPC_SYSTEM.
Status write_whole_file(const std::string& path, std::string_view text, mode_t mode, bool replace,
                        std::string_view what, std::string_view advice);

// Writes a file with a new random key, mode 0600; a reader sees all of it or nothing. An existing file is replaced if
// `replace` is set, else RIPC_INVALID_ARGUMENT. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
Status make_key_file(const std::string& path, bool replace);

}  // namespace ripc::internal
