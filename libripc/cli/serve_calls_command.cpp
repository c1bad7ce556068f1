// SPDX-License-Identifier: Apache-2.0
// ripc serve-calls: a service with two methods, to try calls with.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "command.hpp"
#include "exit_code.hpp"
#include "ripc/rpc.hpp"

namespace cli {
namespace {

enum Method : std::uint32_t { kEcho = 0, kTime = 1 };

struct ServeCallsOptions {
  std::string service;
  std::string transport;
  bool takeover = false;
  bool json = false;
};

void answer(ripc::Request& request, std::span<const ripc::Item> items) {
  if (const auto sent = request.reply(items); !sent.ok()) request.drop(sent.code());
}

// The arguments, as they came. One that is missing here cannot be sent back.
void answer_echo(ripc::Request request) {
  std::vector<ripc::Item> items;
  for (std::size_t index = 0; index < request.item_count(); ++index) {
    const ripc::ItemView view = request.item(index);
    if (!view.ok()) return request.drop(view.status());
    items.push_back(ripc::item(view.bytes()));
  }
  answer(request, items);
}

// Such as 2026-01-31T12:34:56Z.
void answer_time(ripc::Request request) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  (void)gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  const ripc::Item item = ripc::item(ripc::bytes_of(std::string_view(text.data(), size)));
  answer(request, std::span(&item, 1));
}

// Until the service ends; RIPC_INTERRUPTED is the orderly end.
ripc::Error serve_until_stopped(ripc::Rpc& rpc, const StopOnSignal& stop) {
  while (!stop.requested()) {
    const auto events = rpc.run();
    if (!events.ok() && events.code() != RIPC_INTERRUPTED && events.code() != RIPC_TIMEOUT) return events.error();
  }
  return RIPC_INTERRUPTED;
}

int run_serve_calls(const ServeCallsOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) {
    print_error(target.error().text());
    return kUsage;
  }
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
  auto rpc = ripc::Rpc::create(*service);
  if (!rpc.ok()) return fail(rpc.error());
  if (const auto error = rpc->on(kEcho, answer_echo); !error.ok()) return fail(error);
  if (const auto error = rpc->on(kTime, answer_time); !error.ok()) return fail(error);

  const StopOnSignal stop(*service);
  if (options.json) {
    print_json({{"event", "serving"},
                {"service", options.service},
                {"id", format_id(service->id())},
                {"pid", getpid()},
                {"incarnation", service->incarnation()}});
  } else {
    std::printf(
        "serving calls as %s (%s), process %d: method %u returns its arguments, method %u the time; "
        "Ctrl-C ends it\n",
        options.service.c_str(), format_id(service->id()).c_str(), static_cast<int>(getpid()), unsigned{kEcho},
        unsigned{kTime});
    std::fflush(stdout);
  }

  const ripc::Error end = serve_until_stopped(*rpc, stop);
  const auto statistics = rpc->statistics();
  const std::uint64_t run = statistics.ok() ? statistics->requests_run : 0;
  const std::uint64_t refused = statistics.ok() ? statistics->requests_refused : 0;
  if (options.json) {
    print_json({{"event", "closed"},
                {"service", options.service},
                {"reason", end.name()},
                {"requests_run", run},
                {"requests_refused", refused}});
  } else {
    std::printf("closed: %llu calls run, %llu refused\n", static_cast<unsigned long long>(run),
                static_cast<unsigned long long>(refused));
  }
  return end.code() == RIPC_INTERRUPTED ? kOk : fail(end);
}

}  // namespace

void add_serve_calls_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeCallsOptions>();
  CLI::App* command =
      app.add_subcommand("serve-calls", "Answer calls to try them: method 0 returns its arguments, 1 the time");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  command->add_flag("--takeover", options->takeover, "Take the ID over from a living holder, which is fenced");
  command->add_option("--transport", options->transport, "Paths to offer, such as shm or shm,socket");
  command->add_flag("--json", options->json, "Print one JSON object when ready and one at the end");
  command->footer(std::string("Example: ripc serve-calls demo    and then    ripc call demo 0 --data hello\n"
                              "SIGINT or SIGTERM ends it with 0.\n") +
                  kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_serve_calls(*options); });
}

}  // namespace cli
