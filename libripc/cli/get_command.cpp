// SPDX-License-Identifier: Apache-2.0
// ripc get: fetches files from a file service.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/fetch.hpp"
#include "rails.hpp"

namespace cli {
namespace {

struct GetOptions {
  std::string service;
  std::string path;
  std::string output;
  std::string transport;
  file::FetchOptions fetch;
  double timeout = 30;
  bool timeout_given = false;
  bool batch = false;
  bool json = false;
};

// The report for a file that arrived whole.
Json report_json(const std::string& output, const file::FetchReport& report) {
  Json json = {{"ok", true},
               {"bytes", report.bytes},
               {"travelled", report.travelled},
               {"transport", report.transport},
               {"chunks", report.chunks},
               {"nanoseconds", report.nanoseconds}};
  json["bytes_per_second"] =
      report.nanoseconds == 0 ? 0.0 : static_cast<double>(report.bytes) * 1e9 / static_cast<double>(report.nanoseconds);
  json["retries"] = report.retries;
  json["verified"] = report.verified;
  if (!report.digest.empty()) json["xxh3_128"] = report.digest;
  if (report.rails.size() > 1) json["rails"] = to_json(report.rails);
  json["output"] = output;
  return json;
}

std::string to_line(const file::FetchReport& report) {
  const double seconds = static_cast<double>(report.nanoseconds) / 1e9;
  std::string how = report.travelled;
  if (report.chunks > 1) how += " in " + std::to_string(report.chunks) + " pieces";
  std::string line = std::to_string(report.bytes) + " bytes  " + how + "  over " + report.transport + "  " +
                     format_nanoseconds(static_cast<double>(report.nanoseconds)) + "  " +
                     format_rate(seconds > 0 ? static_cast<double>(report.bytes) / seconds : 0);
  if (report.verified) line += "  verified";
  if (report.retries > 0) line += "  asked again " + std::to_string(report.retries) + "x";
  return line;
}

// Prints the outcome for one file. Returns the exit code.
int say_outcome(const GetOptions& options, const std::string& path, const std::string& output,
                const file::FetchReport& report) {
  // If the content goes to standard output, nothing else may.
  std::FILE* stream = output == "-" ? stderr : stdout;
  if (options.json) {
    Json json = {{"service", options.service}, {"path", path}};
    if (report.exit_code == kOk) json.update(report_json(output, report));
    return print_outcome(std::move(json), report.exit_code, report.error, stream);
  }
  const std::string who = options.batch ? printable(path) + ": " : std::string();
  if (report.exit_code != kOk) print_error(who + report.error);
  if (report.exit_code == kOk) {
    std::fprintf(stream, "%s%s\n", who.c_str(), to_line(report).c_str());
    // If the file came in the answer, no rail has carried anything.
    if (report.rails.size() > 1 && bytes_of(report.rails) != 0) {
      for (const std::string& rail : rail_lines(report.rails)) std::fprintf(stream, "  %s\n", rail.c_str());
    }
  } else if (options.batch) {
    std::fprintf(stream, "%sfailed with exit code %d\n", who.c_str(), report.exit_code);
  }
  if (stream == stdout) flush_output();
  return report.exit_code;
}

// Fetches one file and prints the outcome. Returns the exit code.
int get_one(const GetOptions& options, file::Connection& connection, const std::string& path,
            const std::string& output_path, bool return_buffer) {
  auto output = file::make_output(output_path);
  file::FetchReport report;
  if (output.ok()) {
    file::FetchOptions fetch_options = options.fetch;
    fetch_options.return_buffer = return_buffer;
    fetch_options.progress = !options.json;
    report = file::Fetch(connection, path, **output, fetch_options).run();
  } else {
    report.exit_code = kFailure;
    report.error = output.error().text();
  }
  return say_outcome(options, path, output_path, report);
}

// Fetches what a line of a batch asks for: "PATH<tab>OUTPUT[<tab>return]".
int get_line(const GetOptions& options, file::Connection& connection, const std::string& line, std::size_t number) {
  const std::size_t first = std::min(line.find('\t'), line.size());
  const std::size_t second = std::min(line.find('\t', first + 1), line.size());
  const std::string path = line.substr(0, first);
  const std::string output = first == line.size() ? "" : line.substr(first + 1, second - first - 1);
  const std::string how = second == line.size() ? "" : line.substr(second + 1);
  const bool is_whole = !path.empty() && !output.empty();
  if (is_whole && (how.empty() || how == "return"))
    return get_one(options, connection, path, output, options.fetch.return_buffer || !how.empty());
  file::FetchReport report;
  report.exit_code = kUsage;
  report.error = "line " + std::to_string(number) + " of standard input: ";
  report.error += is_whole ? "'" + printable(how) + "' is not understood: the third column is return, or left out."
                           : "write PATH<tab>OUTPUT, with one tab and neither part empty.";
  return say_outcome(options, path, output, report);
}

// Reads lines from standard input until its end, one file each. The first failure gives the exit code, but the other
// files are fetched anyway.
int get_batch(const GetOptions& options, file::Connection& connection) {
  int exit_code = kOk;
  std::string line;
  for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    const int code = get_line(options, connection, line, number);
    if (exit_code == kOk) exit_code = code;
  }
  return exit_code;
}

int run_get(const GetOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  if (options.batch != options.path.empty())
    return fail(kUsage, options.batch ? "With --batch the paths come from standard input: leave PATH out."
                                      : "Say which file to fetch: ripc get NAME PATH.");
  if (options.batch && !options.output.empty())
    return fail(kUsage, "With --batch each line says where its file goes: leave -o out.");
  if (options.fetch.chunk == 0 || options.fetch.chunk > file::kMaxChunk)
    return fail(kUsage, "--chunk takes 1 byte to " + format_bytes(file::kMaxChunk) + ".");
  // Without -o the content goes to standard output, unless the JSON goes there or it is a terminal.
  std::string output = options.output;
  if (output.empty() && !options.batch && !options.json) {
    if (isatty(STDOUT_FILENO) == 1)
      return fail(kUsage,
                  "Standard output is a terminal: name a file with -o FILE, or say -o - to see the content here.");
    output = "-";
  }

  auto client = Client::open(options.transport, to_timeout(options.timeout));
  if (!client.ok()) return fail(client.error());
  file::Connection connection(client->context, std::move(client->service), *std::move(target),
                              to_timeout(options.timeout), options.timeout_given);
  if (options.batch) return get_batch(options, connection);
  return get_one(options, connection, options.path, output, options.fetch.return_buffer);
}

}  // namespace

