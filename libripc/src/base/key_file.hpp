// SPDX-License-Identifier: Apache-2.0
// Where the cluster key of a user lies, and how a new one gets there. ClusterKeys (cluster_key.hpp) reads it.
#pragma once

#include <string>

#include "base/status.hpp"

namespace ripc::internal {

// $XDG_CONFIG_HOME/ripc/cluster.key, else .config/ripc/cluster.key below $HOME, or below the home that the user
// database names where $HOME is not set. Variables that hold no absolute path are ignored; a set-user-ID program
// ignores both. Empty: this user has no home.
std::string default_key_path();

// Makes the missing folders above the file, with mode 0700.
Status make_key_folders(const std::string& path);

// Writes a file with a new random key, mode 0600; a reader sees none of it or all. A file that is there is replaced if
// `replace` is set, else RIPC_INVALID_ARGUMENT. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
Status make_key_file(const std::string& path, bool replace);

}  // namespace ripc::internal
