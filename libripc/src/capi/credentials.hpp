// SPDX-License-Identifier: Apache-2.0
// How a context proves its identity and whom it trusts, according to its options and the environment.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "capi/network_access.hpp"
#include "ripc/ripc.h"
#include "security/credentials.hpp"

namespace ripc::internal::capi {

// How trust files are read. `keys`: the cluster keys whose signer must have signed them; nullptr: nobody must.
security::Trust::Reading trust_reading(const ClusterKeys* keys);

// The file that an option (nullptr: none) or variable names, else the default place: `file` next to the cluster key.
// `is_named`: it is not the default place. Empty: this user has no home.
std::string read_place(const char* variable, const char* option, std::string_view file, bool& is_named);

// Checks the file argument of a call: nullptr or a name. RIPC_INVALID_ARGUMENT.
Status check_file(const char* file);

// Whether the path exists, whatever it is.
bool is_there(const std::string& path);

// options.identity_file, else $RIPC_IDENTITY_FILE, else identity.key next to the default cluster key if there is such a
// file; options.trust_file, else $RIPC_TRUST_FILE, else `trust` there. Uses the keys of `access`. Where everyone is
// admitted, both are ignored, and naming one gives RIPC_INVALID_ARGUMENT. Errors of Identity::load() and Trust::load().
Result<security::Credentials> read_credentials(const ripc_context_options& options, const NetworkAccess& access);

}  // namespace ripc::internal::capi
