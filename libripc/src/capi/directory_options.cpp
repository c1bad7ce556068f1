// SPDX-License-Identifier: Apache-2.0
#include "capi/directory_options.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "capi/environment.hpp"

namespace ripc::internal::capi {

namespace {

// In order of cost: the later ones are more expensive to ask.
constexpr std::array<std::string_view, 4> kAllResolvers{"static", "local", "zookeeper", "multicast"};

Status wrong_resolvers(std::string_view what) {
  return Status(RIPC_INVALID_ARGUMENT, "RIPC_RESOLVERS: " + std::string(what) +
                                           ": list some of static, local, zookeeper, multicast, separated by commas.");
}

}  // namespace

Result<std::optional<resolver::ZooKeeperOptions>> read_zookeeper_options(const ripc_context_options& options,
                                                                         const NetworkAccess& access) {
  std::optional<resolver::ZooKeeperOptions> chosen;
  if (options.zookeeper != nullptr && *options.zookeeper == '\0')
    return Status(RIPC_INVALID_ARGUMENT, "zookeeper is empty: name the servers, or pass NULL for the default.");
  const std::string text = options.zookeeper != nullptr ? options.zookeeper : environment("RIPC_ZOOKEEPER");
  std::uint64_t session = 10'000;
  if (Status status = read_number("RIPC_ZOOKEEPER_SESSION_MS", 1'000, 600'000, session); !status.ok()) return status;
  if (text.empty() || text == "off") return chosen;
  Result<resolver::ZooKeeperOptions> parsed = resolver::parse_zookeeper_options(text);
  if (!parsed.ok()) return parsed.status();
  if (access.is_closed && access.mode == RIPC_NETWORK_OFF) return chosen;
  if (access.is_closed) return access.refuse("RIPC_ZOOKEEPER asks other hosts, which");
  parsed->session_timeout = session * 1'000'000;
  chosen = std::move(*parsed);
  return chosen;
}

Result<std::vector<std::string>> read_resolvers() {
  const std::string text = environment("RIPC_RESOLVERS");
  if (text.empty()) return std::vector<std::string>(kAllResolvers.begin(), kAllResolvers.end());
  std::vector<std::string> names;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    std::string name = text.substr(start, end - start);
    start = end + 1;
    if (std::ranges::find(kAllResolvers, name) == kAllResolvers.end())
      return wrong_resolvers("'" + name + "' is not a resolver");
    if (std::ranges::find(names, name) != names.end()) return wrong_resolvers("'" + name + "' is there twice");
    names.push_back(std::move(name));
  }
  if (std::ranges::find(names, "local") == names.end())
    return wrong_resolvers("'local' is missing, by which the services of one host find each other");
  // Only silence tells it that nobody has the ID, so resolvers after it would have no time left.
  const auto multicast = std::ranges::find(names, "multicast");
  if (multicast != names.end() && multicast + 1 != names.end())
    return wrong_resolvers("'multicast' must be the last, because it waits until the time is over");
  return names;
}

}  // namespace ripc::internal::capi
