// SPDX-License-Identifier: Apache-2.0
// The command `ripc`.
#include <CLI/CLI.hpp>
#include <exception>

#include "command.hpp"
#include "command_line.hpp"
#include "exit_code.hpp"

namespace {

int run(int argc, char** argv) {
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
    cli::refuse_empty_values(app);
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
