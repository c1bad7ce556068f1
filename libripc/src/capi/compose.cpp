// SPDX-License-Identifier: Apache-2.0
#include "capi/compose.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/other_directories.hpp"
#include "base/random.hpp"
#include "base/runtime_directory.hpp"
#include "capi/credentials.hpp"
#include "capi/directory_options.hpp"
#include "capi/environment.hpp"
#include "capi/multicast_options.hpp"
#include "capi/transport_options.hpp"
#include "core/service_id.hpp"
#include "resolver/chain/chain_resolver.hpp"
#include "resolver/local/directory_lookup.hpp"
#include "resolver/local/local_resolver.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#include "resolver/static/static_resolver.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"
#include "transport/shm/shm_transport.hpp"
#ifdef RIPC_WITH_VERBS
#include "capi/fabric_multicast.hpp"
#endif

namespace ripc::internal::capi {

namespace {

// All transports that exist; this build may have fewer.
constexpr std::array<std::string_view, 3> kKnownTransports{"shm", "socket", "verbs"};
#ifdef RIPC_WITH_VERBS
constexpr std::array<std::string_view, 3> kBuiltTransports{"shm", "verbs", "socket"};
constexpr std::string_view kBuilt = "shm, socket and verbs";
#else
constexpr std::array<std::string_view, 2> kBuiltTransports{"shm", "socket"};
constexpr std::string_view kBuilt = "shm and socket";
#endif

template <std::size_t Count>
bool contains(const std::array<std::string_view, Count>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

// Every setting that the library reads. If one is set to an empty value, for example by a script whose own variable is
// empty, its intent is unknown; the default might admit more than was meant.
constexpr std::array kSettings{"RIPC_RUNTIME_DIR",
                               "RIPC_TRANSPORTS",
                               "RIPC_PEERS",
                               "RIPC_NETWORK",
                               "RIPC_CLUSTER_KEY_FILE",
                               "RIPC_IDENTITY_FILE",
                               "RIPC_TRUST_FILE",
                               "RIPC_ENCRYPT",
                               "RIPC_SPIN_US",
                               "RIPC_MULTICAST",
                               "RIPC_GROUP_REFRESH_MS",
                               "RIPC_RESOLVER_FILE",
                               "RIPC_RESOLVERS",
                               "RIPC_ZOOKEEPER",
                               "RIPC_ZOOKEEPER_SESSION_MS",
                               "RIPC_SOCKET_PORTS",
                               "RIPC_SOCKET_ADDRESS",
                               "RIPC_SOCKET_INTERFACE",
                               "RIPC_PEER_TIMEOUT_MS",
                               "RIPC_VERBS_GROUPS",
                               "RIPC_SOCKET_RECEIVE_BUFFER",
                               "RIPC_SOCKET_STREAMS",
                               "RIPC_VERBS_CONNECTIONS",
                               "RIPC_SOCKET_BULK_CONNECTIONS",
                               "RIPC_RAILS"};

Status check_settings() {
  for (const char* name : kSettings) {
    const char* value = ::secure_getenv(name);
    if (value != nullptr && *value == '\0')
      return Status(RIPC_INVALID_ARGUMENT,
                    std::string(name) + " is set, but empty: give it a value, or unset it for the default.");
  }
  return {};
}

// nullopt: nobody has chosen any.
Result<std::optional<std::vector<std::string>>> read_transports(const char* option) {
  const std::string text = option != nullptr ? std::string(option) : environment("RIPC_TRANSPORTS");
  if (option == nullptr && text.empty()) return std::optional<std::vector<std::string>>();
  std::vector<std::string> transports;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    std::string name = text.substr(start, end - start);
    start = end + 1;
    if (!contains(kKnownTransports, name))
      return Status(RIPC_INVALID_ARGUMENT,
                    (option == nullptr ? "RIPC_TRANSPORTS: '" : "'") + name +
                        "' is not a transport: list some of shm, socket, verbs, separated by commas.");
    if (contains(kBuiltTransports, name) && std::ranges::find(transports, name) == transports.end())
      transports.push_back(std::move(name));
  }
  if (transports.empty())
    return Status(RIPC_UNSUPPORTED,
                  "None of the transports '" + text + "' is in this build: it has " + std::string(kBuilt) + ".");
  return std::optional(std::move(transports));
}

Result<Spin> read_spin(std::uint64_t option) {
  // A year: sums of times do not overflow.
  if (option != RIPC_DEFAULT_TIME) return Spin{std::min<std::uint64_t>(option, 31'536'000'000'000'000), false};
  if (environment("RIPC_SPIN_US").empty()) return Spin{.remote_only = sysconf(_SC_NPROCESSORS_ONLN) < 2};
  std::uint64_t microseconds = 0;
  if (Status status = read_number("RIPC_SPIN_US", 0, 60'000'000, microseconds); !status.ok()) return status;
  return Spin{microseconds * 1000, false};
}

Result<std::uint32_t> read_policy(std::uint32_t option) {
  if (option <= RIPC_PEERS_ANY) return option;
  if (option != UINT32_MAX) return Status(RIPC_INVALID_ARGUMENT, "peer_policy is not one of ripc_peer_policy.");
  const std::string text = environment("RIPC_PEERS");
  if (text.empty() || text == "user") return std::uint32_t{RIPC_PEERS_SAME_USER};
  if (text == "group") return std::uint32_t{RIPC_PEERS_SAME_GROUP};
  if (text == "any") return std::uint32_t{RIPC_PEERS_ANY};
  return Status(RIPC_INVALID_ARGUMENT, "RIPC_PEERS is '" + text + "': write user, group or any.");
}

std::uint64_t default_pool_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0) return std::uint64_t{1} << 30;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size) / 4;
}

std::uint64_t random_context_id() {
  std::uint64_t id = 0;
  while (id == 0) id = random_u64();
  return id;
}

bool is_used(const Settings& settings, std::string_view resolver) {
  return std::ranges::find(settings.resolvers, resolver) != settings.resolvers.end();
}

// Removes the transports that the network access does not allow.
Status withhold(Settings& settings, bool are_chosen) {
  if (!settings.network.is_closed) return {};
  std::vector<std::string> allowed;
  for (std::string& name : settings.transports) {
    if (!leaves_the_host(name)) {
      allowed.push_back(std::move(name));
    } else if (are_chosen && settings.network.mode == RIPC_NETWORK_KEY) {
      return settings.network.refuse("The transport " + name + " leaves this host, which");
    } else {
      settings.withheld.push_back(std::move(name));
    }
  }
  settings.transports = std::move(allowed);
  settings.is_multicast_withheld = environment("RIPC_MULTICAST") != "off";
  if (settings.transports.empty())
    return settings.network.refuse("The transport " + settings.withheld.front() + " leaves this host, which");
  return {};
}

// RDMA devices move data without encryption, whatever the key.
Status leave_out_unencrypted(Settings& settings, bool are_chosen) {
  const auto verbs = std::ranges::find(settings.transports, "verbs");
  if (settings.encrypt != RIPC_ENCRYPT_REQUIRED || verbs == settings.transports.end()) return {};
  if (are_chosen)
    return Status(
        RIPC_PERMISSION,
        "The transport verbs is not allowed, because RDMA devices do not encrypt and RIPC_ENCRYPT is required: "
        "leave it out of RIPC_TRANSPORTS, or set RIPC_ENCRYPT=auto if you trust the fabric.");
  settings.transports.erase(verbs);
  return {};
}

}  // namespace

