// SPDX-License-Identifier: Apache-2.0
#include "capi/multicast_options.hpp"

#include <algorithm>
#include <utility>

#include "capi/environment.hpp"

namespace ripc::internal::capi {

Result<std::optional<resolver::MulticastOptions>> read_multicast_options(const std::vector<std::string>& transports,
                                                                         const NetworkAccess& access,
                                                                         const spi::NameHash& hash_name) {
  std::optional<resolver::MulticastOptions> chosen;
  const std::string text = environment("RIPC_MULTICAST");
  if (text.empty() && std::none_of(transports.begin(), transports.end(), leaves_the_host)) return chosen;
  if (text == "off" || (access.is_closed && (text.empty() || access.mode == RIPC_NETWORK_OFF))) return chosen;
  Result<resolver::MulticastOptions> options = resolver::parse_multicast_options(text);
  if (!options.ok()) return options.status();
  if (!options->udp && std::find(transports.begin(), transports.end(), "verbs") == transports.end())
    return Status(
        RIPC_INVALID_ARGUMENT,
        "RIPC_MULTICAST: 'fabric' alone needs the transport verbs: add it to RIPC_TRANSPORTS, or 'udp' here.");
  if (access.is_closed) return access.refuse("RIPC_MULTICAST asks other hosts, which");
  options->hash_name = hash_name;
  chosen = std::move(*options);
  return chosen;
}

}  // namespace ripc::internal::capi
