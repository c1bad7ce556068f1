// SPDX-License-Identifier: Apache-2.0
// ripc serve: a file service under a service ID.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/file_server.hpp"
#include "serving.hpp"

namespace cli {
namespace {

struct ServeOptions : ServingOptions {
  std::string directory;
  std::uint64_t cache = std::uint64_t{512} << 20;
  bool verbose = false;
};

Json counters_json(const file::FileServer& server) {
  const auto& counters = server.counters();
  return {{"requests", counters.requests},
          {"refused", counters.refused},
          {"files_inline", counters.files_inline},
          {"chunks", counters.chunks},
          {"bytes", counters.bytes},
          {"unanswered", counters.unanswered},
          {"not_taken", counters.not_taken},
          {"cache_hits", server.cache().hits()},
          {"cache_misses", server.cache().misses()}};
}

int run_serve(const ServeOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  auto directory = file::ServedDirectory::open(options.directory);
  if (!directory.ok()) return fail(directory.error());

  auto serving = Serving::begin(options, *target);
  if (!serving.ok()) return fail(serving.error());
  ripc::Service& service = serving->service();

  const StopOnSignal stop(service);
  file::FileServer server(serving->context(), service, *std::move(directory), options.cache, options.verbose);
  serving->say_ready({{"directory", options.directory}},
                     "serving " + options.directory + " as " + options.service + " (" + format_id(service.id()) +
                         "), " + process_text(static_cast<std::uint32_t>(getpid())) + "; Ctrl-C ends it");
  const ripc::Error end = serve_until_stopped(stop, *serving, [&]() -> ripc::Error {
    auto message = service.receive();
    if (!message.ok()) return message.error();
    server.handle(*message);
    return {};
  });
  if (end.code() == RIPC_INTERRUPTED) server.notify_closing();
  serving->say_closed(end, counters_json(server),
                      "closed: " + std::to_string(server.counters().requests) + " requests, " +
                          format_bytes(server.counters().bytes) + " sent");
  return exit_code_after(end, options.service);
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve the files below a directory under a service ID");
  command->add_option("DIR", options->directory, "The directory; nothing outside of it is given out")->required();
  command->add_option("--service", options->service, "The service: a name, or id:NUMBER")->required();
  add_serving_options(*command, *options);
  command->add_option("--cache", options->cache, "Pool memory for cached files, such as 512M")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("512M");
  command->add_flag("--verbose", options->verbose, "Say on standard error what is asked for and answered");
  command->footer(
      std::string("Example: ripc serve /srv/files --service files\n"
                  "SIGINT or SIGTERM ends it: watchers are notified (`ripc watch`), then it exits with 0.\n") +
      kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_serve(*options); });
}

}  // namespace cli