std::string unknown_settings() {
  std::string unknown;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {  // clearenv() makes it a nullptr
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("RIPC_") || std::ranges::find(kSettings, name) != kSettings.end()) continue;
    unknown += (unknown.empty() ? "" : ", ") + std::string(name);
  }
  return unknown;
}

Result<Settings> read_settings(const ripc_context_options& options) {
  Settings settings;
  if (Status status = check_settings(); !status.ok()) return status;
  if (options.runtime_directory != nullptr) settings.runtime_directory = options.runtime_directory;
  Result<std::optional<std::vector<std::string>>> transports = read_transports(options.transports);
  if (!transports.ok()) return transports.status();
  settings.may_lack_rdma = !transports->has_value();
  settings.transports =
      transports->value_or(std::vector<std::string>(kBuiltTransports.begin(), kBuiltTransports.end()));
  if (Status status = read_network_access(options).move_to(settings.network); !status.ok()) return status;
  if (Status status = read_credentials(options, settings.network).move_to(settings.credentials); !status.ok())
    return status;
  if (Status status = read_encrypt(options, settings.network).move_to(settings.encrypt); !status.ok()) return status;
  if (Status status = withhold(settings, transports->has_value()); !status.ok()) return status;
  if (Status status = leave_out_unencrypted(settings, transports->has_value()); !status.ok()) return status;
  settings.static_resolver =
      options.static_resolver != nullptr ? options.static_resolver : environment("RIPC_RESOLVER_FILE");
  settings.pool_limit = options.pool_limit != 0 ? options.pool_limit : default_pool_limit();
  settings.resolve_timeout = options.resolve_timeout != RIPC_DEFAULT_TIME ? options.resolve_timeout : 1'000'000'000;
  // A search cannot be interrupted, so each ends.
  settings.resolve_timeout = std::min<std::uint64_t>(settings.resolve_timeout, 3'600'000'000'000);
  if (Status status = read_spin(options.spin).move_to(settings.spin); !status.ok()) return status;
  std::uint64_t refresh = 250;
  if (Status status = read_number("RIPC_GROUP_REFRESH_MS", 1, 3'600'000, refresh); !status.ok()) return status;
  settings.group_refresh = refresh * 1'000'000;
  if (Status status = read_policy(options.peer_policy).move_to(settings.peer_policy); !status.ok()) return status;
  settings.max_peers = options.max_peers != 0 ? options.max_peers : 4096;
  if (Status status =
          read_multicast_options(settings.transports, settings.network, core::id_of_name).move_to(settings.multicast);
      !status.ok())
    return status;
  if (Status status = read_zookeeper_options(options, settings.network).move_to(settings.zookeeper); !status.ok())
    return status;
  if (Status status = read_resolvers().move_to(settings.resolvers); !status.ok()) return status;
  if (settings.multicast && !is_used(settings, "multicast")) settings.multicast.reset();
  if (settings.zookeeper && !is_used(settings, "zookeeper")) settings.zookeeper.reset();
  if (!is_used(settings, "static")) settings.static_resolver.clear();
  if (settings.multicast) settings.multicast->credentials = settings.credentials;
  if (settings.multicast) settings.multicast->peers = PeerPolicy(settings.peer_policy);
  remote::SessionOptions sessions;
  sessions.credentials = settings.credentials;
  sessions.encryption = static_cast<remote::Encryption>(settings.encrypt);
  sessions.max_peers = settings.max_peers;
  sessions.peers = PeerPolicy(settings.peer_policy);
  // Read even if they are not used: a mistake is reported before a cluster key makes it matter.
  Result<socket::TransportOptions> socket = read_socket_options(sessions);
  if (!socket.ok()) return socket.status();
  if (std::ranges::find(settings.transports, "socket") != settings.transports.end())
    settings.socket = std::move(*socket);
#ifdef RIPC_WITH_VERBS
  Result<verbs::TransportOptions> verbs = read_verbs_options(sessions);
  if (!verbs.ok()) return verbs.status();
  if (std::ranges::find(settings.transports, "verbs") != settings.transports.end()) settings.verbs = std::move(*verbs);
#endif
  return settings;
}

