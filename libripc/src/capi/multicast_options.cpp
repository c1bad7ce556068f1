// SPDX-License-Identifier: Apache-2.0
#include "capi/multicast_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace ripc::capi {

namespace {

// A value that is empty counts as none.
const char* environment(const char* name) noexcept {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool leaves_the_host(const std::string& transport) { return transport != "shm"; }

}  // namespace

Result<std::shared_ptr<const ClusterKeys>> read_cluster_keys() {
  const char* file = environment("RIPC_CLUSTER_KEY_FILE");
  if (file == nullptr) return std::shared_ptr<const ClusterKeys>();
  return ClusterKeys::load(file);
}

Result<std::optional<resolver::MulticastOptions>> read_multicast_options(const std::vector<std::string>& transports,
                                                                         const spi::NameHash& hash_name) {
  std::optional<resolver::MulticastOptions> chosen;
  const char* text = environment("RIPC_MULTICAST");
  if (text == nullptr && std::none_of(transports.begin(), transports.end(), leaves_the_host)) return chosen;
  if (text != nullptr && std::string_view(text) == "off") return chosen;
  Result<resolver::MulticastOptions> options = resolver::parse_multicast_options(text == nullptr ? "" : text);
  if (!options.ok()) return options.status();
  Result<std::shared_ptr<const ClusterKeys>> keys = read_cluster_keys();
  if (!keys.ok()) return keys.status();
  options->keys = std::move(*keys);
  options->hash_name = hash_name;
  chosen = std::move(*options);
  return chosen;
}

}  // namespace ripc::capi
