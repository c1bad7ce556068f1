// SPDX-License-Identifier: Apache-2.0
// The commands, and what they share. Each add_ function declares one command with its options. If the command line
// names that command, it runs and puts its exit code into `exit_code`.
#pragma once

#include <string>

#include "output.hpp"
#include "ripc/ripc.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
class Option;
}  // namespace CLI

namespace cli {

void add_serve_command(CLI::App& app, int& exit_code);
void add_serve_calls_command(CLI::App& app, int& exit_code);
void add_call_command(CLI::App& app, int& exit_code);
void add_get_command(CLI::App& app, int& exit_code);
void add_wait_command(CLI::App& app, int& exit_code);
void add_watch_command(CLI::App& app, int& exit_code);
void add_ping_command(CLI::App& app, int& exit_code);
void add_resolve_command(CLI::App& app, int& exit_code);
void add_services_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_key_command(CLI::App& app, int& exit_code);
void add_trust_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);

// A service as users name it: "NAME", or "id:NUMBER" (decimal or 0x...) for one without a name. A group: "group:NAME",
// "group:NUMBER" (that of RIPC_GROUP_ID), or its whole ID after "id:".
struct Target {
  std::string text;  // as given
  std::string name;  // of a service; empty: by ID
  ripc::ServiceId id = 0;

  bool is_group() const noexcept { return id >> 62 == 1; }

  // RIPC_INVALID_ARGUMENT with a sentence if it is neither.
  static ripc::Result<Target> parse(const std::string& text);
  // The same, but a group is refused as well.
  static ripc::Result<Target> parse_service(const std::string& text);
  // What else the user may have meant, after a space; often empty.
  std::string hint() const;
  ripc::Result<ripc::ServiceInfo> resolve(ripc::Context& context) const;
};

// A context on these transports, separated by commas; empty: the default ones. None of its look-ups takes longer than
// `timeout`.
ripc::Result<ripc::Context> open_context(const std::string& transports, ripc::Nanoseconds timeout = ripc::kForever);

// The error of a call that uses this user's own files: RIPC_REFUSED becomes RIPC_PERMISSION, as no service has refused.
ripc::Error of_this_user(const ripc::Error& error);

// A context, and a service to send from.
struct Client {
  ripc::Context context;
  ripc::Service service;

  static ripc::Result<Client> open(const std::string& transports, ripc::Nanoseconds timeout);
};

// Adds "--transport LIST" to a command.
CLI::Option* add_transport(CLI::App& command, std::string& transports, const std::string& what = "Paths to use");

// Adds "--timeout SECONDS" to a command: 0 or more, fractions allowed.
CLI::Option* add_timeout(CLI::App& command, double& seconds, const std::string& what);
// Seconds from the command line to a timeout; more than 10^9 is "for ever".
ripc::Nanoseconds to_timeout(double seconds);

// What is left of the `timeout` of an operation that began at `started` (monotonic_now()).
ripc::Nanoseconds time_left(std::uint64_t started, ripc::Nanoseconds timeout);

// Resolves the target again and again, until it is found or the time is over (then RIPC_NO_SERVICE). Timeout 0: once.
// The last attempt begins early enough to end in time.
ripc::Result<ripc::ServiceInfo> wait_for_service(ripc::Context& context, const Target& target,
                                                 ripc::Nanoseconds timeout);

// The living members of the group. Looks again and again, until there is one or the time is over (then
// RIPC_NO_SERVICE).
ripc::Result<std::vector<ripc::ServiceInfo>> wait_for_members(ripc::Context& context, const Target& target,
                                                              ripc::Nanoseconds timeout);

// "process 4711", or "process unknown" for 0.
std::string process_text(std::uint32_t pid);

// A service as one JSON object.
Json to_json(const ripc::ServiceInfo& info);

// Makes SIGINT and SIGTERM set a flag and interrupt `service` (which then returns RIPC_INTERRUPTED from receive), while
// this object lives. One at a time in a process.
class StopOnSignal {
 public:
  explicit StopOnSignal(ripc::Service& service);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  bool requested() const noexcept;
};

}  // namespace cli