resolver::DirectoryOptions directory_options(const Settings& settings) {
  resolver::DirectoryOptions options;
  options.credentials = settings.credentials;
  options.hash_name = core::id_of_name;
  options.patience = settings.resolve_timeout;
  return options;
}

namespace {

using Resolvers = std::vector<std::unique_ptr<spi::Resolver>>;
using MadeResolver = Result<std::unique_ptr<spi::Resolver>>;

// Checks an address in the file of known services.
Status check_address(const spi::Address& address) {
  if (address.transport == "socket" || address.transport == "verbs")
    return remote::Locator::parse(address.locator).status();
  if (address.transport != "shm")
    return Status(RIPC_INVALID_ARGUMENT,
                  "no transport is called '" + address.transport + "': write socket, verbs or shm.");
  // Or a directory with a context, as `ripc services` prints it: DIRECTORY#CONTEXT, #CONTEXT.
  if (address.locator.front() != '/' && address.locator.find('#') == std::string::npos)
    return Status(RIPC_INVALID_ARGUMENT,
                  "shm takes the whole path of a runtime directory, such as shm:/run/site/ripc.");
  return {};
}

MadeResolver make_static(const Settings& settings) {
  auto known = std::make_unique<resolver::StaticResolver>(
      settings.static_resolver, core::id_of_name, core::id_of_group, check_address,
      [lookup = std::make_shared<resolver::DirectoryLookup>(settings.peer_policy)](
          spi::ServiceRecord record, Deadline deadline) { return lookup->find(std::move(record), deadline); });
  // A mistake in the file is reported here, not at the first send.
  if (Status status = known->check(); !status.ok()) return status;
  return std::unique_ptr<spi::Resolver>(std::move(known));
}

MadeResolver make_local(const Settings& settings, const std::shared_ptr<RuntimeDirectory>& directory,
                        std::uint64_t context) {
  auto local = std::make_unique<resolver::LocalResolver>(directory, context);
  if (std::ranges::find(settings.transports, "shm") == settings.transports.end()) {
    if (Status shown = local->show_life(); !shown.ok()) return shown;
  }
  return std::unique_ptr<spi::Resolver>(std::move(local));
}

MadeResolver make_zookeeper(const Settings& settings, std::uint64_t context) {
  Result<std::unique_ptr<resolver::ZooKeeperDirectory>> ensemble =
      resolver::ZooKeeperDirectory::create(*settings.zookeeper);
  if (!ensemble.ok()) return ensemble.status();
  resolver::DirectoryOptions options = directory_options(settings);
  options.waits_for_services = !settings.multicast;
  return resolver::DirectoryResolver::create(std::move(*ensemble), options, context);
}

MadeResolver make_multicast(const Settings& settings, std::uint64_t context,
                            resolver::MulticastResolver::Networks networks) {
  return resolver::MulticastResolver::create(*settings.multicast, context, std::move(networks));
}

// The resolvers that are set up, in their order.
Result<Resolvers> make_resolvers(const Settings& settings, const std::shared_ptr<RuntimeDirectory>& directory,
                                 std::uint64_t context, resolver::MulticastResolver::Networks networks) {
  Resolvers resolvers;
  for (const std::string& name : settings.resolvers) {
    MadeResolver made = std::unique_ptr<spi::Resolver>();
    if (name == "static" && !settings.static_resolver.empty()) {
      made = make_static(settings);
    } else if (name == "local") {
      made = make_local(settings, directory, context);
    } else if (name == "zookeeper" && settings.zookeeper) {
      made = make_zookeeper(settings, context);
    } else if (name == "multicast" && settings.multicast) {
      made = make_multicast(settings, context, std::exchange(networks, {}));
    }
    if (!made.ok()) return made.status();
    if (*made != nullptr) resolvers.push_back(std::move(*made));
  }
  return resolvers;
}

}  // namespace

