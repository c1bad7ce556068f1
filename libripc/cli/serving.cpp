// SPDX-License-Identifier: Apache-2.0
#include "serving.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "exit_code.hpp"
#include "refusal_notices.hpp"

namespace cli {

void add_serving_options(CLI::App& command, ServingOptions& options) {
  command.add_flag("--takeover", options.takeover, "Take the ID over from a living holder, which is fenced");
  add_transport(command, options.transport, "Paths to offer");
  command.add_flag("--json", options.json, "Print one JSON object when ready and one at the end");
}

ripc::Result<Serving> Serving::begin(const ServingOptions& options, const Target& target) {
  auto context = open_context(options.transport);
  if (!context.ok()) return context.error();
  ripc::ServiceOptions service_options;
  service_options.name = target.name;
  service_options.id = target.name.empty() ? target.id : 0;
  service_options.takeover = options.takeover;
  auto service = context->register_service(service_options);
  if (service.code() == RIPC_ID_IN_USE)
    return ripc::Error(RIPC_ID_IN_USE, std::string(service.error().text()) + " The option --takeover asks for it.");
  if (!service.ok()) return service.error();
  return Serving(options, *std::move(context), *std::move(service));
}

void Serving::say(Json event, const Json& fields, const std::string& sentence) const {
  if (options_.json) {
    event.update(fields);
    print_json(event);
  } else {
    std::printf("%s\n", sentence.c_str());
    flush_output();
  }
}

void Serving::say_ready(const Json& fields, const std::string& sentence) const {
  const Json event = {{"event", "serving"},
                      {"service", options_.service},
                      {"id", format_id(service_.id())},
                      {"pid", getpid()},
                      {"incarnation", service_.incarnation()}};
  say(event, fields, sentence);
}

void Serving::say_closed(const ripc::Error& end, const Json& fields, const std::string& sentence) const {
  say({{"event", "closed"}, {"service", options_.service}, {"reason", end.name()}}, fields, sentence);
}

ripc::Error serve_until_stopped(const StopOnSignal& stop, Serving& serving, const std::function<ripc::Error()>& step) {
  const RefusalNotices notices(serving.context());
  while (!stop.requested()) {
    ripc::Error error = step();
    if (!error.ok() && error.code() != RIPC_INTERRUPTED && error.code() != RIPC_TIMEOUT) return error;
  }
  return RIPC_INTERRUPTED;
}

int exit_code_after(const ripc::Error& end, const std::string& service) {
  if (end.code() == RIPC_INTERRUPTED) return kOk;
  if (end.code() != RIPC_FENCED) return fail(end);
  return fail(exit_code_for(end.code()), "A newer holder took '" + service + "' over; `ripc resolve '" + service +
                                             "'` shows it. --takeover takes the ID back.");
}

}  // namespace cli
