// SPDX-License-Identifier: Apache-2.0
// The command `ripc`.
#include <CLI/CLI.hpp>
#include <exception>

#include "command.hpp"
#include "exit_code.hpp"

int main(int argc, char** argv) {
  try {
    CLI::App app("Message passing by service ID: serve and fetch files, call services, look at them, measure.", "ripc");
    app.set_version_flag("--version", ripc::version());
    app.require_subcommand(1);
    app.footer(
        std::string("Example: ripc serve /srv/files --service files    and then    ripc get files README -o -\n") +
        cli::kExitCodeHelp);
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
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? cli::kOk : cli::kUsage;
    }
    return exit_code;
  } catch (const std::exception& error) {
    cli::print_error(error.what());
    return cli::kFailure;
  }
}
