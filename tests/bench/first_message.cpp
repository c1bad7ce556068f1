// SPDX-License-Identifier: Apache-2.0
// Measures what first contact costs between two contexts of this process that have never communicated. It measures
// again after another context has replaced one of them under the same ID.
//
//   bench_first_message [TRANSPORT [ROUNDS]]      default: verbs 20
//
// Prints one JSON object: medians, in nanoseconds, from the send until the message was received.
//   short_first                to a service just registered
//   long_first                 the next one, 4 KiB of leased memory; over RDMA and sockets it makes a connection
//   short_again, long_again    the messages after these
//   *_restarted                the first messages to the service that replaced the other one
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <ripc/ripc.hpp>
#include <string>
#include <vector>

#include "support/cluster_key.hpp"

namespace {

constexpr std::size_t kLong = 4096;
constexpr ripc::Nanoseconds kPatience = std::chrono::seconds(30);

void check(const ripc::Error& error) {
  if (error.ok()) return;
  std::fprintf(stderr, "bench_first_message: %s\n", std::string(error.text()).c_str());
  std::exit(1);
}

template <typename T>
T value(ripc::Result<T> result) {
  check(result.error());
  return std::move(*result);
}

// The times of each step, by its name.
using Times = std::map<std::string, std::vector<long long>>;

class Contact {
 public:
  Contact(const ripc::ContextOptions& options, Times& times)
      : options_(options),
        times_(times),
        context_(value(ripc::Context::create(options))),
        service_(value(context_.register_service())),
        buffer_(value(context_.lease(kLong))) {
    std::memset(buffer_.bytes().data(), 1, kLong);
  }

  // To the client, the new context looks like another process.
  void start_server() {
    server_.reset();
    server_context_.reset();
    server_context_ = std::make_unique<ripc::Context>(value(ripc::Context::create(options_)));
    ripc::ServiceOptions options;
    options.id = 4711;
    server_ = std::make_unique<ripc::Service>(value(server_context_->register_service(options)));
    window_.resize(kLong);
  }

  void send(const std::string& step, bool is_long) {
    if (is_long) check(server_->post_window(std::as_writable_bytes(std::span(window_)), 0));
    const ripc::Item item =
        is_long ? ripc::borrow(buffer_.bytes().first(kLong)) : ripc::short_item(buffer_.bytes().first(64));
    const auto start = std::chrono::steady_clock::now();
    const ripc::Ticket ticket = value(service_.send(server_->id(), {item}));
    const ripc::Message message = value(server_->receive(kPatience));
    const auto took = std::chrono::steady_clock::now() - start;
    if (message.item(0).bytes().size() != (is_long ? kLong : 64)) std::exit(1);
    times_[step].push_back(std::chrono::nanoseconds(took).count());
  }

 private:
  const ripc::ContextOptions& options_;
  Times& times_;
  std::vector<std::byte> window_;
  ripc::Context context_;
  ripc::Service service_;
  ripc::Buffer buffer_;
  std::unique_ptr<ripc::Context> server_context_;
  std::unique_ptr<ripc::Service> server_;
};

}  // namespace

int main(int count, char** arguments) {
  support::use_cluster_key();
  ripc::ContextOptions options;
  options.transports = count > 1 ? arguments[1] : "verbs";
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 20;
  Times times;
  for (int round = 0; round < rounds; ++round) {
    Contact contact(options, times);
    contact.start_server();
    contact.send("short_first", false);
    contact.send("long_first", true);
    contact.send("short_again", false);
    contact.send("long_again", true);
    contact.start_server();
    contact.send("short_restarted", false);
    contact.send("long_restarted", true);
  }
  std::printf("{\"transport\": \"%s\", \"rounds\": %d", options.transports.c_str(), rounds);
  for (auto& [step, each] : times) {
    std::sort(each.begin(), each.end());
    std::printf(", \"%s\": %lld", step.c_str(), each[each.size() / 2]);
  }
  std::printf("}\n");
  return 0;
}
