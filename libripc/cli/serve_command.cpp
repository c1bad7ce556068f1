// SPDX-License-Identifier: Apache-2.0
// ripc serve: a file service under a service ID.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/file_server.hpp"

namespace cli {
namespace {

struct ServeOptions {
  std::string directory;
  std::string service;
  std::string transport;
  bool takeover = false;
  std::uint64_t cache = std::uint64_t{512} << 20;
  bool verbose = false;
  bool json = false;
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

// Until the service ends; RIPC_INTERRUPTED is the orderly end.
ripc::Error serve_until_stopped(ripc::Service& service, file::FileServer& server, const StopOnSignal& stop) {
  while (!stop.requested()) {
    auto message = service.receive();
    if (message.ok()) {
      server.handle(*message);
    } else if (message.code() != RIPC_INTERRUPTED && message.code() != RIPC_TIMEOUT) {
      return message.error();
    }
  }
  return RIPC_INTERRUPTED;
}

int run_serve(const ServeOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) {
    print_error(target.error().text());
    return kUsage;
  }
  auto directory = file::ServedDirectory::open(options.directory);
  if (!directory.ok()) return fail(directory.error());

  ripc::ContextOptions context_options;
  context_options.transports = options.transport;
  auto context = ripc::Context::create(context_options);
  if (!context.ok()) return fail(context.error());
  ripc::ServiceOptions service_options;
  service_options.name = target->name;
  service_options.id = target->name.empty() ? target->id : 0;
  service_options.takeover = options.takeover;
  auto service = context->register_service(service_options);
  if (!service.ok()) return fail(service.error());

  const StopOnSignal stop(*service);
  file::FileServer server(*context, *service, *std::move(directory), options.cache, options.verbose);
  if (options.json) {
    print_json({{"event", "serving"},
                {"service", options.service},
                {"id", format_id(service->id())},
                {"directory", options.directory},
                {"pid", getpid()},
                {"incarnation", service->incarnation()}});
  } else {
    std::printf("serving %s as %s (%s), process %d; Ctrl-C ends it\n", options.directory.c_str(),
                options.service.c_str(), format_id(service->id()).c_str(), static_cast<int>(getpid()));
    std::fflush(stdout);
  }

  const ripc::Error end = serve_until_stopped(*service, server, stop);
  if (end.code() == RIPC_INTERRUPTED) server.notify_closing();
  if (options.json) {
    Json json = {{"event", "closed"}, {"service", options.service}, {"reason", end.name()}};
    json.update(counters_json(server));
    print_json(json);
  } else {
    std::printf("closed: %llu requests, %s sent\n", static_cast<unsigned long long>(server.counters().requests),
                format_bytes(server.counters().bytes).c_str());
  }
  return end.code() == RIPC_INTERRUPTED ? kOk : fail(end);
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve the files below a directory under a service ID");
  command->add_option("DIR", options->directory, "The directory; nothing outside of it is given out")->required();
  command->add_option("--service", options->service, "The service: a name, or id:NUMBER")->required();
  command->add_flag("--takeover", options->takeover, "Take the ID over from a living holder, which is fenced");
  command->add_option("--transport", options->transport, "Paths to offer, such as shm or shm,socket");
  command->add_option("--cache", options->cache, "Pool memory for cached files, such as 512M")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("512M");
  command->add_flag("--verbose", options->verbose, "Say on standard error what is asked for and answered");
  command->add_flag("--json", options->json, "Print one JSON object when ready and one at the end");
  command->footer(
      std::string("Example: ripc serve /srv/files --service files\n"
                  "SIGINT or SIGTERM ends it: watchers are notified (`ripc watch`), then it exits with 0.\n") +
      kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_serve(*options); });
}

}  // namespace cli
