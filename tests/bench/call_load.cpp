// SPDX-License-Identifier: Apache-2.0
// Many clients and servers of calls in two processes, for scripts/bench-calls.
//
//   bench_call_load serve WORD=NUMBER...      until its input ends
//     servers=1     services "load 0" to "load N-1", each with an endpoint, in one thread
//     work=0        microseconds that a handler spins
//     slow_work=50  the same for slow calls
//     slow_wait=0   microseconds that a slow call sleeps, as if it waited for a disk
//     workers=0     threads for slow calls; 0: slow calls run in the endpoint's thread, like all others
//   bench_call_load load WORD=NUMBER...
//     clients=1     endpoints, in one thread
//     servers=1     the same number as in the other process; calls go to all servers in turn
//     window=8      concurrent calls of each client; with a rate: the most at once
//     rate=0        calls per second of all clients together; 0: as many as the window allows
//     slow=0        how many of 1,000 calls are slow; their times are not counted
//     size=32       bytes of the argument; the answer has 8
//     timeout=5000  milliseconds that a call may take
//     seconds=3     how long to measure, after one second of warm-up
//     idle=0        seconds without calls before the memory is read for the last time
//
// Each role prints JSON. Paths and sizes come from the environment (docs/tuning.md).
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"
#include "support/process_state.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using std::chrono::microseconds;

constexpr std::uint32_t kMethod = 1;
constexpr std::uint32_t kSlowMethod = 2;

std::map<std::string, std::uint64_t> words;
std::uint64_t word(const std::string& name) { return words.at(name); }

// Reads NAME=NUMBER words, which override the defaults.
bool read_words(std::span<char*> given, std::map<std::string, std::uint64_t> defaults) {
  words = std::move(defaults);
  for (const std::string text : given) {
    const auto equals = text.find('=');
    const auto known = words.find(text.substr(0, equals));
    if (equals == std::string::npos || known == words.end()) {
      std::fprintf(stderr, "bench_call_load: unknown word '%s': see the top of tests/bench/call_load.cpp\n",
                   text.c_str());
      return false;
    }
    known->second = std::stoull(text.substr(equals + 1));
  }
  return true;
}

[[noreturn]] void fail(const char* what, const ripc::Error& error) {
  std::fprintf(stderr, "bench_call_load: %s: %s\n", what, std::string(error.text()).c_str());
  std::_Exit(1);
}

// Bytes of memory that this process shares with no other.
std::uint64_t memory() { return support::memory_of("Private_Dirty:"); }

std::int64_t grown_since(std::uint64_t before) {
  return static_cast<std::int64_t>(memory()) - static_cast<std::int64_t>(before);
}

std::uint64_t server_id(std::uint64_t index) { return *ripc::id_from_name("load " + std::to_string(index)); }

