// SPDX-License-Identifier: Apache-2.0
// ripc wait: waits until a service is there and can be reached.
#include <CLI/CLI.hpp>
#include <chrono>
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

ripc::Result<ripc::ServiceInfo> wait_until_reachable(ripc::Context& context, const Target& target,
                                                     ripc::Nanoseconds timeout) {
  return target.name.empty() ? context.wait_service(target.id, timeout) : context.wait_service(target.name, timeout);
}

// Waits as the library does. At the end it resolves as other commands do, because that error says why nothing was
// found.
ripc::Result<ripc::ServiceInfo> wait_or_say_why(const WaitOptions& options, ripc::Context& context,
                                                const Target& target) {
  constexpr ripc::Nanoseconds kLook = std::chrono::seconds(1);
  const ripc::Nanoseconds timeout = to_timeout(options.timeout);
  const std::uint64_t started = monotonic_now();
  const bool has_time = timeout != ripc::kForever && timeout >= kLook;
  auto info = wait_until_reachable(context, target, has_time ? timeout - kLook : timeout);
  const ripc::Nanoseconds left = time_left(started, timeout);
  if (info.code() == RIPC_TIMEOUT && left > ripc::kNoWait) return wait_until_reachable(context, target, left);
  if (info.ok() || info.code() != RIPC_NO_SERVICE) return info;
  auto brief = open_context(options.transport, ripc::kNoWait);
  if (!brief.ok()) return brief.error();
  const auto seen = wait_for_service(has_time ? context : *brief, target, left);
  if (seen.ok()) return wait_until_reachable(context, target, time_left(started, timeout));
  return ripc::Error(seen.code(),
                     "'" + target.text + "' has not appeared within --timeout. " + std::string(seen.error().text()));
}

int run_wait(const WaitOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  auto context = open_context(options.transport);
  if (!context.ok()) return fail(context.error());
  const auto info = wait_or_say_why(options, *context, *target);
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
