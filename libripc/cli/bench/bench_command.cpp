// SPDX-License-Identifier: Apache-2.0
// ripc bench: measures this machine with and without libripc.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "bench/options.hpp"
#include "command.hpp"
#include "exit_code.hpp"
#include "file/descriptor.hpp"
#include "ripc/rpc.h"

namespace cli {
namespace {

using bench::BenchOptions;
using bench::BenchResult;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

bool has_kinds(const BenchOptions& options) {
  return options.bench == "pingpong" || options.bench == "rate" || options.bench == "bandwidth";
}

BenchResult run_once(const BenchOptions& options) {
  if (options.bench == "pool") return bench::run_pool(options);
  if (options.bench == "pingpong") return bench::run_pingpong(options);
  if (options.bench == "calls") return bench::run_calls(options);
  if (options.bench == "service") return bench::run_service(options);
  if (options.bench == "protocols") return bench::run_protocols(options);
  return options.kind == "short" ? bench::run_rate(options) : bench::run_stream(options);
}

bool is_count(const std::string& key) {
  constexpr std::array kCounts = {"lost", "corrupt", "answered", "did_not_run", "may_have_run", "repeats"};
  return std::ranges::find(kCounts, key) != kCounts.end() || key.starts_with("payloads_checked");
}

// The medians of the runs, field by field; counts are added up.
Json summary_of(const std::vector<Json>& runs) {
  Json summary = runs.front();
  for (auto& [key, value] : summary.items()) {
    if (value.is_object()) {
      std::vector<Json> parts;
      for (const Json& run : runs) parts.push_back(run[key]);
      value = summary_of(parts);
    } else if (is_count(key)) {
      std::uint64_t sum = 0;
      for (const Json& run : runs) sum += run[key].get<std::uint64_t>();
      value = sum;
    } else if (value.is_number_float()) {
      std::vector<double> values;
      for (const Json& run : runs) values.push_back(run[key].get<double>());
      value = median(values);
    }
  }
  return summary;
}

std::string describe(const std::string& key, const Json& value) {
  if (value.is_object() && value.contains("p50")) {
    std::string text;
    for (const auto& [name, part] : value.items())
      text += (text.empty() ? "" : "  ") + name + " " + format_nanoseconds(part.get<double>());
    return text;
  }
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return value.dump();
  const double number = value.get<double>();
  if (key == "size" || key == "answer") return format_bytes(value.get<std::uint64_t>());
  if (key.ends_with("bytes_per_second")) return format_rate(number);
  if (key.ends_with("messages_per_second") || key == "calls_per_second") return format_count(number) + "/s";
  if (key.ends_with("_ns") || key.starts_with("nanoseconds")) return format_nanoseconds(number);
  if (!value.is_number_float()) return value.dump();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", number);
  return text.data();
}

void print_result(const Json& json) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : json.items())
    if (key != "runs") rows.push_back({key, describe(key, value)});
  print_table(rows);
}

std::string problem_with(const BenchOptions& options) {
  const bool is_service = options.bench == "service";
  const bool is_short = is_service || (has_kinds(options) && options.kind == "short");
  if (is_service && options.size < sizeof(std::uint64_t))
    return "--size must be at least 8 here: a request has a number.";
  const bool is_calls = options.bench == "calls";
  if (options.size == 0 && !is_short && !is_calls) return "--size must be at least 1 here.";
  if (options.kind == "lend" && options.source != "kept") return "--source is for --kind long, auto and return.";
  if (is_short && options.size > kMebibyte) return "--size takes 1M at most for short messages; use --kind long.";
  if ((has_kinds(options) || is_calls || options.bench == "protocols") && options.size > (std::uint64_t{4} << 30))
    return "--size takes 4G at most.";
  return {};
}

// A cluster key that only the two sides have, unless the user has chosen a key, or none. Its file has no name any more,
// so that nothing of it is left when a signal ends this process.
class OwnKey {
 public:
  OwnKey() {
    const char* network = getenv("RIPC_NETWORK");
    if ((network != nullptr && network != std::string_view("key")) || getenv("RIPC_CLUSTER_KEY_FILE") != nullptr)
      return;
    const char* folder = getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/ripc-bench-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) return;
    if (const auto made = ripc::create_cluster_key(name + "/cluster.key"); made.ok()) {
      key_.reset(open(made->c_str(), O_RDONLY | O_CLOEXEC));
      unlink(made->c_str());
    }
    rmdir(name.c_str());
  }

  // Empty: there is none.
  std::string file() const { return key_ ? "/proc/self/fd/" + std::to_string(key_.get()) : std::string(); }

 private:
  Descriptor key_;
};

