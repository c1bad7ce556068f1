// SPDX-License-Identifier: Apache-2.0
#include "capi/network_access.hpp"

#include <utility>

#include "base/key_file.hpp"
#include "capi/credentials.hpp"
#include "capi/environment.hpp"

namespace ripc::internal::capi {

namespace {

Result<std::uint32_t> read_mode(std::uint32_t option) {
  if (option <= RIPC_NETWORK_OFF) return option;
  if (option != UINT32_MAX) return Status(RIPC_INVALID_ARGUMENT, "network is not one of ripc_network.");
  const std::string text = environment("RIPC_NETWORK");
  if (text.empty() || text == "key") return std::uint32_t{RIPC_NETWORK_KEY};
  if (text == "open") return std::uint32_t{RIPC_NETWORK_OPEN};
  if (text == "off") return std::uint32_t{RIPC_NETWORK_OFF};
  return Status(RIPC_INVALID_ARGUMENT, "RIPC_NETWORK is '" + text +
                                           "': write key (other hosts with the same cluster key), open (everybody who "
                                           "reaches this host) or off (this host only).");
}

}  // namespace

std::string NetworkAccess::reason() const {
  return mode == RIPC_NETWORK_OFF ? "because the network is off (RIPC_NETWORK)" : "because there is no cluster key";
}

std::string NetworkAccess::advice() const {
  if (mode == RIPC_NETWORK_OFF) return "Set RIPC_NETWORK=key to talk to other hosts.";
  if (key_file.empty()) return "Set RIPC_CLUSTER_KEY_FILE to a copy of the other hosts' key file.";
  return "Copy the other host's key file to " + key_file + ", or make the first one: ripc key new.";
}

Status NetworkAccess::refuse(const std::string& what) const {
  std::string text = what + " is not allowed, " + reason() + ". " + advice();
  if (mode == RIPC_NETWORK_KEY) text += " If you trust every user of the network, RIPC_NETWORK=open needs no key.";
  return Status(RIPC_PERMISSION, text);
}

Result<std::uint32_t> read_encrypt(const ripc_context_options& options, const NetworkAccess& access) {
  std::uint32_t encrypt = options.encrypt;
  const std::string text = environment("RIPC_ENCRYPT");
  if (encrypt == UINT32_MAX) {
    if (text.empty() || text == "auto") {
      encrypt = RIPC_ENCRYPT_AUTO;
    } else if (text == "off") {
      encrypt = RIPC_ENCRYPT_OFF;
    } else if (text == "required") {
      encrypt = RIPC_ENCRYPT_REQUIRED;
    } else {
      return Status(RIPC_INVALID_ARGUMENT, "RIPC_ENCRYPT is '" + text + "': write off, auto or required.");
    }
  }
  if (encrypt > RIPC_ENCRYPT_REQUIRED) return Status(RIPC_INVALID_ARGUMENT, "encrypt is not one of ripc_encrypt.");
  if (encrypt == RIPC_ENCRYPT_REQUIRED && access.mode == RIPC_NETWORK_OPEN)
    return Status(
        RIPC_INVALID_ARGUMENT,
        "RIPC_ENCRYPT is required, but RIPC_NETWORK=open has no key to encrypt with: make a cluster key (`ripc "
        "key new`), and unset RIPC_NETWORK.");
  return encrypt;
}

Result<NetworkAccess> read_network_access(const ripc_context_options& options) {
  NetworkAccess access;
  Result<std::uint32_t> mode = read_mode(options.network);
  if (!mode.ok()) return mode.status();
  access.mode = *mode;
  access.key_file =
      options.cluster_key_file != nullptr ? options.cluster_key_file : environment("RIPC_CLUSTER_KEY_FILE");
  if (options.cluster_key_file != nullptr && access.key_file.empty())
    return Status(RIPC_INVALID_ARGUMENT, "cluster_key_file is empty: name the key file, or pass NULL for the default.");
  const bool is_named = !access.key_file.empty();
  if (!is_named) access.key_file = default_key_path();
  if (access.mode == RIPC_NETWORK_OPEN && is_named)
    return Status(RIPC_INVALID_ARGUMENT, "RIPC_NETWORK is open, which admits everybody, but the cluster key file " +
                                             access.key_file + " is named too: unset one of the two.");
  access.is_closed = access.mode == RIPC_NETWORK_OFF;
  if (access.mode != RIPC_NETWORK_KEY) return access;
  access.is_closed = !is_named && !is_there(access.key_file);
  if (access.is_closed) return access;
  Result<std::shared_ptr<const ClusterKeys>> keys = ClusterKeys::load(access.key_file);
  if (!keys.ok()) return keys.status();
  access.keys = std::move(*keys);
  return access;
}

}  // namespace ripc::internal::capi
