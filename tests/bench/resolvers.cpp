// SPDX-License-Identifier: Apache-2.0
// Measures how long it takes to find, publish and move a service, with a ZooKeeper ensemble and with multicast. The
// script scripts/bench-resolvers runs it; $RIPC_ZOOKEEPER names the ensemble. The contexts share this process; their
// messages go over sockets.
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "core/service_id.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#include "resolver/zookeeper/directory_resolver.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"
#include "ripc/ripc.hpp"

namespace {

using namespace ripc::internal;  // NOLINT: this program is about nothing else
using Times = std::vector<Nanoseconds>;

constexpr int kRounds = 300;
constexpr int kServices = 10'000;
constexpr Nanoseconds kPatience = 60'000'000'000;

Result<ripc_service_id> hash_name(std::string_view name) { return core::service_id_from_name(name); }

[[noreturn]] void give_up(std::string_view what) {
  std::fprintf(stderr, "bench_resolvers: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

void check(const Status& status) {
  if (!status.ok()) give_up(status.text());
}

void print(const char* resolver, const char* what, Times times, const char* more = "") {
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return static_cast<double>(times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))]) / 1000;
  };
  std::printf("%-10s %-34s %10.1f us median %10.1f us p99 %s\n", resolver, what, at(0.5), at(0.99), more);
  std::fflush(stdout);
}

template <typename Work>
Nanoseconds time_of(const Work& work) {
  const Nanoseconds began = monotonic_now();
  work();
  return monotonic_now() - began;
}

spi::ServiceRecord record_of(ripc_service_id id, std::uint64_t context) {
  spi::ServiceRecord record;
  record.id = id;
  record.context = context;
  record.pid = 1;
  record.addresses = {{"socket",
                       "ctx=0123456789abcdef;host=0123456789abcdef0123456789abcdef.4026531833;port=40000;"
                       "ip=192.0.2.2;ip=2001:db8::2"},
                      {"shm", "#0123456789abcdef"}};
  return record;
}

template <typename Resolver>
struct Side {
  std::uint64_t context;
  std::unique_ptr<Resolver> resolver;
};

std::string servers() {
  const char* text = std::getenv("RIPC_ZOOKEEPER");
  if (text == nullptr) give_up("RIPC_ZOOKEEPER is not set: run scripts/bench-resolvers");
  return text;
}

resolver::ZooKeeperOptions ensemble() {
  Result<resolver::ZooKeeperOptions> options = resolver::parse_zookeeper_options(servers());
  check(options.status());
  return *options;
}

Side<resolver::DirectoryResolver> zookeeper_side(const std::shared_ptr<const ClusterKeys>& keys) {
  auto directory = resolver::ZooKeeperDirectory::create(ensemble());
  check(directory.status());
  resolver::DirectoryOptions options;
  options.credentials.keys = keys;
  options.hash_name = hash_name;
  options.patience = kPatience;
  const std::uint64_t context = random_u64() | 1;
  auto made = resolver::DirectoryResolver::create(std::move(*directory), options, context);
  check(made.status());
  // The resolver is linked before anything is measured.
  (void)(*made)->resolve(1, Deadline::after(0));
  while (!(*made)->state().is_linked) std::this_thread::yield();
  return {context, std::move(*made)};
}

Side<resolver::MulticastResolver> multicast_side(const std::shared_ptr<const ClusterKeys>& keys) {
  Result<resolver::MulticastOptions> options = resolver::parse_multicast_options("239.255.82.73:27999%lo,ttl=0");
  check(options.status());
  options->credentials.keys = keys;
  options->hash_name = hash_name;
  options->fabric = false;
  const std::uint64_t context = random_u64() | 1;
  auto made = resolver::MulticastResolver::create(*options, context);
  check(made.status());
  return {context, std::move(*made)};
}

template <typename Make>
void measure(const char* name, const std::shared_ptr<const ClusterKeys>& keys, const Make& make, int most) {
  const auto holder = make(keys);
  Times publish;
  Times cold;
  Times cached;
  for (int i = 0; i < most; ++i) {
    const ripc_service_id id = 1'000'000 + static_cast<ripc_service_id>(i);
    spi::ServiceRecord record = record_of(id, holder.context);
    publish.push_back(time_of([&] { check(holder.resolver->publish(record, false, nullptr)); }));
  }
  // Made only now, it has heard no announcement of them.
  const auto asker = make(keys);
  for (int i = 0; i < most; ++i) {
    const ripc_service_id id = 1'000'000 + static_cast<ripc_service_id>(i);
    const auto resolve = [&] { check(asker.resolver->resolve(id, Deadline::after(kPatience)).status()); };
    cold.push_back(time_of(resolve));
    cached.push_back(time_of(resolve));
  }
  print(name, "publish a number", publish);
  print(name, "resolve, not known", cold);
  print(name, "resolve, known", cached);
}

