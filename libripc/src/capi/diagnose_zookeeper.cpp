// SPDX-License-Identifier: Apache-2.0
// The self-check of the ZooKeeper resolver. It reports which servers answer, and whether a majority does. It also
// reports whether this process may read and write where services are published.
#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "capi/diagnose.hpp"
#include "resolver/zookeeper/ensemble_check.hpp"

namespace ripc::internal::capi {

namespace {

constexpr std::int64_t kMostClockDifference = 30'000;  // milliseconds

// Checks each server separately. Returns how many serve.
std::size_t check_servers(Report& report, const resolver::ZooKeeperOptions& options) {
  std::size_t serving = 0;
  for (const resolver::ServerAnswer& server : resolver::ask_servers(options)) {
    if (check_server(report, server, options.servers.size() == 1)) ++serving;
  }
  return serving;
}

}  // namespace

bool check_server(Report& report, const resolver::ServerAnswer& server, bool is_only) {
  std::string subject = "zookeeper " + server.server;
  std::string prefix;
  // If the name were cut, different servers could look the same.
  if (subject.size() >= sizeof(ripc_finding::subject)) {
    subject = "zookeeper";
    prefix = server.server + ": ";
  }
  const auto add = [&](Level level, const std::string& text, std::string_view advice) {
    report.add(level, subject, prefix + text, advice);
  };
  if (server.mode == "leader" || server.mode == "follower" || server.mode == "observer" ||
      server.mode == "standalone") {
    const bool is_alone = server.mode == "standalone" && is_only;
    add(is_alone ? Level::limited : Level::good,
        server.mode + ", version " + (server.version.empty() ? "unknown" : server.version),
        is_alone ? "three servers go on when one is lost: docs/zookeeper.md" : "");
    return true;
  }
  if (!server.failure.empty()) {
    add(Level::limited, server.failure, "start the server there, check RIPC_ZOOKEEPER, and allow TCP to this port");
    return false;
  }
  if (server.is_without_quorum) {
    add(Level::limited, "runs, but serves nobody: it does not reach most of the other servers",
        "start the other servers, and allow TCP between them (by default ports 2888 and 3888)");
    return false;
  }
  // It may disable four-letter words, and still serve its clients.
  add(Level::good, "accepts connections; it does not tell more",
      "4lw.commands.whitelist=srvr in its zoo.cfg lets it tell its state");
  return true;
}

void check_clock(Report& report, std::int64_t difference) {
  const std::int64_t distance = difference < 0 ? -difference : difference;
  if (distance <= kMostClockDifference) return;
  report.add(Level::limited, "zookeeper",
             "the clock of its leader is " + std::to_string(distance / 1000) + " s " +
                 (difference < 0 ? "behind" : "ahead of") + " that of this host",
             "synchronise the clocks (NTP): the newer of two holders of an ID is told by their time");
}

void check_zookeeper(Report& report, const Settings& settings) {
  if (!settings.zookeeper) return;
  const std::size_t serving = check_servers(report, *settings.zookeeper);
  const resolver::EnsembleCheck check =
      resolver::check_ensemble(*settings.zookeeper, directory_options(settings), random_u64() | 1);
  const std::string ensemble = settings.zookeeper->text();
  if (!check.failure.ok()) {
    report.add(Level::broken, "zookeeper", check.failure.text(), "or unset RIPC_ZOOKEEPER");
    return;
  }
  if (!check.is_linked) {
    report.add(Level::broken, "zookeeper",
               ensemble + ": no session within " + std::to_string(check.waited / 1'000'000) + " ms, " +
                   std::to_string(serving) + " of " + std::to_string(settings.zookeeper->servers.size()) +
                   " servers serve" + (check.trouble.empty() ? "" : "; " + check.trouble),
               "most of the servers must run and reach each other; until then names that are not known yet fail");
    return;
  }
  if (!check.refusal.empty()) {
    report.add(Level::broken, "zookeeper", ensemble + ": publishing and reading is refused: " + check.refusal,
               "give everybody the rights cdrw on this folder, or name another one: docs/zookeeper.md");
    return;
  }
  if (!check.is_written) {
    report.add(Level::broken, "zookeeper", ensemble + ": a session, but nothing could be written within its time",
               "look at the log and the disk of the leader");
    return;
  }
  report.add(Level::good, "zookeeper",
             ensemble + ": written and read in " + std::to_string(check.round_trip / 1000) + " us, " +
                 std::to_string(check.services) + " services there" + (check.is_first ? ", the folder is new" : ""));
  if (check.ignored != 0)
    report.add(
        Level::limited, "zookeeper",
        std::to_string(check.ignored) + " records are not authentic for this process: they are ignored",
        "give each cluster a folder of its own, and its hosts the same key file and trust file: docs/zookeeper.md");
  check_clock(report, check.clock_difference);
}

}  // namespace ripc::internal::capi
