// SPDX-License-Identifier: Apache-2.0
// What holds for the command line of every command.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace cli {

// Makes an empty value of any option or argument wrong usage: a script whose variable is empty did not mean the
// default. Call it when all commands are declared.
void refuse_empty_values(CLI::App& app);

// Runs the command that the command line names. `exit_code` is where the add_ functions let it put its own; returns
// that, or the one of wrong usage or of a help text, which are printed.
int parse_command_line(CLI::App& app, int argc, const char* const* argv, const int& exit_code);

}  // namespace cli
