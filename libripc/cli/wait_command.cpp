// SPDX-License-Identifier: Apache-2.0
// ripc wait: waits until a service is there and can be reached.
#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"

namespace cli {
namespace {

struct WaitOptions {
  std::string service;
  std::string transport;
  double timeout = std::numeric_limits<double>::infinity();
  bool json = false;
};

// What may be in the way: no cluster key, another directory. With a context that waits for nothing.
std::string reason_of_absence(const WaitOptions& options, const Target& target) {
  auto context = open_context(options.transport, ripc::kNoWait);
  if (!context.ok()) return {};
  const auto info = target.resolve(*context);
  return info.ok() ? std::string() : " " + std::string(info.error().text());
}

int run_wait(const WaitOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  auto context = open_context(options.transport);
  if (!context.ok()) return fail(context.error());
  const ripc::Nanoseconds timeout = to_timeout(options.timeout);
  const auto info =
      target->name.empty() ? context->wait_service(target->id, timeout) : context->wait_service(target->name, timeout);
  if (!info.ok() && info.code() == RIPC_NO_SERVICE)
    return fail({RIPC_NO_SERVICE, "'" + target->text +
                                      "' has not appeared. Start it, see `ripc services` for what is there, or allow "
                                      "more time with --timeout." +
                                      reason_of_absence(options, *target)});
  if (!info.ok()) return fail(info.error());
  if (options.json) {
    print_json(to_json(*info));
  } else {
    std::printf("%s is there (%s, %s) over %s\n", options.service.c_str(), format_id(info->id).c_str(),
                process_text(info->pid).c_str(), info->transport.c_str());
  }
  return kOk;
}

}  // namespace

void add_wait_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<WaitOptions>();
  CLI::App* command = app.add_subcommand("wait", "Wait until a service is there and can be reached");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  add_timeout(*command, options->timeout, "Seconds to wait at most");
  add_transport(*command, options->transport);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(std::string("Example: ripc wait files --timeout 30 && ripc get files README -o -\n") + kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_wait(*options); });
}

}  // namespace cli
