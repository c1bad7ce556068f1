// SPDX-License-Identifier: Apache-2.0
// FaSST's object store over calls: transactions on objects that are spread over several server processes. Each
// transaction that writes moves money between accounts, so the sum of all stays the same, whichever client is killed.
// docs/performance/kv.md says more.
//
//   transactions server --index N     serves objects.N; one process for each N below --servers
//   transactions client [--reads N] [--writes N] [--batch N] [--count N] [--die-in PHASE]
//                                     runs transactions, `batch` of them at a time; prints JSON
//   transactions audit                checks all objects; prints JSON; exit code 1 if a lock, value or sum is wrong
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coordinator.hpp"
#include "report.hpp"
#include "store_server.hpp"

namespace kv {
namespace {

struct Options {
  std::size_t servers = 3;
  std::uint64_t objects = 1'000'000;  // of each server
  std::size_t index = 0;
  std::size_t reads = 4;
  std::size_t writes = 2;
  std::size_t batch = 1;
  std::uint64_t count = 100'000;
  std::uint64_t seed = 1;
  std::uint64_t say_every = UINT64_MAX;
  std::uint32_t die_in = 0;
  std::uint64_t die_after = 0;
};

int serve(const Options& options) {
  const StopSignals signals;
  auto context = ripc::Context::create();
  if (!context) return fail("transactions: no context", context.error());
  StoreServer server(options.index, options.servers, options.objects);
  if (auto error = server.open(*context); !error.ok()) return fail("transactions: no service", error);
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    if (const auto error = server.run(stop); !error.ok()) (void)fail("transactions: run", error);
  });
  std::puts("transactions: serving");
  std::fflush(stdout);
  signals.wait();
  stop = true;
  server.interrupt();
  thread.join();
  return 0;
}

ripc::Result<std::vector<ripc::ServiceId>> find_servers(ripc::Context& context, const Options& options) {
  std::vector<ripc::ServiceId> servers;
  for (std::size_t index = 0; index < options.servers; ++index) {
    const auto server = context.wait_service(server_name(index), std::chrono::seconds(10));
    if (!server) return server.error();
    servers.push_back(server->id);
  }
  return servers;
}

class Client {
 public:
  Client(ripc::Rpc& rpc, const std::vector<ripc::ServiceId>& servers, const Options& options)
      : coordinator_(rpc, servers), options_(options), random_(options.seed), report_(options.count) {
    coordinator_.die_in(options.die_in, options.die_after);
  }

  ripc::Error run(ripc::Rpc& rpc) {
    auto opening = coordinator_.open();
    opening.start();
    while (!opening.done())
      if (const auto events = rpc.run(); !events.ok()) return events.error();
    if (!opening.result()) return ripc::Error(RIPC_REFUSED);
    report_.start();
    std::vector<ripc::Task<>> tasks;
    for (std::size_t index = 0; index < options_.batch; ++index) tasks.push_back(work());
    for (auto& task : tasks) task.start();
    while (std::any_of(tasks.begin(), tasks.end(), [](const auto& task) { return !task.done(); }))
      if (const auto events = rpc.run(); !events.ok() && events.code() != RIPC_INTERRUPTED) return events.error();
    return {};
  }
  int print() {
    auto json = report_.json();
    json["aborted"] = aborted_;
    json["reads"] = options_.reads;
    json["writes"] = options_.writes;
    json["batch"] = options_.batch;
    json["servers"] = options_.servers;
    std::puts(json.dump().c_str());
    return report_.is_clean() ? 0 : 1;
  }

 private:
  // Takes each object from another server, as long as there are enough servers.
  Plan make_plan() {
    Plan plan{{}, options_.writes, static_cast<std::int64_t>(random_() % 10)};
    const std::uint64_t first = random_();
    while (plan.objects.size() < options_.reads) {
      const std::uint64_t server = (first + plan.objects.size()) % options_.servers;
      const ObjectKey key = random_() % options_.objects * options_.servers + server;
      if (std::find(plan.objects.begin(), plan.objects.end(), key) == plan.objects.end()) plan.objects.add(key);
    }
    return plan;
  }
  ripc::Task<> work() {
    while (committed_ < options_.count) {
      const auto start = Clock::now();
      const End end = co_await coordinator_.run(make_plan());
      if (end == End::kAborted) {
        ++aborted_;
        continue;
      }
      if (end == End::kFailed) {
        ++report_.failed;
        co_return;
      }
      report_.ended(start, Clock::now(), end == End::kCommitted);
      ++committed_;
      if (committed_ % options_.say_every != 0) continue;
      std::printf("transactions: %llu committed\n", static_cast<unsigned long long>(committed_));
      std::fflush(stdout);
    }
  }

