// SPDX-License-Identifier: Apache-2.0
// The cluster key of the tests. Without a key, nothing leaves the host.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace support {

// Gives this process, and those that it starts, the key that the build has made for its tests. It does not replace
// existing settings: RIPC_NETWORK=open runs a test program without a key.
inline void use_cluster_key() {
  const char* const network = getenv("RIPC_NETWORK");
  if (network == nullptr || network == std::string_view("key"))
    (void)setenv("RIPC_CLUSTER_KEY_FILE", RIPC_TEST_PROGRAM_DIR "/cluster.key", 0);
}

// Does the same for a root process that is about to become `user`: the key lies in memory that belongs to that user.
// Returns whether it worked.
inline bool give_cluster_key(uid_t user) {
  const char* const name = getenv("RIPC_CLUSTER_KEY_FILE");
  if (name == nullptr) return true;
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  const int fd = memfd_create("cluster.key", 0);
  return fd >= 0 && write(fd, text.str().data(), text.str().size()) == static_cast<ssize_t>(text.str().size()) &&
         fchmod(fd, 0600) == 0 && fchown(fd, user, static_cast<gid_t>(-1)) == 0 &&
         setenv("RIPC_CLUSTER_KEY_FILE", ("/proc/self/fd/" + std::to_string(fd)).c_str(), 1) == 0;
}

}  // namespace support
