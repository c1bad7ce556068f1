// SPDX-License-Identifier: Apache-2.0
// Measures how much the multicast resolver sends. One process runs any number of real resolvers on the loopback
// interface. Each of them is a context with its share of the services.
//
//   bench_multicast_traffic [SERVICES [CONTEXTS]]      default: 1000 services, 100 contexts
//   bench_multicast_traffic latency                    a cold resolve between two contexts, and a bare UDP round
//                                                      trip; also over the datagrams of an RDMA device, if there is one
//
// Prints one JSON object. "sent" counts a packet once, as the wire of a switched network would; "heard" is what each
// context must look at, on average.
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/unique_fd.hpp"
#include "core/service_id.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#ifdef RIPC_WITH_VERBS
#include "capi/fabric_multicast.hpp"
#endif

namespace {

using ripc::internal::Deadline;
using ripc::internal::Nanoseconds;
using ripc::internal::Result;
using ripc::internal::Status;
using ripc::internal::resolver::MulticastCounters;
using ripc::internal::resolver::MulticastOptions;
using ripc::internal::resolver::MulticastResolver;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::size_t kPublishers = 8;  // contexts that start at the same time
constexpr std::size_t kResolves = 500;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "multicast_traffic: %s\n", what.c_str());
  std::exit(1);
}

MulticastOptions make_options() {
  const std::string port = std::to_string(20000 + ripc::internal::random_u64() % 12000);
  Result<MulticastOptions> options =
      ripc::internal::resolver::parse_multicast_options("239.255.82.73:" + port + "%lo,ttl=0");
  if (!options.ok()) fail(std::string(options.status().text()));
  options->hash_name = ripc::internal::core::id_of_name;
  return *options;
}

struct Context {
  explicit Context(const MulticastOptions& options, MulticastResolver::Networks networks = {})
      : id(ripc::internal::random_u64() | 1) {
    Result<std::unique_ptr<MulticastResolver>> made = MulticastResolver::create(options, id, std::move(networks));
    if (!made.ok()) fail(std::string(made.status().text()));
    resolver = std::move(*made);
  }
  ripc::internal::spi::ServiceRecord publish(const std::string& name) const {
    ripc::internal::spi::ServiceRecord record;
    record.id = *ripc::internal::core::id_of_name(name);
    record.name = name;
    record.context = id;
    record.pid = static_cast<std::uint32_t>(::getpid());
    // What a host with two addresses publishes.
    record.addresses = {{"shm", "#0123456789abcdef"},
                        {"socket",
                         "ctx=0123456789abcdef;host=6f1c2b7e-0000-4000-8000-000000000000,4026531840;port=40000;"
                         "ip=10.0.0.17;ip=fd00::17"}};
    const Status status = resolver->publish(record, false, nullptr);
    if (!status.ok()) fail(std::string(status.text()));
    return record;
  }
  std::uint64_t id;
  std::unique_ptr<MulticastResolver> resolver;
};
using Contexts = std::vector<std::unique_ptr<Context>>;

struct Traffic {
  std::uint64_t questions = 0, replies = 0, announcements = 0, packets = 0, bytes = 0, heard = 0, heard_bytes = 0;
};

Traffic traffic_of(const Contexts& contexts) {
  Traffic total;
  for (const auto& context : contexts) {
    const MulticastCounters counters = context->resolver->counters();
    total.questions += counters.questions_sent;
    total.replies += counters.replies_sent;
    total.announcements += counters.announcements_sent;
    total.packets += counters.packets_sent;
    total.bytes += counters.bytes_sent;
    total.heard += counters.packets_received;
    total.heard_bytes += counters.bytes_received;
  }
  return total;
}

// Waits until no context has sent or received anything for a while.
void settle(const Contexts& contexts) {
  for (Traffic before = traffic_of(contexts);;) {
    const timespec pause{1, 200'000'000};
    ::nanosleep(&pause, nullptr);
    const Traffic now = traffic_of(contexts);
    if (now.packets == before.packets && now.heard == before.heard) return;
    before = now;
  }
}

