// SPDX-License-Identifier: Apache-2.0
// The command `ripc`.
#include <CLI/CLI.hpp>
#include <exception>

#include "command.hpp"
#include "command_line.hpp"
#include "exit_code.hpp"

namespace {

constexpr const char* kEnvironmentHelp =
    "\nEnvironment of every command; docs/tuning.md explains each variable:\n"
    "RIPC_RUNTIME_DIR, RIPC_TRANSPORTS, RIPC_PEERS, RIPC_SPIN_US, RIPC_GROUP_REFRESH_MS, RIPC_PEER_TIMEOUT_MS,\n"
    "RIPC_NETWORK, RIPC_CLUSTER_KEY_FILE, RIPC_IDENTITY_FILE, RIPC_TRUST_FILE, RIPC_ENCRYPT,\n"
    "RIPC_RESOLVERS, RIPC_RESOLVER_FILE, RIPC_MULTICAST, RIPC_ZOOKEEPER, RIPC_ZOOKEEPER_SESSION_MS,\n"
    "RIPC_SOCKET_PORTS, RIPC_SOCKET_ADDRESS, RIPC_SOCKET_INTERFACE, RIPC_SOCKET_RECEIVE_BUFFER,\n"
    "RIPC_SOCKET_STREAMS, RIPC_SOCKET_BULK_CONNECTIONS, RIPC_RAILS, RIPC_VERBS_CONNECTIONS, RIPC_VERBS_GROUPS.";

int run(int argc, char** argv) {
  try {
    CLI::App app("Message passing by service ID: serve and fetch files, call services, look at them, measure.", "ripc");
    app.set_version_flag("--version", ripc::version());
    app.require_subcommand(1);
    app.footer(
        std::string("Example: ripc serve /srv/files --service files    and then    ripc get files README -o -\n") +
        cli::kExitCodeHelp + kEnvironmentHelp);
    int exit_code = cli::kOk;
    cli::add_serve_command(app, exit_code);
    cli::add_get_command(app, exit_code);
    cli::add_serve_calls_command(app, exit_code);
    cli::add_call_command(app, exit_code);
    cli::add_wait_command(app, exit_code);
    cli::add_watch_command(app, exit_code);
    cli::add_ping_command(app, exit_code);
    cli::add_resolve_command(app, exit_code);
    cli::add_services_command(app, exit_code);
    cli::add_doctor_command(app, exit_code);
    cli::add_key_command(app, exit_code);
    cli::add_trust_command(app, exit_code);
    cli::add_bench_command(app, exit_code);
    cli::refuse_bad_values(app);
    return cli::parse_command_line(app, argc, argv, exit_code);
  } catch (const std::exception& error) {
    cli::print_error(error.what());
    return cli::kFailure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::hold_standard_streams();
  return cli::finish_output(run(argc, argv));
}