void spin(microseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

void wait(microseconds time) {
  if (time != microseconds::zero()) std::this_thread::sleep_for(time);
}

// A service and its endpoint.
struct End {
  ripc::Service service;
  ripc::Rpc rpc;
};

End make_end(ripc::Context& context, const std::string& name, const ripc::RpcOptions& options) {
  auto service = context.register_service({.name = name});
  if (!service.ok()) fail("register", service.error());
  auto rpc = ripc::Rpc::create(*service, options);
  if (!rpc.ok()) fail("create", rpc.error());
  return {*std::move(service), *std::move(rpc)};
}

// ---- Serving -------------------------------------------------------------------------------------------------

bool input_has_ended() {
  pollfd input{0, POLLIN, 0};
  return ::poll(&input, 1, 0) == 1;
}

int serve() {
  auto context = ripc::Context::create();
  if (!context.ok()) fail("context", context.error());
  std::atomic<std::uint64_t> late{0};
  std::atomic<std::uint64_t> count{0};
  const auto handler = [&](microseconds work, microseconds sleep) {
    return [&, work, sleep](ripc::Request request) {
      if (request.time_left() == ripc::Nanoseconds::zero()) ++late;
      const std::uint64_t number = ++count;
      spin(work);
      wait(sleep);
      (void)request.reply(std::as_bytes(std::span(&number, 1)));
    };
  };
  std::vector<End> ends;
  const auto workers = static_cast<std::uint32_t>(word("workers"));
  for (std::uint64_t index = 0; index < word("servers"); ++index) {
    ends.push_back(make_end(*context, "load " + std::to_string(index), {.workers = workers}));
    ripc::Rpc& rpc = ends.back().rpc;
    if (const auto error = rpc.on(kMethod, handler(microseconds(word("work")), microseconds(0))); !error.ok())
      fail("on", error);
    const auto slow = handler(microseconds(word("slow_work")), microseconds(word("slow_wait")));
    if (const auto error = rpc.on(kSlowMethod, slow, workers != 0 ? RIPC_RPC_WORKER : 0); !error.ok())
      fail("on", error);
  }
  std::puts("ready");
  std::fflush(stdout);
  const std::uint64_t memory_before = memory();
  for (std::uint64_t turn = 0; turn % 64 != 0 || !input_has_ended(); ++turn) {
    const auto time = ends.size() == 1 ? ripc::Nanoseconds(std::chrono::milliseconds(1)) : ripc::kNoWait;
    for (End& end : ends) (void)end.rpc.run(time);
  }
  Json json;
  ripc_rpc_statistics sum{};
  for (End& end : ends) {
    const auto one = end.rpc.statistics();
    sum.requests_run += one->requests_run;
    sum.requests_refused += one->requests_refused;
    sum.requests_expired += one->requests_expired;
    sum.duplicates += one->duplicates;
    sum.answers_repeated += one->answers_repeated;
    sum.sessions_served += one->sessions_served;
  }
  json["run"] = sum.requests_run;
  json["refused"] = sum.requests_refused;
  json["expired"] = sum.requests_expired;
  json["started_late"] = late.load();
  json["duplicates"] = sum.duplicates;
  json["answers_repeated"] = sum.answers_repeated;
  json["sessions"] = sum.sessions_served;
  json["memory"] = grown_since(memory_before);
  std::puts(json.dump().c_str());
  return 0;
}

// ---- Loading -------------------------------------------------------------------------------------------------

class Client {
 public:
  Client(End end, std::uint64_t index) : end_(std::move(end)), next_server_(index), argument_(word("size")) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool may_begin() const { return under_way_ < window_; }
  void begin() {
    const ripc_service_id to = server_id_of(next_server_++ % servers_);
    const ripc_item item{argument_.data(), argument_.size(), RIPC_ITEM_AUTO, 0};
    ripc_call_options options;
    ripc_call_options_init(&options);
    options.timeout = timeout_;
    const std::uint32_t method = ++calls_ * 7919 % 1000 < slow_ ? kSlowMethod : kMethod;
    const ripc_status status =
        ripc_rpc_call(end_.rpc.handle(), to, method, &item, 1, &options, &Client::done, this, nullptr);
    if (status == RIPC_OK) {
      ++under_way_;
    } else if (status != RIPC_AGAIN) {
      fail("call", ripc::Error::from_last_call(status));
    }
  }
  void run() { (void)end_.rpc.run(ripc::kNoWait); }
  // Sends the server a message, so that a path to it exists.
  void meet(std::uint64_t server) { (void)end_.service.send(server_id_of(server), {}); }
  ripc::Rpc& rpc() { return end_.rpc; }
  std::uint64_t under_way() const { return under_way_; }

  static std::map<std::string, std::uint64_t> ends_;
  static bool counts_;

 private:
  static std::uint64_t server_id_of(std::uint64_t index) {
    static std::vector<std::uint64_t> known;
    while (known.size() <= index) known.push_back(server_id(known.size()));
    return known[index];
  }
  static void done(void* user, const ripc_call_result* result) {
    auto& self = *static_cast<Client*>(user);
    --self.under_way_;
    ripc_message_release(result->message);
    if (counts_) ++ends_[ripc_status_name(static_cast<ripc_status>(result->status))];
  }

  End end_;
  std::uint64_t next_server_;
  std::uint64_t under_way_ = 0;
  const std::uint64_t servers_ = word("servers");
  const std::uint64_t slow_ = word("slow");
  std::uint64_t calls_ = 0;
  const std::uint64_t window_ = word("window");
  const std::uint64_t timeout_ = word("timeout") * 1'000'000;
  std::vector<std::byte> argument_;
};
std::map<std::string, std::uint64_t> Client::ends_;
bool Client::counts_ = false;

// Makes calls until `end`. With a rate, a call begins when it is due, not when earlier calls are answered.
void run_until(std::vector<std::unique_ptr<Client>>& clients, Clock::time_point end) {
  const auto begun = Clock::now();
  std::uint64_t calls = 0;
  const auto rate = static_cast<double>(word("rate"));
  while (Clock::now() < end) {
    if (rate == 0) {
      for (const auto& client : clients) {
        while (client->may_begin()) client->begin();
      }
    } else {
      const double due = std::chrono::duration<double>(Clock::now() - begun).count() * rate;
      for (; static_cast<double>(calls) < due; ++calls) {
        Client& client = *clients[calls % clients.size()];
        if (client.may_begin()) client.begin();
      }
    }
    for (const auto& client : clients) client->run();
  }
}

int load() {
  auto context = ripc::Context::create();
  if (!context.ok()) fail("context", context.error());
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint64_t index = 0; index < word("clients"); ++index)
    clients.push_back(std::make_unique<Client>(make_end(*context, "", {}), index));
  for (const auto& client : clients) {
    for (std::uint64_t server = 0; server < word("servers"); ++server) client->meet(server);
  }
  const std::uint64_t memory_before = memory();
  // One call from each client to each server opens every session.
  for (std::uint64_t server = 0; server < word("servers"); ++server) {
    for (const auto& client : clients) client->begin();
    for (const auto& client : clients) {
      while (client->under_way() != 0) client->run();
    }
  }
  run_until(clients, Clock::now() + std::chrono::seconds(1));
  Client::counts_ = true;
  const auto before = Clock::now();
  run_until(clients, before + std::chrono::seconds(word("seconds")));
  const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
  Client::counts_ = false;
  Json json;
  json["seconds"] = seconds;
  json["ends"] = Client::ends_;
  json["answered_per_second"] = static_cast<double>(Client::ends_["RIPC_OK"]) / seconds;
  ripc_latency worst{};
  std::uint64_t repeats = 0, sessions = 0;
  for (const auto& client : clients) {
    const auto methods = client->rpc().methods();
    if (!methods->empty() && methods->front().call_time.p99 >= worst.p99) worst = methods->front().call_time;
    const auto statistics = client->rpc().statistics();
    repeats += statistics->repeats;
    sessions += statistics->sessions_opened;
  }
  json["repeats"] = repeats;
  json["sessions"] = sessions;
  json["worst_client_ns"] = {{"p50", worst.p50}, {"p99", worst.p99}, {"p999", worst.p999}};
  for (const auto until = Clock::now() + std::chrono::seconds(word("idle")); Clock::now() < until;) {
    for (const auto& client : clients) client->run();
  }
  json["memory"] = grown_since(memory_before);
  std::puts(json.dump().c_str());
  return 0;
}

}  // namespace

int main(int count, char** given) {
  const std::string role = count > 1 ? given[1] : "";
  const auto rest =
      std::span(given, static_cast<std::size_t>(count)).subspan(count > 2 ? 2 : static_cast<std::size_t>(count));
  if (role == "serve") {
    if (!read_words(rest, {{"servers", 1}, {"work", 0}, {"slow_work", 50}, {"slow_wait", 0}, {"workers", 0}})) return 2;
    // By default a thread sleeps 50 us longer than it asks for.
    (void)::prctl(PR_SET_TIMERSLACK, 1UL);
    return serve();
  }
  if (role == "load") {
    if (!read_words(rest, {{"clients", 1},
                           {"servers", 1},
                           {"window", 8},
                           {"rate", 0},
                           {"slow", 0},
                           {"size", 32},
                           {"timeout", 5000},
                           {"seconds", 3},
                           {"idle", 0}}))
      return 2;
    return load();
  }
  std::fputs("bench_call_load: serve or load? See the top of tests/bench/call_load.cpp\n", stderr);
  return 2;
}
