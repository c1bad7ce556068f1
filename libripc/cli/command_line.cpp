// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "exit_code.hpp"
#include "output.hpp"

namespace cli {
namespace {

// Splits "--name=", because CLI11 would take the next argument for its value.
std::vector<std::string> split_empty_values(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  bool has_options = true;
  for (int index = 1; index < argc; ++index) {
    const std::string_view argument = argv[index];
    has_options = has_options && argument != "--";
    const bool is_empty = has_options && argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    arguments.emplace_back(is_empty ? argument.substr(0, argument.size() - 1) : argument);
    if (is_empty) arguments.emplace_back();
  }
  return arguments;
}

// Whether inserting, removing or replacing at most so many letters turns one word into the other.
bool is_similar(std::string_view one, std::string_view other, unsigned changes) {
  const auto same = static_cast<std::size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
  one.remove_prefix(same);
  other.remove_prefix(same);
  if (one.empty() || other.empty()) return one.size() + other.size() <= changes;
  return changes != 0 &&
         (is_similar(one.substr(1), other.substr(1), changes - 1) || is_similar(one.substr(1), other, changes - 1) ||
          is_similar(one, other.substr(1), changes - 1));
}

// The command or option that was meant by `word`; empty: nobody knows.
std::string meant_by(std::string_view word, const CLI::App& app) {
  if (const auto given = app.get_subcommands(); !given.empty()) return meant_by(word, *given.front());
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const unsigned changes : {1U, 2U})
    for (const std::string& name : names)
      if (is_similar(word, name, changes)) return name;
  return {};
}

// If there is an unknown word, reports that word as the mistake, and not a missing command.
int print_parse_error(const CLI::App& app, const CLI::ParseError& error, bool json) {
  const bool lacks_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool is_of_word = lacks_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const std::vector<std::string> unknown = is_of_word ? app.remaining(true) : std::vector<std::string>();
  std::ostringstream out;  // so that only stdio writes to standard output
  std::ostringstream problem;
  const int code = unknown.empty() ? app.exit(error, out, problem)
                                   : app.exit(CLI::ExtrasError(app.get_name(), unknown), out, problem);
  std::fputs(out.str().c_str(), stdout);
  if (code == 0) return kOk;
  if (const std::string meant = unknown.empty() ? "" : meant_by(unknown.front(), app); !meant.empty())
    problem << "Did you mean '" << meant << "'?\n";
  std::string text = problem.str();
  if (!json) {
    std::fputs(text.c_str(), stderr);
    return kUsage;
  }
  text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return fail(kUsage, text);
}

// A command line that is wrong asks for JSON all the same.
bool asks_for_json(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

// Whether standard output is for a file.
bool gives_output_away(const CLI::App& app) {
  return std::ranges::any_of(app.get_subcommands(), [](const CLI::App* command) {
    const CLI::Option* output = command->get_option_no_throw("--output");
    return output != nullptr && output->count() != 0 && output->results().front() == "-";
  });
}

// CLI11 takes -1 and 99999999999999999999 for the largest number, and 010 for 8.
std::string why_no_number(const std::string& text) {
  const bool is_octal = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
  std::uint64_t number = 0;
  const bool is_too_large =
      std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc::result_out_of_range;
  if (!text.starts_with('-') && !is_octal && !is_too_large) return {};
  return "'" + text + "' is not understood: give a number from 0, without leading zeros" +
         (is_too_large ? ", that fits into 64 bits." : ".");
}

}  // namespace

void refuse_bad_values(CLI::App& app) {
  // An argument of no bytes, and a member who may call nobody, are meaningful.
  constexpr std::array<std::string_view, 2> kMayBeEmpty = {"--data", "--calls"};
  for (CLI::Option* option : app.get_options()) {
    if (std::find(kMayBeEmpty.begin(), kMayBeEmpty.end(), option->get_name()) != kMayBeEmpty.end()) continue;
    const std::string what = option->get_required() ? "it is empty: give it a value."
                                                    : "it is empty: give it a value, or leave it out for the default.";
    // As a transformation, because transformations come before all checks.
    const bool is_number = option->get_type_name().starts_with("UINT");
    option->transform(CLI::Validator(
        [what, is_number](std::string& value) {
          if (value.empty()) return what;
          return is_number ? why_no_number(value) : std::string();
        },
        ""));
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_bad_values(*command);
}

int parse_command_line(CLI::App& app, int argc, const char* const* argv, const int& exit_code) {
  std::vector<std::string> arguments = split_empty_values(argc, argv);
  const bool json = asks_for_json(arguments);
  const auto choose_stream = [&app, json] {
    if (json) tell_failures_as_json(gives_output_away(app) ? stderr : stdout);
  };
  app.parse_complete_callback(choose_stream);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    choose_stream();
    return print_parse_error(app, error, json);
  }
  return exit_code;
}

}  // namespace cli
