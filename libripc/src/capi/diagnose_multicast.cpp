// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/random.hpp"
#include "capi/diagnose.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#ifdef RIPC_WITH_VERBS
#include "capi/fabric_multicast.hpp"
#endif

namespace ripc::internal::capi {

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void check_refused(Report& report, const resolver::MulticastCounters& counters) {
  const auto add = [&](std::uint64_t count, std::string_view what, std::string_view advice) {
    if (count != 0) report.add(Level::limited, "multicast", std::to_string(count) + std::string(what), advice);
  };
  add(counters.signed_ones, " packets were signed with a cluster key, and this process has none: they were ignored",
      "copy the key file of one of those hosts to ~/.config/ripc/cluster.key, and unset RIPC_NETWORK");
  add(counters.unsigned_ones, " packets were not signed with the cluster key: they were ignored",
      "copy this host's key file to the others, or separate them by another group: RIPC_MULTICAST");
  add(counters.forged, " packets were signed with another key: they were ignored",
      "compare the key files of the hosts; while the key is changed each needs both");
  add(counters.refusals.unproven, " records are of nobody in the trust file: they were ignored",
      "add the identities of those programs: ripc key new --identity, ripc trust add");
  add(counters.refusals.not_permitted,
      " records claim what the trust file does not give their member: they were ignored",
      "compare holds= and joins= with what the programs do: ripc trust list");
  add(counters.refused_users, " packets came from users of this host who are not admitted: they were ignored",
      "if those users are trusted, start every process with RIPC_PEERS=group or RIPC_PEERS=any");
  add(counters.unknown_users, " packets came from unidentified users of this host: they were ignored",
      "processes that end make some; if there are more, see docs/security.md (Users of one host)");
  add(counters.stale, " packets have a time that is too far from ours: they were ignored",
      "synchronise the clocks of the hosts (NTP): with a cluster key they may differ by 30 seconds");
  add(counters.replayed, " packets came again after a second or more: they were ignored",
      "a device repeats packets, or someone records and sends them: look for it on the way between the hosts, or use "
      "another group: RIPC_MULTICAST");
  add(counters.other_version, " packets come from another version of libripc: they were ignored",
      "use one version, or another group for each: RIPC_MULTICAST");
  add(counters.malformed, " packets are not of libripc: they were ignored",
      "another program uses this group and port: choose others with RIPC_MULTICAST");
  add(counters.send_failures, " packets could not be sent", "look at the interfaces and the firewall of this host");
}

void check_multicast(Report& report, const Settings& settings) {
  if (settings.network.is_closed) return;  // check_network() says so
  if (!settings.multicast) {
    report.add(Level::good, "multicast", "off: only services of this host and of the static resolver are found");
    return;
  }
  resolver::MulticastOptions options = *settings.multicast;
  options.receives_own_packets = true;
  resolver::MulticastResolver::Networks networks;
#ifdef RIPC_WITH_VERBS
  if (std::find(settings.transports.begin(), settings.transports.end(), "verbs") != settings.transports.end()) {
    const Result<std::shared_ptr<const verbs::DeviceList>> devices = verbs::DeviceList::open();
    Result<resolver::MulticastResolver::Networks> opened =
        devices.ok() ? fabric_networks(options, *devices) : devices.status();
    // Faults of the devices are reported elsewhere.
    if (opened.ok()) networks = std::move(*opened);
  }
#endif
  Result<std::unique_ptr<resolver::MulticastResolver>> resolver =
      resolver::MulticastResolver::create(options, random_u64() | 1, std::move(networks));
  if (!resolver.ok()) {
    report.add(Level::broken, "multicast", resolver.status().text(), "or switch it off: RIPC_MULTICAST=off");
    return;
  }
  static_cast<void>((*resolver)->list([](const spi::ServiceRecord&) {}));
  const resolver::MulticastState state = (*resolver)->state();
  const resolver::MulticastCounters& counters = state.counters;
  const std::string traffic = std::to_string(counters.packets_sent) + " packets sent, " +
                              std::to_string(counters.packets_received) + " received, " +
                              std::to_string(state.services) + " services of " + std::to_string(state.contexts) +
                              " other processes answered";
  for (const resolver::MulticastState::Network& network : state.networks) {
    const bool is_udp = network.name == "udp";
    if (network.interfaces.empty()) {
      report.add(Level::limited, "multicast", network.text + ": services of other hosts cannot be found by it",
                 is_udp ? "bring an interface with an address up, check interface= in RIPC_MULTICAST, or set "
                          "RIPC_MULTICAST=off"
                        : "see docs/rdma.md, or set RIPC_MULTICAST=udp");
    } else if (!network.silent_interfaces.empty()) {
      report.add(
          Level::limited, "multicast",
          network.text + "; what is sent does not come back on " + joined(network.silent_interfaces) + "; " + traffic,
          is_udp ? "allow UDP to and from port 26673 (or that of RIPC_MULTICAST) and IGMP in this host's firewall"
                 : "on RoCE allow UDP to port 4791 and IGMP in this host's firewall");
    } else {
      report.add(Level::good, "multicast",
                 network.text + ", ttl " + std::to_string(settings.multicast->ttl) + "; " + traffic);
    }
  }
  check_refused(report, counters);
}

}  // namespace ripc::internal::capi
