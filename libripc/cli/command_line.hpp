// SPDX-License-Identifier: Apache-2.0
// Rules for the command line of every command.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace cli {

// Makes an empty value of any option or argument wrong usage: a script whose variable is empty did not mean the
// default. So is a number that CLI11 would take for another one. Call it when all commands are declared.
void refuse_bad_values(CLI::App& app);

// Runs the command that the command line names. `exit_code` is the variable that the add_ functions were given. Returns
// the command's exit code, or that of a usage error or a help text, which it prints.
int parse_command_line(CLI::App& app, int argc, const char* const* argv, const int& exit_code);

}  // namespace cli
