// SPDX-License-Identifier: Apache-2.0
// HERD's key-value service over calls. Each server thread has its own partition of the keys, its own service and its
// own endpoint, so nothing needs a lock.
//
//   kv server [--threads N]             serves kv.0, kv.1, ... until it gets SIGINT or SIGTERM
//   kv client [--threads N] [--window N] [--gets SHARE] [--skew EXPONENT] [--operations N]
//                                       puts all keys, then measures; every answer is checked; prints JSON
#include <absl/container/flat_hash_map.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"
#include "report.hpp"
#include "workload.hpp"

namespace kv {
namespace {

constexpr std::uint32_t kGet = 1;  // a key; the answer is its value
constexpr std::uint32_t kPut = 2;  // a key and its value
constexpr std::uint32_t kDone = 0;
constexpr std::uint32_t kMissing = 1;

struct Options {
  std::uint32_t threads = 1;  // of the server
  std::uint32_t window = 8;
  std::uint64_t operations = 1'000'000;
  Mix mix;
};

std::string name_of(std::uint32_t partition) { return "kv." + std::to_string(partition); }

// ---- The server ----------------------------------------------------------------------------------------------

class Partition {
 public:
  ripc::Error open(ripc::Context& context, const std::string& name, std::uint64_t keys) {
    auto service = context.register_service({.name = name});
    if (!service) return service.error();
    service_ = *std::move(service);
    auto rpc = ripc::Rpc::create(service_, {.slots = 64});
    if (!rpc) return rpc.error();
    rpc_ = *std::move(rpc);
    values_.reserve(keys);
    if (auto error = rpc_.on(kGet, [this](ripc::Request request) { get(request); }); !error.ok()) return error;
    return rpc_.on(kPut, [this](ripc::Request request) { put(request); });
  }
  void run(const std::atomic<bool>& stop) {
    if (const auto error = run_until(rpc_, stop); !error.ok()) (void)fail("kv: run", error);
  }
  void interrupt() { (void)service_.interrupt(); }
  std::size_t size() const { return values_.size(); }

 private:
  void get(ripc::Request& request) {
    const auto key = plain<Key>(request.item(0));
    if (!key) return request.drop(RIPC_CORRUPT);
    const auto found = values_.find(*key);
    if (found == values_.end()) return answer(request, kMissing);
    const ripc::Item value = plain_item(found->second);
    answer(request, std::span(&value, 1));
  }
  void put(ripc::Request& request) {
    const auto key = plain<Key>(request.item(0));
    const auto value = plain<Value>(request.item(1));
    if (!key || !value) return request.drop(RIPC_CORRUPT);
    values_[*key] = *value;
    answer(request, kDone);
  }

  absl::flat_hash_map<Key, Value> values_;
  ripc::Service service_;
  ripc::Rpc rpc_;
};

int serve(const Options& options) {
  const StopSignals signals;
  auto context = ripc::Context::create();
  if (!context) return fail("kv: no context", context.error());
  std::deque<Partition> partitions(options.threads);
  for (std::uint32_t index = 0; index < options.threads; ++index) {
    const auto error = partitions[index].open(*context, name_of(index), options.mix.keys / options.threads * 5 / 4);
    if (!error.ok()) return fail("kv: no service", error);
  }
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (Partition& partition : partitions) threads.emplace_back([&] { partition.run(stop); });
  std::puts("kv: serving");
  std::fflush(stdout);
  signals.wait();
  stop = true;
  for (Partition& partition : partitions) partition.interrupt();
  for (std::thread& thread : threads) thread.join();
  std::size_t keys = 0;
  for (const Partition& partition : partitions) keys += partition.size();
  std::printf("kv: %zu keys\n", keys);
  return 0;
}

// ---- The client ----------------------------------------------------------------------------------------------

// Keeps `window` calls under way, each in a coroutine that makes one call after the other.
class Client {
 public:
  Client(ripc::Rpc& rpc, std::vector<ripc::ServiceId> servers, Report& report)
      : rpc_(rpc), servers_(std::move(servers)), report_(report) {}

