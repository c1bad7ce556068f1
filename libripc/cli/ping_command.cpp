// SPDX-License-Identifier: Apache-2.0
// ripc ping: is a service alive, and how fast does it answer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
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

// Waits for the answer to `number`. RIPC_TIMEOUT.
ripc::Error await_ping(ripc::Service& service, std::uint64_t number, ripc::Nanoseconds timeout) {
  const std::uint64_t started = monotonic_now();
  while (true) {
    const ripc::Nanoseconds left = time_left(started, timeout);
    if (left == ripc::kNoWait) return RIPC_TIMEOUT;
    auto message = service.receive(left);
    if (!message.ok()) {
      if (message.code() == RIPC_INTERRUPTED) continue;
      return message.error();
    }
    const ripc::Bytes bytes = message->item(0).bytes();
    if (bytes.size() == sizeof(number) && std::memcmp(bytes.data(), &number, sizeof(number)) == 0) return {};
  }
}

// `failure`: why the last ping could not be sent.
std::string what_is_missing(const PingOptions& options, const ripc::ServiceInfo& info, std::uint64_t sent,
                            std::size_t answered, const ripc::Error& failure) {
  const std::string who = "'" + options.service + "' (" + process_text(info.pid) + ")";
  if (answered > 0)
    return who + " answered " + std::to_string(answered) + " of " + std::to_string(sent) + " pings within --timeout; " +
           std::to_string(options.count) +
           " were wanted. If the others were lost on the way, `ripc resolve` says which way that is; or wait longer.";
  constexpr double kShort = 0.1;
  if (options.timeout < kShort)
    return who + " is known, but --timeout left no time for an answer: allow more, such as --timeout 1.";
  if (!failure.ok()) return who + " is known, but cannot be reached: " + std::string(failure.text());
  return who +
         " is there but does not answer pings. Only services that return messages tagged \"ping\" do, as "
         "`ripc serve` does; or its process hangs or is stopped.";
}

int run_ping(const PingOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  const ripc::Nanoseconds timeout = to_timeout(options.timeout);
  auto client = Client::open(options.transport, timeout);
  if (!client.ok()) return fail(client.error());

  const std::uint64_t started = monotonic_now();
  constexpr ripc::Nanoseconds kAskAgain = std::chrono::milliseconds(500);    // then an unanswered ping counts as lost
  std::uint64_t number = (std::uint64_t{std::random_device{}()} << 32) + 1;  // not an answer to another process's ping
  std::vector<double> samples;
  std::uint64_t sent = 0;
  std::uint64_t failed = 0;  // of those, pings that could not be sent
  ripc::Error failure;       // why the last ping could not be sent
  ripc::ServiceInfo info;
  bool look = true;  // it may have restarted, or moved
  while (samples.size() < options.count) {
    if (sent > 0 && time_left(started, timeout) == ripc::kNoWait) break;
    if (look) {
      auto found = wait_for_service(client->context, *target, time_left(started, timeout));
      if (!found.ok()) return fail(found.error());
      // Makes the path now, so that its time does not count for the ping.
      std::string way = info.transport.empty() ? "none" : info.transport;
      auto path = client->context.find_path(found->id);
      if (path.ok()) way = path->transport;
      failure = path.error();
      info = *std::move(found);
      info.transport = std::move(way);  // not just the first transport with an address
      look = false;
      if (!failure.ok() && time_left(started, timeout) == ripc::kNoWait) break;
    }
    const std::uint64_t sent_at = monotonic_now();
    ++number;
    ripc::SendOptions send_options;
    send_options.tag = static_cast<std::uint32_t>(file::Operation::ping);
    auto ticket = client->service.send(info.id, {ripc::short_item(std::as_bytes(std::span(&number, 1)))}, send_options);
    ++sent;
    failure = ticket.error();
    if (!ticket.ok()) ++failed;
    const ripc::Error outcome =
        ticket.ok() ? await_ping(client->service, number, std::min(kAskAgain, time_left(started, timeout))) : failure;
    if (outcome.ok()) {
      samples.push_back(static_cast<double>(monotonic_now() - sent_at));
      continue;
    }
    // A service that restarts returns any of these for a while.
    constexpr std::array kPassing = {RIPC_TIMEOUT, RIPC_AGAIN, RIPC_NO_SERVICE, RIPC_PEER_DEAD, RIPC_CLOSED};
    if (std::ranges::find(kPassing, outcome.code()) == kPassing.end()) return fail(outcome);
    look = true;
  }

  const std::size_t answered = samples.size();
  const Json figures = percentiles(samples);
  const int exit_code = answered == options.count ? kOk : kTimeout;
  const std::string missing =
      exit_code == kOk ? std::string() : what_is_missing(options, info, sent, answered, failure);
  if (options.json)
    return print_outcome({{"service", options.service},
                          {"id", format_id(info.id)},
                          {"transport", info.transport},
                          {"pid", info.pid},
                          {"incarnation", info.incarnation},
                          {"sent", sent},
                          {"failed", failed},
                          {"answered", answered},
                          {"rtt_ns", figures}},
                         exit_code, missing);
  if (answered > 0) {
    std::printf("%s (%s, %s) over %s: %zu of %llu answered, round trip min %s, median %s, max %s\n",
                options.service.c_str(), format_id(info.id).c_str(), process_text(info.pid).c_str(),
                info.transport.c_str(), answered, static_cast<unsigned long long>(sent),
                format_nanoseconds(figures["min"].get<double>()).c_str(),
                format_nanoseconds(figures["p50"].get<double>()).c_str(),
                format_nanoseconds(figures["max"].get<double>()).c_str());
  }
  return exit_code == kOk ? exit_code : fail(exit_code, missing);
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
  add_transport(*command, options->transport);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(std::string("Example: ripc ping files --count 1000\n") + kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_ping(*options); });
}

}  // namespace cli