// Measures the round trip of a read and of a write, with the client alone.
void measure_round_trips() {
  class Waiter final : public resolver::Directory::Listener {
   public:
    void link_up(std::uint64_t session, bool) override {
      session_ = session;
      tell();
    }
    std::uint64_t session() const { return session_; }
    void link_down() override {}
    void changed(std::string_view) override {}
    void tell() {
      const std::lock_guard lock(mutex_);
      ++count_;
      changed_.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return count_ != 0; });
      --count_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int count_ = 0;
    std::atomic<std::uint64_t> session_{0};
  } waiter;
  using resolver::Directory;
  auto directory = resolver::ZooKeeperDirectory::create(ensemble());
  check(directory.status());
  check((*directory)->start(waiter));
  waiter.wait();
  Times reads;
  Times writes;
  for (int i = 0; i < kRounds; ++i) {
    const std::string path = "/s/00/bench-" + std::to_string(i);
    const auto done = [&](const Directory::Answer&) { waiter.tell(); };
    writes.push_back(time_of([&] {
      (*directory)->commit(waiter.session(), {{Directory::Write::Kind::create, path, std::string(300, 'x'), {}}}, done);
      waiter.wait();
    }));
    reads.push_back(time_of([&] {
      (*directory)->get(path, Directory::Read::plain, done);
      waiter.wait();
    }));
  }
  print("zookeeper", "one round trip, read", reads);
  print("zookeeper", "one round trip, write", writes);
  (*directory)->stop();
}