  ripc::Error run(const std::vector<Operation>& operations, std::uint64_t count, std::uint32_t window) {
    operations_ = &operations;
    left_ = count;
    report_.start();
    std::vector<ripc::Task<>> tasks;
    for (std::uint32_t index = 0; index < window; ++index) tasks.push_back(work());
    for (auto& task : tasks) task.start();
    while (std::any_of(tasks.begin(), tasks.end(), [](const auto& task) { return !task.done(); })) {
      const auto events = rpc_.run();
      if (!events.ok() && events.code() != RIPC_INTERRUPTED) return events.error();
    }
    return {};
  }

 private:
  ripc::Task<> work() {
    auto start = Clock::now();
    while (left_ > 0) {
      const Operation& operation = (*operations_)[--left_ % operations_->size()];
      const Value value = operation.is_put ? make_value(operation.key, ++version_) : Value{};
      const std::array items = {plain_item(operation.key), plain_item(value)};
      const std::span<const ripc::Item> sent(items.data(), operation.is_put ? 2 : 1);
      const auto result = co_await rpc_.call(servers_[operation.partition], operation.is_put ? kPut : kGet, sent);
      if (!result.answered()) ++report_.failed;
      const auto end = Clock::now();
      report_.ended(start, end, is_right(operation, result));
      start = end;
    }
  }
  static bool is_right(const Operation& operation, const ripc::CallResult& result) {
    if (result.code() != kDone) return false;
    if (operation.is_put) return result.item_count() == 0;
    const auto value = plain<Value>(result.item(0));
    return value && is_value_of(operation.key, *value);
  }

  ripc::Rpc& rpc_;
  std::vector<ripc::ServiceId> servers_;
  Report& report_;
  const std::vector<Operation>* operations_ = nullptr;
  std::uint64_t left_ = 0;
  std::uint64_t version_ = 0;
};

int measure(Options options) {
  auto context = ripc::Context::create();
  if (!context) return fail("kv: no context", context.error());
  std::vector<ripc::ServiceId> servers;
  for (std::uint32_t index = 0; index < options.threads; ++index) {
    const auto server = context->wait_service(name_of(index), std::chrono::seconds(10));
    if (!server) return fail("kv: no server", server.error());
    servers.push_back(server->id);
  }
  auto service = context->register_service();
  if (!service) return fail("kv: no service", service.error());
  auto rpc = ripc::Rpc::create(*service, {.slots = std::bit_ceil(options.window)});
  if (!rpc) return fail("kv: no endpoint", rpc.error());

  options.mix.partitions = options.threads;
  constexpr std::size_t kSequence = 1 << 20;
  constexpr std::uint32_t kFillWindow = 16;
  const auto filling = make_filling(options.mix);
  const auto operations = make_operations(options.mix, std::min<std::size_t>(options.operations, kSequence));
  Report report(std::max<std::size_t>(options.operations, filling.size()));
  Client client(*rpc, servers, report);
  if (auto error = client.run(filling, filling.size(), kFillWindow); !error.ok()) return fail("kv: run", error);
  if (!report.is_clean()) return std::fprintf(stderr, "kv: not every key could be put\n"), 1;
  if (auto error = client.run(operations, options.operations, options.window); !error.ok())
    return fail("kv: run", error);
  auto json = report.json();
  json["window"] = options.window;
  json["gets"] = options.mix.gets;
  json["skew"] = options.mix.skew;
  json["keys"] = options.mix.keys;
  json["threads"] = options.threads;
  std::puts(json.dump().c_str());
  return report.is_clean() ? 0 : 1;
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("HERD's key-value service over calls");
  app.require_subcommand(1);
  auto* server = app.add_subcommand("server", "answers gets and puts");
  auto* client = app.add_subcommand("client", "puts all keys, then measures");
  for (auto* each : {server, client}) {
    each->add_option("--threads", options.threads, "of the server")->check(CLI::Range(1, 64))->capture_default_str();
    each->add_option("--keys", options.mix.keys)->check(CLI::Range(1, 100'000'000))->capture_default_str();
  }
  client->add_option("--window", options.window, "calls under way")->check(CLI::Range(1, 256))->capture_default_str();
  client->add_option("--operations", options.operations)->check(CLI::PositiveNumber)->capture_default_str();
  client->add_option("--gets", options.mix.gets, "their share")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  client->add_option("--skew", options.mix.skew, "of Zipf's distribution; 0: uniform")
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str();
  client->add_option("--seed", options.mix.seed)->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return server->parsed() ? serve(options) : measure(options);
}

}  // namespace
}  // namespace kv

int main(int argc, char** argv) { return kv::main(argc, argv); }
