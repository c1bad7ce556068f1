// SPDX-License-Identifier: Apache-2.0
// Measures what a short message gains if it does not wait for the long one before it (RIPC_SEND_UNORDERED). It runs as
// two processes, which find each other as the environment says. scripts/bench-rails runs them on two hosts.
//
//   bench_overtaking serve             until it is killed; prints a line when it is ready
//   bench_overtaking run [ROUNDS]      default: 20
//
// Prints one JSON object: medians, in nanoseconds, in order and unordered. The time runs from the send of a 16 MiB
// item, with 64 bytes right behind it, until the 64 bytes are answered. The key "empty" is without the long item.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ripc/ripc.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kLong = std::size_t{16} << 20;
constexpr const char* kName = "overtaking";
constexpr ripc::Nanoseconds kPatience = std::chrono::seconds(30);
enum Tag : std::uint32_t { kIsLong, kIsShort };

void check(const ripc::Error& error) {
  if (error.ok()) return;
  std::fprintf(stderr, "bench_overtaking: %s\n", std::string(error.text()).c_str());
  std::exit(1);
}

template <typename T>
T value(ripc::Result<T> result) {
  check(result.error());
  return std::move(*result);
}

[[noreturn]] void serve() {
  ripc::Context context = value(ripc::Context::create());
  ripc::ServiceOptions options;
  options.name = kName;
  ripc::Service service = value(context.register_service(options));
  std::vector<std::byte> window(kLong);
  check(service.post_window(window));
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) {
    const ripc::Message message = value(service.receive());
    if (message.tag() == kIsShort) {
      (void)value(service.reply(message, message.item(0).bytes()));
    } else {
      check(service.post_window(window));
    }
  }
}

class Client {
 public:
  // Returns the time until the answer, in nanoseconds.
  long long ask(bool is_beside, bool is_unordered) {
    ripc::Ticket ticket;
    const auto start = std::chrono::steady_clock::now();
    if (is_beside) ticket = value(service_.send(server_, ripc::borrow(buffer_.bytes()), {.tag = kIsLong}));
    (void)value(service_.send(server_, buffer_.bytes().first(64), {.tag = kIsShort, .unordered = is_unordered}));
    (void)value(service_.receive(kPatience));
    const auto took = std::chrono::steady_clock::now() - start;
    if (is_beside) check(ticket.wait(kPatience));
    return std::chrono::nanoseconds(took).count();
  }

 private:
  ripc::Context context_ = value(ripc::Context::create());
  ripc::Service service_ = value(context_.register_service());
  ripc::Buffer buffer_ = value(context_.lease(kLong));
  const ripc::ServiceId server_ = value(context_.wait_service(kName, kPatience)).id;
};

}  // namespace

int main(int count, char** arguments) {
  const std::string_view role = count > 1 ? arguments[1] : "";
  if (role == "serve") serve();
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 20;
  if (role != "run" || rounds < 1) {
    std::fprintf(stderr, "usage: %s serve|run [ROUNDS]\n", arguments[0]);
    return 2;
  }
  Client client;
  (void)client.ask(true, false);
  std::map<std::string, std::vector<long long>> times;
  for (int round = 0; round < rounds; ++round) {
    times["empty"].push_back(client.ask(false, false));
    times["ordered"].push_back(client.ask(true, false));
    times["unordered"].push_back(client.ask(true, true));
  }
  std::printf("{\"rounds\": %d", rounds);
  for (auto& [name, each] : times) {
    std::sort(each.begin(), each.end());
    std::printf(", \"%s\": %lld", name.c_str(), each[each.size() / 2]);
  }
  std::printf("}\n");
  return 0;
}