void add_get_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GetOptions>();
  CLI::App* command = app.add_subcommand("get", "Fetch a file from a service that `ripc serve` runs");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  command->add_option("PATH", options->path, "The file, relative to the served directory");
  command->add_option("-o,--output", options->output,
                      "Where to put it; - is standard output. Without it: standard output, or nowhere with --json");
  command->add_flag("--return-buffer", options->fetch.return_buffer,
                    "Let the service write the content into a buffer that the request carries");
  command->add_flag("--verify", options->fetch.verify, "Compare XXH3 checksums of what was sent and what arrived");
  command->add_option("--chunk", options->fetch.chunk, "Fetch larger files in pieces of this size, two at a time")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("64M");
  add_transport(*command, options->transport);
  CLI::Option* timeout =
      add_timeout(*command, options->timeout,
                  "Seconds the service may be gone or silent, for instance while it restarts. If given, also "
                  "wait so long for a service that is not there yet");
  command->add_flag("--batch", options->batch,
                    "Fetch what lines of PATH<tab>OUTPUT[<tab>return] on standard input say");
  command->add_flag("--json", options->json, "Print one JSON object for each file");
  command->footer(std::string("Example: ripc get files videos/talk.mp4 -o talk.mp4 --verify\n") + kExitCodeHelp);
  command->callback([options, timeout, &exit_code] {
    options->timeout_given = timeout->count() > 0;
    exit_code = run_get(*options);
  });
}

}  // namespace cli
