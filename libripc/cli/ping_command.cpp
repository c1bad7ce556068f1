// SPDX-License-Identifier: Apache-2.0
// ripc ping: is a service alive, and how fast does it answer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/connection.hpp"

namespace cli {
namespace {

struct PingOptions {
  std::string service;
  std::string transport;
  std::uint64_t count = 1;
  double timeout = 5;
  bool json = false;
};

// Waits for the answer to `number` until the deadline. RIPC_TIMEOUT.
libripc::Error await_ping(libripc::Service& service, std::uint64_t number, std::uint64_t deadline) {
  while (true) {
    const std::uint64_t now = monotonic_now();
    if (now >= deadline) return RIPC_TIMEOUT;
    auto message = service.receive(libripc::Nanoseconds(static_cast<std::int64_t>(deadline - now)));
    if (!message.ok()) {
      if (message.code() == RIPC_INTERRUPTED) continue;
      return message.error();
    }
    const libripc::Bytes bytes = message->item(0).bytes();
    if (bytes.size() == sizeof(number) && std::memcmp(bytes.data(), &number, sizeof(number)) == 0) return {};
  }
}

int run_ping(const PingOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) {
    print_error(target.error().text());
    return kUsage;
  }
  auto client = Client::open(options.transport);
  if (!client.ok()) return fail(client.error());

  const std::uint64_t started = monotonic_now();
  const auto timeout = static_cast<std::uint64_t>(to_timeout(options.timeout).count());
  const std::uint64_t deadline = started + timeout;
  constexpr std::uint64_t kAskAgain = 500'000'000;  // after this long an unanswered ping counts as lost
  auto info = wait_for_service(client->context, *target, to_timeout(options.timeout));
  if (!info.ok()) return fail(info.error());
  // The way there is made now, so that the first ping does not pay for it.
  if (auto path = client->context.find_path(info->id); path.ok()) info = std::move(path);

  std::uint64_t number = (std::uint64_t{std::random_device{}()} << 32) + 1;  // not an answer to another process's ping
  std::vector<double> samples;
  std::uint64_t sent = 0;
  libripc::Error last = RIPC_TIMEOUT;
  while (samples.size() < options.count) {
    const std::uint64_t sent_at = monotonic_now();
    if (sent_at >= deadline && sent > 0) break;
    ++number;
    libripc::SendOptions send_options;
    send_options.tag = static_cast<std::uint32_t>(file::Operation::ping);
    auto ticket =
        client->service.send(info->id, {libripc::short_item(std::as_bytes(std::span(&number, 1)))}, send_options);
    ++sent;
    last = ticket.ok() ? await_ping(client->service, number, std::min(deadline, sent_at + kAskAgain)) : ticket.error();
    if (last.ok()) {
      samples.push_back(static_cast<double>(monotonic_now() - sent_at));
      continue;
    }
    // A service that starts again is any of these for a while.
    constexpr std::array kPassing = {RIPC_TIMEOUT, RIPC_AGAIN, RIPC_NO_SERVICE, RIPC_PEER_DEAD, RIPC_CLOSED};
    if (std::ranges::find(kPassing, last.code()) == kPassing.end()) return fail(last);
    // It may have restarted between the question and the answer.
    const std::uint64_t now = monotonic_now();
    info = wait_for_service(client->context, *target,
                            libripc::Nanoseconds(static_cast<std::int64_t>(now < deadline ? deadline - now : 0)));
    if (!info.ok()) return fail(info.error());
  }

  const std::size_t answered = samples.size();
  const Json figures = percentiles(samples);
  if (options.json) {
    print_json({{"service", options.service},
                {"id", format_id(info->id)},
                {"transport", info->transport},
                {"pid", info->pid},
                {"incarnation", info->incarnation},
                {"sent", sent},
                {"answered", answered},
                {"rtt_ns", figures}});
  } else if (answered > 0) {
    std::printf("%s (%s, %s) over %s: %zu of %llu answered, round trip min %s, median %s, max %s\n",
                options.service.c_str(), format_id(info->id).c_str(), process_text(info->pid).c_str(),
                info->transport.c_str(), answered, static_cast<unsigned long long>(sent),
                format_nanoseconds(figures["min"].get<double>()).c_str(),
                format_nanoseconds(figures["p50"].get<double>()).c_str(),
                format_nanoseconds(figures["max"].get<double>()).c_str());
  }
  if (answered == options.count) return kOk;
  print_error("'" + options.service + "' is there (" + process_text(info->pid) +
              ") but does not answer pings. Only services that send a message with the tag \"ping\" back do, as `ripc "
              "serve` does; or its process hangs or is stopped.");
  return kTimeout;
}

}  // namespace

void add_ping_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PingOptions>();
  CLI::App* command = app.add_subcommand("ping", "Ask a service for a sign of life and measure the round trip");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  command->add_option("--count", options->count, "How many answers to wait for")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
      ->capture_default_str();
  add_timeout(*command, options->timeout, "Seconds in all, also for a service that is not there yet");
  command->add_option("--transport", options->transport, "Paths to use, such as shm or shm,socket");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(std::string("Example: ripc ping files --count 1000\n") + kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_ping(*options); });
}

}  // namespace cli