  Coordinator coordinator_;
  const Options& options_;
  std::mt19937_64 random_;
  Report report_;
  std::uint64_t committed_ = 0;
  std::uint64_t aborted_ = 0;
};

int audit(ripc::Rpc& rpc, const std::vector<ripc::ServiceId>& servers) {
  Audit all{};
  for (const ripc::ServiceId server : servers) {
    const auto result = rpc.call_wait(server, kAudit);
    const auto one = result.answered() ? plain<Audit>(result.item(0)) : std::nullopt;
    if (!one) return fail("transactions: audit", result.error());
    all.objects += one->objects;
    all.sum += one->sum;
    all.locked += one->locked;
    all.damaged += one->damaged;
    all.dead += one->dead;
    all.given_up += one->given_up;
    all.brought_home += one->brought_home;
  }
  const std::int64_t missing = static_cast<std::int64_t>(all.objects) * kOpeningBalance - all.sum;
  const nlohmann::ordered_json json = {
      {"objects", all.objects},          {"missing", missing}, {"locked", all.locked},
      {"damaged", all.damaged},          {"dead", all.dead},   {"given_up", all.given_up},
      {"brought_home", all.brought_home}};
  std::puts(json.dump().c_str());
  return missing == 0 && all.locked == 0 && all.damaged == 0 ? 0 : 1;
}

int call(const Options& options, bool is_audit) {
  // A server that is busy with commits has little time for new clients.
  auto context = ripc::Context::create({.resolve_timeout = std::chrono::seconds(20)});
  if (!context) return fail("transactions: no context", context.error());
  const auto servers = find_servers(*context, options);
  if (!servers) return fail("transactions: no server", servers.error());
  auto service = context->register_service();
  if (!service) return fail("transactions: no service", service.error());
  auto rpc = ripc::Rpc::create(*service, {.slots = 64});
  if (!rpc) return fail("transactions: no endpoint", rpc.error());
  if (is_audit) return audit(*rpc, *servers);
  Client client(*rpc, *servers, options);
  if (const auto error = client.run(*rpc); !error.ok()) return fail("transactions: run", error);
  return client.print();
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("FaSST's object store over calls");
  app.require_subcommand(1);
  auto* server = app.add_subcommand("server", "has a part of the objects");
  auto* client = app.add_subcommand("client", "makes transactions");
  auto* audit = app.add_subcommand("audit", "looks at all objects");
  for (auto* each : {server, client, audit}) {
    each->add_option("--servers", options.servers)->check(CLI::Range(1, 8))->capture_default_str();
    each->add_option("--objects", options.objects, "of each server")
        ->check(CLI::Range(8, 100'000'000))
        ->capture_default_str();
  }
  server->add_option("--index", options.index, "of this server")->required()->check(CLI::Range(0, 7));
  client->add_option("--reads", options.reads, "objects that a transaction reads")->check(CLI::Range(1, 8));
  client->add_option("--writes", options.writes, "how many of them it writes")->check(CLI::IsMember({0, 2, 3, 4}));
  client->add_option("--batch", options.batch, "transactions under way")->check(CLI::Range(1, 32));
  client->add_option("--count", options.count, "transactions")->capture_default_str();
  client->add_option("--seed", options.seed)->capture_default_str();
  client->add_option("--say-every", options.say_every, "prints a line each time so many are committed");
  const std::map<std::string, std::uint32_t> phases = {
      {"execute", kExecute}, {"validate", kValidate}, {"log", kLog}, {"commit", kCommit}};
  client->add_option("--die-in", options.die_in, "kills itself in the middle of this phase")
      ->transform(CLI::CheckedTransformer(phases));
  client->add_option("--die-after", options.die_after, "transactions");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.writes > options.reads) return std::fputs("transactions: more writes than reads\n", stderr), 2;
  if (options.index >= options.servers) return std::fputs("transactions: no such server\n", stderr), 2;
  return server->parsed() ? serve(options) : call(options, audit->parsed());
}

}  // namespace
}  // namespace kv

int main(int argc, char** argv) { return kv::main(argc, argv); }