void print(const char* name, const Traffic& before, const Traffic& after, std::size_t operations,
           std::size_t contexts) {
  const auto per = [](std::uint64_t value, std::size_t count) {
    return static_cast<double>(value) / static_cast<double>(count);
  };
  std::printf(
      ",\n  \"%s\": {\"operations\": %zu, \"questions\": %lu, \"replies\": %lu, \"announcements\": %lu, "
      "\"packets_sent\": %lu, \"bytes_sent\": %lu, \"packets_per_operation\": %.3f, \"bytes_per_operation\": %.1f, "
      "\"packets_heard_per_context\": %.1f, \"bytes_heard_per_context\": %.0f}",
      name, operations, after.questions - before.questions, after.replies - before.replies,
      after.announcements - before.announcements, after.packets - before.packets, after.bytes - before.bytes,
      per(after.packets - before.packets, operations), per(after.bytes - before.bytes, operations),
      per(after.heard - before.heard, contexts), per(after.heard_bytes - before.heard_bytes, contexts));
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string name_of(std::size_t service) { return "service-" + std::to_string(service); }

void resolve_some(const Context& context, std::size_t services, std::size_t& found) {
  for (std::size_t i = 0; i < kResolves; ++i) {
    const ripc_service_id id = *ripc::internal::core::id_of_name(name_of(ripc::internal::random_u64() % services));
    if (context.resolver->resolve(id, Deadline::after(2 * kSecond)).ok()) ++found;
  }
}

int run_traffic(std::size_t services, std::size_t count) {
  const MulticastOptions options = make_options();
  Contexts contexts;
  for (std::size_t i = 0; i < count; ++i) contexts.push_back(std::make_unique<Context>(options));
  std::printf("{\"services\": %zu, \"contexts\": %zu", services, count);

  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> publishers;
  const Nanoseconds started = ripc::internal::monotonic_now();
  for (std::size_t i = 0; i < kPublishers; ++i)
    publishers.emplace_back([&] {
      for (std::size_t context = next++; context < count; context = next++) {
        for (std::size_t service = context; service < services; service += count)
          static_cast<void>(contexts[context]->publish(name_of(service)));
      }
    });
  for (std::thread& publisher : publishers) publisher.join();
  std::printf(",\n  \"start_seconds\": %.1f", static_cast<double>(ripc::internal::monotonic_now() - started) * 1e-9);
  settle(contexts);
  const Traffic begun = traffic_of(contexts);
  print("start", {}, begun, services, count);

  const double processor = processor_seconds();
  const timespec pause{10, 0};
  ::nanosleep(&pause, nullptr);
  const double idle_seconds = processor_seconds() - processor;
  const Traffic idle = traffic_of(contexts);
  print("idle_10_s", begun, idle, 1, count);
  std::printf(",\n  \"idle_processor_seconds\": %.4f", idle_seconds);

  std::size_t found = 0;
  resolve_some(*contexts.front(), services, found);
  settle(contexts);
  const Traffic warm = traffic_of(contexts);
  print("resolve_by_a_context_that_heard_the_start", idle, warm, kResolves, count);

  contexts.push_back(std::make_unique<Context>(options));
  resolve_some(*contexts.back(), services, found);
  settle(contexts);
  const Traffic cold = traffic_of(contexts);
  print("resolve_by_a_late_context", warm, cold, kResolves, count + 1);
  std::printf(",\n  \"resolved\": %zu, \"asked\": %zu", found, 2 * kResolves);

  std::size_t listed = 0;
  const Status status = contexts.back()->resolver->list([&](const ripc::internal::spi::ServiceRecord&) { ++listed; });
  if (!status.ok()) fail(std::string(status.text()));
  settle(contexts);
  const Traffic list = traffic_of(contexts);
  print("list", cold, list, 1, count + 1);
  std::printf(",\n  \"listed\": %zu}\n", listed);
  return 0;
}

// ---- Latency -------------------------------------------------------------------------------------------------

// Returns the times of `run()`, sorted.
template <typename Run>
std::vector<Nanoseconds> measure(std::size_t iterations, const Run& run) {
  std::vector<Nanoseconds> times;
  for (std::size_t i = 0; i < iterations; ++i) {
    const Nanoseconds started = ripc::internal::monotonic_now();
    run(i);
    times.push_back(ripc::internal::monotonic_now() - started);
  }
  std::sort(times.begin(), times.end());
  return times;
}

ripc::internal::UniqueFd udp_socket(sockaddr_in& address) {
  ripc::internal::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("no UDP socket");
  return fd;
}

std::vector<Nanoseconds> measure_udp(std::size_t iterations) {
  sockaddr_in client_address;
  sockaddr_in server_address;
  const ripc::internal::UniqueFd client = udp_socket(client_address);
  const ripc::internal::UniqueFd server = udp_socket(server_address);
  char byte = 'x';
  if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&server_address), sizeof server_address) != 0 ||
      ::connect(server.get(), reinterpret_cast<const sockaddr*>(&client_address), sizeof client_address) != 0)
    fail("UDP sockets do not connect");
  std::thread echo([&] {
    char got = 0;
    while (::recv(server.get(), &got, 1, 0) == 1 && got != 'q') static_cast<void>(::send(server.get(), &got, 1, 0));
  });
  std::vector<Nanoseconds> times = measure(iterations, [&](std::size_t) {
    if (::send(client.get(), &byte, 1, 0) != 1 || ::recv(client.get(), &byte, 1, 0) != 1) fail("UDP echo failed");
  });
  byte = 'q';
  static_cast<void>(::send(client.get(), &byte, 1, 0));
  echo.join();
  return times;
}