Result<std::unique_ptr<core::Context>> compose(const Settings& settings) {
  Result<std::shared_ptr<RuntimeDirectory>> directory = RuntimeDirectory::open(
      settings.runtime_directory.empty() ? nullptr : settings.runtime_directory.c_str(), settings.peer_policy);
  if (!directory.ok()) return directory.status();
  (void)(*directory)->sweep();

  core::ContextParts parts;
  parts.id = random_context_id();
  parts.pool = std::make_unique<memory::Pool>(settings.pool_limit);
  parts.credentials = settings.credentials;
  parts.is_encryption_required = settings.encrypt == RIPC_ENCRYPT_REQUIRED;
  parts.resolve_timeout = settings.resolve_timeout;
  parts.spin = settings.spin;
  parts.group_refresh = settings.group_refresh;
#ifdef RIPC_WITH_VERBS
  std::shared_ptr<const verbs::DeviceList> used_devices;
#endif
  for (const std::string& name : settings.transports) {
    if (name == "shm") {
      parts.transports.push_back(
          std::make_unique<shm::ShmTransport>(*directory,
                                              shm::TransportOptions{.context = parts.id,
                                                                    .peer_policy = settings.peer_policy,
                                                                    .max_peers = settings.max_peers,
                                                                    .credentials = settings.credentials},
                                              *parts.pool));
    } else if (name == "socket") {
      socket::TransportOptions socket_options = settings.socket;
      socket_options.context = parts.id;
      parts.transports.push_back(std::make_unique<socket::SocketTransport>(std::move(socket_options)));
#ifdef RIPC_WITH_VERBS
    } else if (name == "verbs") {
      Result<std::shared_ptr<const verbs::DeviceList>> devices = verbs::DeviceList::open();
      if (!devices.ok()) {
        // Without a device, the other transports suffice; `ripc doctor` says what is missing.
        const bool is_needed = settings.transports.size() == 1 || (settings.multicast && !settings.multicast->udp);
        if ((devices.status().code() == RIPC_UNSUPPORTED || settings.may_lack_rdma) && !is_needed) continue;
        return devices.status();
      }
      used_devices = *devices;
      verbs::TransportOptions verbs_options = settings.verbs;
      verbs_options.context = parts.id;
      parts.transports.push_back(
          std::make_unique<verbs::VerbsTransport>(std::move(verbs_options), std::move(*devices), *parts.pool));
      if (settings.may_lack_rdma) parts.optional.push_back(name);
#endif
    }
  }
  resolver::MulticastResolver::Networks networks;
#ifdef RIPC_WITH_VERBS
  if (settings.multicast && used_devices) {
    if (Status status = fabric_networks(*settings.multicast, used_devices).move_to(networks); !status.ok())
      return status;
  }
#endif
  Result<Resolvers> resolvers = make_resolvers(settings, *directory, parts.id, std::move(networks));
  if (!resolvers.ok()) return resolvers.status();
  parts.withheld = settings.withheld;
  parts.withheld_reason = settings.network.reason() + ". " + settings.network.advice();
  std::string not_asked;
  if (settings.is_multicast_withheld) not_asked = "No other host was asked, " + parts.withheld_reason;
  parts.resolver = std::make_unique<resolver::ChainResolver>(
      std::move(*resolvers), [not_asked, others = std::make_shared<OtherDirectoriesHint>((*directory)->path())] {
        std::string text = others->text();
        if (!text.empty() && !not_asked.empty()) text += ' ';
        return text + not_asked;
      });
  return core::Context::create(std::move(parts));
}

}  // namespace ripc::internal::capi
