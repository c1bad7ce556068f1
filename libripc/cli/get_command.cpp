// SPDX-License-Identifier: Apache-2.0
// ripc get: fetches files from a file service.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/fetch.hpp"

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

Json report_json(const GetOptions& options, const std::string& path, const std::string& output,
                 const file::FetchReport& report) {
  Json json = {{"service", options.service}, {"path", path}, {"ok", report.exit_code == kOk}};
  if (report.exit_code != kOk) {
    json["error"] = report.error;
    json["exit_code"] = report.exit_code;
    return json;
  }
  json["bytes"] = report.bytes;
  json["travelled"] = report.travelled;
  json["transport"] = report.transport;
  json["chunks"] = report.chunks;
  json["nanoseconds"] = report.nanoseconds;
  json["bytes_per_second"] =
      report.nanoseconds == 0 ? 0.0 : static_cast<double>(report.bytes) * 1e9 / static_cast<double>(report.nanoseconds);
  json["retries"] = report.retries;
  json["verified"] = report.verified;
  if (!report.digest.empty()) json["xxh3_128"] = report.digest;
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

// Fetches one file and says what came of it; the exit code.
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
  // Standard output is for the content if that is where it goes.
  std::FILE* stream = output_path == "-" ? stderr : stdout;
  if (options.json) print_json(report_json(options, path, output_path, report), stream);
  if (report.exit_code != kOk) {
    print_error(report.error);
  } else if (!options.json) {
    std::fprintf(stream, "%s\n", to_line(report).c_str());
    std::fflush(stream);
  }
  return report.exit_code;
}

// Lines of "PATH<tab>OUTPUT[<tab>return]" from standard input, one file each, until its end. The first failure is the
// exit code; the others are fetched all the same.
int get_batch(const GetOptions& options, file::Connection& connection) {
  int exit_code = kOk;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.empty()) continue;
    const std::size_t first = line.find('\t');
    const std::size_t second = first == std::string::npos ? first : line.find('\t', first + 1);
    const std::string path = line.substr(0, first);
    const std::string output = first == std::string::npos
                                   ? ""
                                   : line.substr(first + 1, second == std::string::npos ? second : second - first - 1);
    const bool return_buffer =
        options.fetch.return_buffer || (second != std::string::npos && line.substr(second + 1) == "return");
    const int code = get_one(options, connection, path, output, return_buffer);
    if (exit_code == kOk) exit_code = code;
  }
  return exit_code;
}

int run_get(const GetOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) {
    print_error(target.error().text());
    return kUsage;
  }
  if (options.batch != options.path.empty()) {
    print_error(options.batch ? "With --batch the paths come from standard input: leave PATH out."
                              : "Say which file to fetch: ripc get NAME PATH.");
    return kUsage;
  }
  if (options.fetch.chunk == 0 || options.fetch.chunk > file::kMaxChunk) {
    print_error("--chunk takes 1 byte to " + format_bytes(file::kMaxChunk) + ".");
    return kUsage;
  }
  // Without -o the content goes to standard output, unless that is wanted for the JSON or is a person's screen.
  std::string output = options.output;
  if (output.empty() && !options.batch && !options.json) {
    if (isatty(STDOUT_FILENO) == 1) {
      print_error("Standard output is a terminal: name a file with -o FILE, or say -o - to see the content here.");
      return kUsage;
    }
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
  command->add_option("--transport", options->transport, "Paths to use, such as shm or shm,socket");
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