int run_bench(BenchOptions options) {
  if (const std::string problem = problem_with(options); !problem.empty()) return fail(kUsage, problem);
  const OwnKey key;
  options.key_file = key.file();
  std::vector<Json> runs;
  // This benchmark repeats its rounds itself.
  const std::uint64_t count = options.bench == "protocols" ? 1 : options.runs;
  for (std::uint64_t run = 0; run < count; ++run) {
    auto result = run_once(options);
    if (!result.ok()) return fail(result.error());
    runs.push_back(*std::move(result));
  }
  Json json = {{"bench", options.bench}};
  json["transport"] = options.transport;
  json["kind"] = has_kinds(options) ? Json(options.kind) : Json(nullptr);
  json["size"] = options.size;
  json["iterations"] = runs.front()["iterations"];
  json["wait"] = options.wait;
  json["version"] = ripc::version();
  json.update(summary_of(runs));
  if (count > 1) json["runs"] = runs;

  const std::uint64_t bad = json["lost"].get<std::uint64_t>() + json["corrupt"].get<std::uint64_t>();
  const int exit_code = bad == 0 ? kOk : kMismatch;
  const std::string failure =
      bad == 0 ? std::string()
               : std::to_string(bad) + " messages were lost or corrupt; the figures above are not to be trusted.";
  if (options.json) return print_outcome(std::move(json), exit_code, failure);
  if (options.bench == "protocols") {
    bench::print_protocols(json);
  } else {
    print_result(json);
  }
  return exit_code == kOk ? exit_code : fail(exit_code, failure);
}

struct BenchKind {
  const char* name;
  const char* description;
  const char* kinds;   // of payloads; the first one is the default; "" if it has none
  const char* waits;   // the same for --wait
  std::uint64_t size;  // default
  const char* example;
};

constexpr BenchKind kBenches[] = {
    {"pingpong", "Round trips, beside bare ones (cache line, UDP or TCP) in the same run",
     "short,long,auto,return,lend", "spin,block,adaptive", 64, "ripc bench pingpong --size 64 --runs 5 --json"},
    {"rate", "Messages per second, one sender to one receiver; sockets: beside bare datagrams",
     "short,long,auto,return,lend", "spin,block", 32, "ripc bench rate --size 32"},
    {"bandwidth", "Bytes per second, beside plain memcpy (sockets: bare TCP) in the same run",
     "long,auto,return,lend,short", "spin,block", kMebibyte, "ripc bench bandwidth --kind long --size 64M"},
    {"calls", "Calls, answered by their payload or its beginning: a window of them is under way", "",
     "spin,block,adaptive", 32, "ripc bench calls --size 32 --window 8"},
    {"service", "Requests to a service that computes for each, at a given rate: throughput, latency, processor time",
     "", "adaptive,spin,block,thread", 64, "ripc bench service --service-time 5 --rate 20000 --neighbours 2"},
    {"protocols", "Time of a message over its size, for each way that a payload can travel; marks what AUTO takes", "",
     "spin,block,adaptive", 64 * kMebibyte, "ripc bench protocols --transport socket --size 1M"},
    {"pool", "Leasing and releasing pool memory, beside malloc and free", "", "", kMebibyte,
     "ripc bench pool --size 16M"},
};

void add_service_options(CLI::App& command, BenchOptions& options) {
  command.add_option("--service-time", options.service_time, "Microseconds that the service computes for a request")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--rate", options.rate,
                  "Requests per second of all clients, sent by the clock; 0: each client waits for its answer")
      ->check(CLI::Range(0.0, 1e8))
      ->capture_default_str();
  command.add_option("--clients", options.clients, "Threads that send requests")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{64}))
      ->capture_default_str();
  command
      .add_option("--neighbours", options.neighbours,
                  "Processes that compute all the time, one pinned to each processor in turn")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1024}))
      ->capture_default_str();
  command.add_option("--duration", options.duration, "Seconds of one run; the first tenth is not measured")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
}

