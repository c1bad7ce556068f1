// SPDX-License-Identifier: Apache-2.0
// What a context proves itself with and whom it believes, by its options and the environment.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "capi/network_access.hpp"
#include "ripc/ripc.h"
#include "security/credentials.hpp"

namespace ripc::internal::capi {

// How the texts of trust files are read. `keys`: whose signer must have signed them; nullptr: no one.
security::Trust::Reading trust_reading(const ClusterKeys* keys);

// The file that an option (nullptr: none) or variable names, else the default place `file` beside the cluster key.
// `is_named`: it is not the default place. Empty: this user has no home.
std::string read_place(const char* variable, const char* option, std::string_view file, bool& is_named);

// A file that a call is given: nullptr, or a name. RIPC_INVALID_ARGUMENT.
Status check_file(const char* file);

// Whether there is something, be it what it may.
bool is_there(const std::string& path);

// options.identity_file, else $RIPC_IDENTITY_FILE, else identity.key beside the default cluster key if there is such a
// file; options.trust_file, else $RIPC_TRUST_FILE, else `trust` there. With the keys of `access`. Where everyone is
// admitted, both are ignored; to name one is RIPC_INVALID_ARGUMENT then. Errors of Identity::load() and Trust::load().
Result<security::Credentials> read_credentials(const ripc_context_options& options, const NetworkAccess& access);

}  // namespace ripc::internal::capi
