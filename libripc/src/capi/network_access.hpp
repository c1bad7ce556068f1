// SPDX-License-Identifier: Apache-2.0
// Whether a context may talk to other hosts, and with which key: the one place that decides it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/cluster_key.hpp"
#include "base/status.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::capi {

struct NetworkAccess {
  std::uint32_t mode = RIPC_NETWORK_KEY;    // ripc_network
  std::shared_ptr<const ClusterKeys> keys;  // nullptr: none
  std::string key_file;                     // where they come from, or would be searched for; empty: nowhere
  bool is_closed = false;                   // nothing may leave this host

  // If it is closed: why, as the end of a sentence, and what to do, as a separate sentence.
  std::string reason() const;
  std::string advice() const;
  // RIPC_PERMISSION, for what was asked for by name. `what`: the first words of the sentence.
  Status refuse(const std::string& what) const;
};

inline bool leaves_the_host(std::string_view transport) noexcept { return transport != "shm"; }

// options.encrypt, else $RIPC_ENCRYPT, else RIPC_ENCRYPT_AUTO. RIPC_INVALID_ARGUMENT: it is none of these values, or
// encryption is required where nobody has a key.
Result<std::uint32_t> read_encrypt(const ripc_context_options& options, const NetworkAccess& access);

// options.network, else $RIPC_NETWORK, else RIPC_NETWORK_KEY; options.cluster_key_file, else $RIPC_CLUSTER_KEY_FILE,
// else the default place (base/key_file.hpp) if there is such a file. RIPC_INVALID_ARGUMENT names what is wrong; a key
// file that cannot be used is an error of ClusterKeys::load(), never "no key".
Result<NetworkAccess> read_network_access(const ripc_context_options& options);

}  // namespace ripc::internal::capi