void add_calls_options(CLI::App& command, BenchOptions& options) {
  command.add_option("--window", options.window, "Calls under way at once")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{RIPC_RPC_MAX_SLOTS}))
      ->capture_default_str();
  command.add_option("--answer", options.answer, "Bytes of the answer, at most the size, which is the default")
      ->transform(CLI::AsSizeValue(false));
  CLI::Option* const symmetric = command.add_flag("--symmetric", options.symmetric,
                                                  "Both sides call and answer; the calls of a window begin together");
  command.add_option("--callers", options.callers, "Callers on each side, with a window each")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{RIPC_RPC_MAX_SLOTS}))
      ->needs(symmetric)
      ->capture_default_str();
}

void add_bench(CLI::App& parent, const BenchKind& kind, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  options->bench = kind.name;
  CLI::App* command = parent.add_subcommand(kind.name, kind.description);
  const std::vector<std::string> kinds = CLI::detail::split(kind.kinds, ',');
  const std::vector<std::string> waits = CLI::detail::split(kind.waits, ',');
  const bool has_kind = kind.kinds[0] != '\0';
  if (has_kind) options->kind = kinds.front();
  add_transport(*command, options->transport, "Path to measure")->capture_default_str();
  if (has_kind) {
    command
        ->add_option("--kind", options->kind,
                     "How the payload travels; auto: short if it fits, else long from a copy that each send makes")
        ->check(CLI::IsMember(kinds))
        ->capture_default_str();
  } else {
    command->add_option("--kind", options->kind, "Accepted, as by the other benchmarks; means nothing here");
  }
  if (options->bench == "calls") add_calls_options(*command, *options);
  if (options->bench == "service") add_service_options(*command, *options);
  options->size = kind.size;
  command->add_option("--size", options->size, "Bytes of payload, such as 64 or 1M; protocols: of the largest one")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--iterations", options->iterations, "Messages, round trips or buffers of one run; 0: by size")
      ->capture_default_str();
  command->add_option("--runs", options->runs, "Measure so many times, with new processes; print the medians")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str();
  if (kind.waits[0] != '\0') {
    options->wait = waits.front();
    const auto has = [&](const char* wait) { return std::ranges::find(waits, wait) != waits.end(); };
    command
        ->add_option("--wait", options->wait,
                     std::string("Poll while waiting; sleep at once") +
                         (has("adaptive") ? "; adaptive: the library's default" : "") +
                         (has("thread") ? "; thread: a thread receives, and hands over to the one that computes" : ""))
        ->check(CLI::IsMember(waits))
        ->capture_default_str();
    command->add_flag("!--no-pin", options->pin, "Leave the two processes where the scheduler puts them");
  }
  if (has_kind) {
    command
        ->add_option("--batch", options->batch,
                     "Messages of one send call; 0: 64 short ones, as many long ones as there is room for")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{4096}))
        ->capture_default_str();
    command->add_option("--depth", options->depth, "Messages under way at once (all kinds but short)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{64}))
        ->capture_default_str();
    command
        ->add_option(
            "--source", options->source,
            "Large payloads are sent from buffers kept all the time, or got anew for every message and written "
            "whole (rate and bandwidth)")
        ->check(CLI::IsMember({"kept", "lease", "malloc"}))
        ->capture_default_str();
    command
        ->add_option(
            "--landing", options->landing,
            "Large payloads land in memory of the program, the same but registered, or leased buffers (rate and "
            "bandwidth)")
        ->check(CLI::IsMember({"heap", "registered", "lease"}))
        ->capture_default_str();
    command->add_flag("--one-buffer", options->one_buffer,
                      "Long payloads are all sent from one buffer and land in one, as the programs of perftest do it");
    command->add_option("--queue-messages", options->queue_messages, "Receive queue of each side; 0: the default");
    command->add_option("--queue-bytes", options->queue_bytes, "Receive queue of each side; 0: the default")
        ->transform(CLI::AsSizeValue(false));
  }
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(std::string("Example: ") + kind.example + "\n" + kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_bench(*options); });
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure: both sides are started here, on different processors");
  command->require_subcommand(1);
  command->footer(std::string("Example: ripc bench pingpong --size 64 --json\n"
                              "Every payload is checked; lost or corrupt ones make the exit code 6.\n") +
                  kExitCodeHelp);
  for (const BenchKind& kind : kBenches) add_bench(*command, kind, exit_code);
}

}  // namespace cli