// Two contexts that use only the datagrams of an RDMA device; empty if there is no such device.
class FabricPair {
 public:
  explicit FabricPair(const MulticastOptions& usual) {
#ifdef RIPC_WITH_VERBS
    const Result<std::shared_ptr<const ripc::internal::verbs::DeviceList>> devices =
        ripc::internal::verbs::DeviceList::open();
    if (!devices.ok()) return;
    MulticastOptions options = usual;
    options.udp = false;
    options.ttl = 1;
    options.interfaces.clear();
    for (std::unique_ptr<Context>* context : {&holder_, &asker_}) {
      Result<MulticastResolver::Networks> networks = ripc::internal::capi::fabric_networks(options, *devices);
      if (!networks.ok()) fail(std::string(networks.status().text()));
      *context = std::make_unique<Context>(options, std::move(*networks));
    }
    record_ = holder_->publish("files");
    is_there_ = asker_->resolver->resolve(record_.id, Deadline::after(kSecond)).ok();
#else
    static_cast<void>(usual);
#endif
  }
  std::vector<Nanoseconds> measure_resolves(std::size_t count) const {
    if (!is_there_) return {};
    return measure(count, [&](std::size_t) {
      asker_->resolver->invalidate(record_);
      if (!asker_->resolver->resolve(record_.id, Deadline::after(kSecond)).ok()) fail("not found over the fabric");
    });
  }

 private:
  std::unique_ptr<Context> holder_;
  std::unique_ptr<Context> asker_;
  ripc::internal::spi::ServiceRecord record_;
  bool is_there_ = false;
};

int run_latency() {
  constexpr std::size_t kIterations = 2000;
  const MulticastOptions options = make_options();
  const Context holder(options);
  const Context asker(options);
  const ripc::internal::spi::ServiceRecord record = holder.publish("files");
  static_cast<void>(asker.resolver->resolve(record.id, Deadline::after(kSecond)));
  const FabricPair fabric(options);
  // The measurements alternate, so that all see the machine in the same state.
  std::vector<Nanoseconds> udp;
  std::vector<Nanoseconds> resolve;
  std::vector<Nanoseconds> by_fabric;
  for (int round = 0; round < 5; ++round) {
    const std::vector<Nanoseconds> bare = measure_udp(kIterations);
    const std::vector<Nanoseconds> cold = measure(kIterations, [&](std::size_t) {
      asker.resolver->invalidate(record);
      if (!asker.resolver->resolve(record.id, Deadline::after(kSecond)).ok()) fail("not found");
    });
    const std::vector<Nanoseconds> other = fabric.measure_resolves(kIterations);
    by_fabric.insert(by_fabric.end(), other.begin(), other.end());
    udp.insert(udp.end(), bare.begin(), bare.end());
    resolve.insert(resolve.end(), cold.begin(), cold.end());
  }
  std::sort(udp.begin(), udp.end());
  std::sort(resolve.begin(), resolve.end());
  std::sort(by_fabric.begin(), by_fabric.end());
  const auto at = [](const std::vector<Nanoseconds>& times, double part) {
    return times[static_cast<std::size_t>(static_cast<double>(times.size() - 1) * part)];
  };
  std::printf(
      "{\"udp_rtt_ns\": {\"p50\": %lu, \"p99\": %lu}, \"cold_resolve_ns\": {\"p50\": %lu, \"p99\": %lu}, "
      "\"ratio_p50\": %.2f, \"questions\": %lu, \"resolves\": %zu}\n",
      at(udp, 0.5), at(udp, 0.99), at(resolve, 0.5), at(resolve, 0.99),
      static_cast<double>(at(resolve, 0.5)) / static_cast<double>(at(udp, 0.5)),
      asker.resolver->counters().questions_sent, resolve.size());
  if (!by_fabric.empty())
    std::printf("{\"fabric_cold_resolve_ns\": {\"p50\": %lu, \"p99\": %lu}}\n", at(by_fabric, 0.5),
                at(by_fabric, 0.99));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "latency") return run_latency();
  const std::size_t services = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const std::size_t contexts = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100;
  if (argc > 3 || services == 0 || contexts == 0 || contexts > services) {
    std::fprintf(stderr, "usage: %s [SERVICES [CONTEXTS]] | latency\n", argv[0]);
    return 2;
  }
  return run_traffic(services, contexts);
}
