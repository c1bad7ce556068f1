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
#include "serving.hpp"

namespace cli {
namespace {

enum Method : std::uint32_t { kEcho = 0, kTime = 1 };

void answer(ripc::Request& request, const ripc::Items& items) {
  if (const auto sent = request.reply(items); !sent.ok()) request.drop(sent.code());
}

// Sends the arguments back as they came. An argument that is missing here cannot be sent back.
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
  const ripc::Item item = ripc::item(std::string_view(text.data(), size));
  answer(request, std::span(&item, 1));
}

int run_serve_calls(const ServingOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  auto serving = Serving::begin(options, *target);
  if (!serving.ok()) return fail(serving.error());
  ripc::Service& service = serving->service();
  auto rpc = ripc::Rpc::create(service);
  if (!rpc.ok()) return fail(rpc.error());
  if (const auto error = rpc->on(kEcho, answer_echo); !error.ok()) return fail(error);
  if (const auto error = rpc->on(kTime, answer_time); !error.ok()) return fail(error);

  const StopOnSignal stop(service);
  serving->say_ready(Json::object(), "serving calls as " + options.service + " (" + format_id(service.id()) + "), " +
                                         process_text(static_cast<std::uint32_t>(getpid())) + ": method " +
                                         std::to_string(kEcho) + " returns its arguments, method " +
                                         std::to_string(kTime) + " the time; Ctrl-C ends it");
  const ripc::Error end = serve_until_stopped(stop, *serving, [&] { return rpc->run().error(); });
  const auto statistics = rpc->statistics();
  const std::uint64_t run = statistics.ok() ? statistics->requests_run : 0;
  const std::uint64_t refused = statistics.ok() ? statistics->requests_refused : 0;
  serving->say_closed(end, {{"requests_run", run}, {"requests_refused", refused}},
                      "closed: " + std::to_string(run) + " calls run, " + std::to_string(refused) + " refused");
  return exit_code_after(end, options.service);
}

}  // namespace

void add_serve_calls_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServingOptions>();
  CLI::App* command =
      app.add_subcommand("serve-calls", "Answer calls to try them: method 0 returns its arguments, 1 the time");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  add_serving_options(*command, *options);
  command->footer(std::string("Example: ripc serve-calls demo    and then    ripc call demo 0 --data hello\n"
                              "SIGINT or SIGTERM ends it with 0.\n") +
                  kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_serve_calls(*options); });
}

}  // namespace cli
