// SPDX-License-Identifier: Apache-2.0
// What `ripc doctor` asks a ZooKeeper ensemble.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/zookeeper/directory_resolver.hpp"
#include "resolver/zookeeper/zookeeper_options.hpp"

namespace ripc::internal::resolver {

// One server's answer to `srvr`.
struct ServerAnswer {
  std::string server;              // HOST:PORT
  std::string failure;             // why the server was not reached; empty: it was
  std::string mode;                // "leader", "follower", ...; empty: the server does not say
  std::string version;             // empty: the server does not say
  bool is_without_quorum = false;  // it runs, but serves no one
};

// Reads what a server, or anyone in its place, has replied to `srvr`.
void read_answer(std::string_view text, ServerAnswer& answer);

// Asks one server after the other; a server that does not answer takes a second.
std::vector<ServerAnswer> ask_servers(const ZooKeeperOptions& options);

struct EnsembleCheck {
  Status failure;                     // no client library, no thread
  bool is_linked = false;             // there is a session
  bool is_written = false;            // a node was made, read and removed
  bool is_first = false;              // the folder was not there
  std::string trouble;                // why there is no session
  std::string refusal;                // what the servers do not allow
  Nanoseconds waited = 0;             // for a session
  Nanoseconds round_trip = 0;         // the time of one write
  std::int64_t clock_difference = 0;  // milliseconds; more than 0: the leader is ahead of this host
  std::size_t services = 0;
  std::uint64_t ignored = 0;  // records that are not authentic
};

// Takes some seconds at most.
EnsembleCheck check_ensemble(const ZooKeeperOptions& options, const DirectoryOptions& rules, std::uint64_t context);

}  // namespace ripc::internal::resolver
