// SPDX-License-Identifier: Apache-2.0
// Where the keys of a user lie, and how new files get there.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// $XDG_CONFIG_HOME/ripc/cluster.key, else .config/ripc/cluster.key below $HOME, or below the home that the user
// database names where $HOME is not set. Variables that hold no absolute path are ignored; a set-user-ID program
// ignores both. Empty: this user has no home.
std::string default_key_path();
// The same for another file beside it.
std::string default_path(std::string_view file);

// Makes the missing folders above the file, with mode 0700. `what`: "cluster key", for messages. RIPC_PERMISSION,
// RIPC_NO_MEMORY, RIPC_SYSTEM.
Status make_key_folders(const std::string& path, std::string_view what, std::string_view advice);
// Those of the default cluster key.
Status make_default_key_folders();

// Waits until no one else, of this process or another, changes the file that is to be read and written anew. The lock
// is a file beside it, which stays; others cannot open it, and so cannot hold anybody up. The errors of
// write_whole_file().
Result<UniqueFd> lock_for_change(const std::string& path, std::string_view what, std::string_view advice);

// Writes a file with this text and mode; a reader sees none of it or all. `what`: "cluster key file", for messages.
// RIPC_EMPTY: a file is there and `replace` is not set. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY,
// RIPC_SYSTEM.
Status write_whole_file(const std::string& path, std::string_view text, mode_t mode, bool replace,
                        std::string_view what, std::string_view advice);

// Writes a file with a new random key, mode 0600; a reader sees none of it or all. A file that is there is replaced if
// `replace` is set, else RIPC_INVALID_ARGUMENT. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
Status make_key_file(const std::string& path, bool replace);

}  // namespace ripc::internal
