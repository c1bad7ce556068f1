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

namespace detail {

// NULL if no file is named.
inline const char* file_or_default(const std::string& file) noexcept { return file.empty() ? nullptr : file.c_str(); }

// Runs `call` for this file, and returns the path that it writes into the buffer it is given.
template <typename Call>
Result<std::string> path_of(const std::string& file, const Call& call) {
  if (has_zero(file)) return zero_in_text();
  std::string path(std::size_t{4096}, '\0');
  const ripc_status status = call(path.data(), path.size());
  if (status != RIPC_OK) return Error::from_last_call(status);
  path.resize(path.find('\0'));
  return path;
}

}  // namespace detail

// Makes a cluster key in a new file, or with `replace` in an existing one: ripc_cluster_key_create(). An empty `file`
// is the default place of this user. Returns the path of the file.
inline Result<std::string> create_cluster_key(const std::string& file = {}, bool replace = false) {
  return detail::path_of(file, [&](char* path, std::size_t size) {
    return ripc_cluster_key_create(detail::file_or_default(file), replace ? 1 : 0, path, size);
  });
}

// The public key of an identity, and where its file is.
struct IdentityInfo {
  std::string file;
  std::string public_key;
};

// Makes an identity in a new file, or with `replace` in an existing one: ripc_identity_create(). An empty `file` is the
// default place of this user.
inline Result<IdentityInfo> create_identity(const std::string& file = {}, bool replace = false) {
  char key[RIPC_PUBLIC_KEY_SIZE];
  Result<std::string> path = detail::path_of(file, [&](char* written, std::size_t size) {
    return ripc_identity_create(detail::file_or_default(file), replace ? 1 : 0, written, size, key);
  });
  if (!path.ok()) return path.error();
  return IdentityInfo{*path, key};
}

// The identity in a file: ripc_identity_read(). An empty `file` is the one that contexts use.
inline Result<IdentityInfo> read_identity(const std::string& file = {}) {
  char key[RIPC_PUBLIC_KEY_SIZE];
  Result<std::string> path = detail::path_of(file, [&](char* written, std::size_t size) {
    return ripc_identity_read(detail::file_or_default(file), written, size, key);
  });
  if (!path.ok()) return path.error();
  return IdentityInfo{*path, key};
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
  if (detail::has_zero(file)) return detail::zero_in_text();
  detail::Collected<TrustMember> members;
  const ripc_status status = ripc_trust_read(
      detail::file_or_default(file),
      [](void* user, const ripc_trust_member* member) {
        static_cast<detail::Collected<TrustMember>*>(user)->add([&] {
          return TrustMember{member->line, member->name, member->public_key, member->rights};
        });
      },
      &members);
  return std::move(members).finish(status);
}

}  // namespace ripc
