// SPDX-License-Identifier: Apache-2.0
#include "capi/credentials.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "base/key_file.hpp"
#include "capi/environment.hpp"
#include "core/service_id.hpp"

namespace ripc::internal::capi {

namespace {

Status check_option(const char* option, const char* name) {
  if (option == nullptr || *option != '\0') return {};
  return Status(RIPC_INVALID_ARGUMENT,
                std::string(name) + " is empty: name the file, or pass NULL for the default place.");
}

}  // namespace

Status check_file(const char* file) {
  if (file == nullptr || *file != '\0') return {};
  return Status(RIPC_INVALID_ARGUMENT, "The name of the file is empty: name one, or pass NULL for the default place.");
}

security::Trust::Reading trust_reading(const ClusterKeys* keys) {
  return {.service_id = core::id_of_name,
          .group_id = core::id_of_group,
          .signer = keys != nullptr ? keys->signer() : std::optional<security::PublicKey>()};
}

std::string read_place(const char* variable, const char* option, std::string_view file, bool& is_named) {
  std::string place = option != nullptr ? option : environment(variable);
  is_named = !place.empty();
  return is_named ? place : default_path(file);
}

// A home directory of another user, which this user cannot even look into, has no file of this user.
bool is_there(const std::string& path) {
  struct stat info {};
  if (path.empty()) return false;
  return ::lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != EACCES);
}

Result<security::Credentials> read_credentials(const ripc_context_options& options, const NetworkAccess& access) {
  if (Status status = check_option(options.identity_file, "identity_file"); !status.ok()) return status;
  if (Status status = check_option(options.trust_file, "trust_file"); !status.ok()) return status;
  security::Credentials credentials{.keys = access.keys, .identity = {}, .trust = {}};
  bool is_identity_named = false;
  bool is_trust_named = false;
  const std::string identity =
      read_place("RIPC_IDENTITY_FILE", options.identity_file, "identity.key", is_identity_named);
  const std::string trust = read_place("RIPC_TRUST_FILE", options.trust_file, "trust", is_trust_named);
  if (access.mode == RIPC_NETWORK_OPEN) {
    if (!is_identity_named && !is_trust_named) return credentials;
    return Status(RIPC_INVALID_ARGUMENT, "RIPC_NETWORK is open, which admits everybody, but " +
                                             (is_trust_named ? "the trust file " + trust : "the identity " + identity) +
                                             " is named too: unset one of the two.");
  }
  if (is_identity_named || is_there(identity)) {
    if (Status status = security::Identity::load(identity).move_to(credentials.identity); !status.ok()) return status;
  }
  if (is_trust_named || is_there(trust)) {
    if (Status status = security::TrustFile::open(trust, trust_reading(access.keys.get())).move_to(credentials.trust);
        !status.ok())
      return status;
  }
  return credentials;
}

}  // namespace ripc::internal::capi