// Measures whole contexts: one after the other takes over the ID, while a client keeps sending.
void measure_moves(const char* name, bool by_zookeeper, int rounds) {
  char folder[] = "/tmp/ripc-bench-XXXXXX";
  if (::mkdtemp(folder) == nullptr) give_up("no temporary folder");
  const std::string key = std::string(folder) + "/key";
  if (!ripc::create_cluster_key(key).ok()) give_up("no key");
  const auto context = [&](int number) {
    const std::string runtime = std::string(folder) + "/" + std::to_string(number);
    ::mkdir(runtime.c_str(), 0700);
    ripc::ContextOptions options;
    options.runtime_directory = runtime;
    options.transports = "socket";
    options.cluster_key_file = key;
    options.zookeeper = by_zookeeper ? servers() : "off";
    auto made = ripc::Context::create(options);
    if (!made.ok()) give_up(ripc_last_error());
    return std::move(*made);
  };
  ::setenv("RIPC_MULTICAST", by_zookeeper ? "off" : "239.255.82.73:27998%lo,ttl=0", 1);
  std::vector<ripc::Context> hosts;
  hosts.push_back(context(0));
  hosts.push_back(context(1));
  ripc::Context client_context = context(2);
  auto client = client_context.register_service();
  constexpr ripc_service_id kMoving = 77;
  Times from_start;
  Times from_end;
  int failed = 0;
  auto first = hosts[0].register_service({.id = kMoving});
  if (!first.ok()) give_up(ripc_last_error());
  ripc::Service present = std::move(*first);
  for (int i = 1; i <= rounds; ++i) {
    std::atomic<bool> is_over{false};
    std::jthread sender([&] {
      while (!is_over) {
        const ripc_status status = client->send(kMoving, ripc::bytes_of("x")).code();
        if (status != RIPC_OK && status != RIPC_AGAIN) ++failed;
        // The pause leaves the processor to the servers, which also run here.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    if (auto got = present.receive(std::chrono::seconds(20)); !got.ok())
      give_up(("no message at the former holder: " + std::string(got.error().text())).c_str());
    const Nanoseconds began = monotonic_now();
    auto next = hosts[static_cast<std::size_t>(i % 2)].register_service({.id = kMoving, .takeover = true});
    const Nanoseconds registered = monotonic_now();
    if (!next.ok()) give_up(ripc_last_error());
    if (auto got = next->receive(std::chrono::seconds(20)); !got.ok())
      give_up(("no message at the new holder: " + std::string(got.error().text())).c_str());
    const Nanoseconds arrived = monotonic_now();
    is_over = true;
    from_start.push_back(arrived - began);
    from_end.push_back(arrived - registered);
    present = std::move(*next);
  }
  print(name, "move: to the first message", from_start, ("failed sends: " + std::to_string(failed)).c_str());
  print(name, "move: of that, after registering", from_end);
}

void measure_many(const std::shared_ptr<const ClusterKeys>& keys) {
  auto holder = zookeeper_side(keys);
  auto asker = zookeeper_side(keys);
  const Nanoseconds start = time_of([&] {
    for (int i = 0; i < kServices; ++i) {
      spi::ServiceRecord record =
          record_of((ripc_service_id{3} << 62) + static_cast<ripc_service_id>(i), holder.context);
      check(holder.resolver->publish(record, false, nullptr));
    }
    while (holder.resolver->state().unsettled != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const resolver::DirectoryCounters counters = holder.resolver->state().counters;
  std::printf("zookeeper  publish %d services: %.2f s; %llu writes, %llu reads\n", kServices,
              static_cast<double>(start) / 1e9, static_cast<unsigned long long>(counters.writes),
              static_cast<unsigned long long>(counters.reads));
  std::size_t listed = 0;
  const Nanoseconds list = time_of([&] { check(asker.resolver->list([&](const spi::ServiceRecord&) { ++listed; })); });
  std::printf("zookeeper  list %zu services: %.2f s\n", listed, static_cast<double>(list) / 1e9);
  const Nanoseconds watch = time_of([&] {
    for (int i = 0; i < kServices; ++i)
      (void)asker.resolver->resolve((ripc_service_id{3} << 62) + static_cast<ripc_service_id>(i), Deadline::after(0));
    while (asker.resolver->state().services != kServices) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::printf("zookeeper  resolve and watch %d services: %.2f s\n", kServices, static_cast<double>(watch) / 1e9);
  const Nanoseconds end = time_of([&] { holder.resolver.reset(); });
  const Nanoseconds seen = time_of([&] {
    while (asker.resolver->state().services != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::printf("zookeeper  end of their context: %.2f s; all ends seen after %.2f s more\n",
              static_cast<double>(end) / 1e9, static_cast<double>(seen) / 1e9);
}

// Counts the requests that one move costs the ensemble.
void count_requests(const std::shared_ptr<const ClusterKeys>& keys) {
  auto one = zookeeper_side(keys);
  auto two = zookeeper_side(keys);
  auto asker = zookeeper_side(keys);
  constexpr ripc_service_id kCounted = 78;
  spi::ServiceRecord record = record_of(kCounted, one.context);
  check(one.resolver->publish(record, false, nullptr));
  check(asker.resolver->resolve(kCounted, Deadline::after(kPatience)).status());
  const auto total = [&](auto& side) {
    const resolver::DirectoryCounters counters = side.resolver->state().counters;
    return std::pair(counters.reads, counters.writes);
  };
  const auto before_two = total(two);
  const auto before_asker = total(asker);
  const auto before_one = total(one);
  spi::ServiceRecord taken = record_of(kCounted, two.context);
  check(two.resolver->publish(taken, true, nullptr));
  const auto is_followed = [&] {
    const auto found = asker.resolver->resolve(kCounted, Deadline::after(0));
    return found.ok() && found->context == two.context && one.resolver->state().counters.fenced == 1;
  };
  while (!is_followed()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for requests that are counted late
  const auto print_side = [&](const char* who, auto before, auto after) {
    std::printf("zookeeper  requests of a move, %s: %llu reads, %llu writes\n", who,
                static_cast<unsigned long long>(after.first - before.first),
                static_cast<unsigned long long>(after.second - before.second));
  };
  print_side("new holder", before_two, total(two));
  print_side("former holder", before_one, total(one));
  print_side("each other who knows it", before_asker, total(asker));
}

}  // namespace

int main() {
  const auto keys = *ClusterKeys::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "bench");
  measure_round_trips();
  measure("zookeeper", keys, zookeeper_side, kRounds);
  measure("multicast", keys, multicast_side, kRounds / 3);
  measure_moves("zookeeper", true, 100);
  measure_moves("multicast", false, 100);
  count_requests(keys);
  measure_many(keys);
  return 0;
}
