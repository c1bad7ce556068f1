// SPDX-License-Identifier: Apache-2.0
// Cluster keys, identities and trust files in C++: ripc/identity.h. The rules of ripc.hpp hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ripc/error.hpp"
#include "ripc/ripc.h"

namespace ripc {

// Makes a cluster key in a new file, or with `replace` in an existing one: ripc_cluster_key_create(). An empty `file`
// is the default place of this user. Returns the path of the file.
inline Result<std::string> create_cluster_key(const std::string& file = {}, bool replace = false) {
  std::string path(std::size_t{4096}, '\0');
  const ripc_status status =
      ripc_cluster_key_create(file.empty() ? nullptr : file.c_str(), replace ? 1 : 0, path.data(), path.size());
  if (status != RIPC_OK) return Error::from_last_call(status);
  path.resize(path.find('\0'));
  return path;
}

// The public key of an identity, and where its file is.
struct IdentityInfo {
  std::string file;
  std::string public_key;
};

// Makes an identity in a new file, or with `replace` in an existing one: ripc_identity_create(). An empty `file` is the
// default place of this user.
inline Result<IdentityInfo> create_identity(const std::string& file = {}, bool replace = false) {
  std::string path(std::size_t{4096}, '\0');
  char key[RIPC_PUBLIC_KEY_SIZE];
  const ripc_status status =
      ripc_identity_create(file.empty() ? nullptr : file.c_str(), replace ? 1 : 0, path.data(), path.size(), key);
  if (status != RIPC_OK) return Error::from_last_call(status);
  path.resize(path.find('\0'));
  return IdentityInfo{path, key};
}

// The identity in a file: ripc_identity_read(). An empty `file` is the one that contexts use.
inline Result<IdentityInfo> read_identity(const std::string& file = {}) {
  std::string path(std::size_t{4096}, '\0');
  char key[RIPC_PUBLIC_KEY_SIZE];
  const ripc_status status = ripc_identity_read(file.empty() ? nullptr : file.c_str(), path.data(), path.size(), key);
  if (status != RIPC_OK) return Error::from_last_call(status);
  path.resize(path.find('\0'));
  return IdentityInfo{path, key};
}

// A line of the trust file.
struct TrustMember {
  std::uint32_t line = 0;
  std::string name;
  std::string public_key;
  std::string rights;
};

// Checks a trust file, and returns its members: ripc_trust_read(). An empty `file` is the one that contexts use.
inline Result<std::vector<TrustMember>> read_trust(const std::string& file = {}) {
  std::vector<TrustMember> members;
  const ripc_status status = ripc_trust_read(
      file.empty() ? nullptr : file.c_str(),
      [](void* user, const ripc_trust_member* member) {
        static_cast<std::vector<TrustMember>*>(user)->push_back(
            {member->line, member->name, member->public_key, member->rights});
      },
      &members);
  if (status != RIPC_OK) return Error::from_last_call(status);
  return members;
}

}  // namespace ripc
